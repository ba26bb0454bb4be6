"""The five image benchmarks, whose facts are in ``benchmarks.json``.

Numbers of images are those of DomainBed (Gulrajani and Lopez-Paz, ICLR 2021). The URLs of files on
Google Drive skip the warning about their size.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from riskmatch.data.images import layouts
from riskmatch.data.images.archives import unpack_parquet
from riskmatch.data.images.benchmark import Benchmark, BenchmarkDomain, Download, Origin

_CONVERTERS: dict[str, layouts.Convert] = {
    "unpack": layouts.unpack,
    "parquet": unpack_parquet,
    "vlcs": layouts.convert_vlcs,
    "terraincognita": layouts.convert_terraincognita,
    "domainnet": layouts.convert_domainnet,
}


def _tuples(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in facts.items()}


def _origin(facts: dict[str, Any]) -> Origin:
    facts["files"] = [Download(**_tuples(file)) for file in facts["files"]]
    return Origin(**_tuples(facts | {"convert": _CONVERTERS[facts.get("convert", "unpack")]}))


def _benchmark(name: str, facts: dict[str, Any]) -> Benchmark:
    facts["parts"] = [BenchmarkDomain(*part) for part in facts["parts"]]
    facts["origins"] = list(map(_origin, facts["origins"]))
    return Benchmark(name, **_tuples(facts))


BENCHMARKS: dict[str, Benchmark] = {
    name: _benchmark(name, facts)
    for name, facts in json.loads(
        Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
    ).items()
}
