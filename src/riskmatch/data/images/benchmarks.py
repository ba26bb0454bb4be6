"""The five image benchmarks, whose facts are in ``benchmarks.json``.

Numbers of images are those of DomainBed (Gulrajani and Lopez-Paz, ICLR 2021). The URLs of files on
Google Drive skip the warning about their size.
"""

from __future__ import annotations

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
    files = [Download(**_tuples(file)) for file in facts["files"]]
    convert = _CONVERTERS[facts.get("convert", "unpack")]
    return Origin(**_tuples(facts | {"files": files, "convert": convert}))


def _benchmark(name: str, facts: dict[str, Any]) -> Benchmark:
    parts = [BenchmarkDomain(*part) for part in facts["parts"]]
    origins = [_origin(origin) for origin in facts["origins"]]
    return Benchmark(name, **_tuples(facts | {"parts": parts, "origins": origins}))


BENCHMARKS: dict[str, Benchmark] = {
    name: _benchmark(name, facts) for name, facts in layouts.FACTS.items()
}
