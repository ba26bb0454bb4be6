"""Cautions about domains that share images or objects, where leaving out one is not enough."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from riskmatch.data.images.benchmark import BENCHMARKS
from riskmatch.report.selected import Selected, choices_by_run

MAX_IMAGES = 2000
"""Larger data sets are not searched for near-duplicates; riskmatch data doctor searches any."""
DROP = 0.05
"""Smallest loss of accuracy that is reported."""


def lost_without_another_domain(selected: Selected) -> Iterator[str]:
    """Cautions from runs without two domains: where leaving out the second lowers accuracy."""
    table = selected.cases
    both = table[table["test_domain"].isna() & (table["test_domains"].map(len) == 2)]
    if both.empty:
        return
    split = both.assign(test_domain=both["test_domains"]).explode("test_domain", ignore_index=True)
    chosen = choices_by_run(replace(selected, cases=split)).drop(columns="trial")
    chosen = chosen.merge(both[["run", "test_domains", "trial"]], on="run")
    case = ["model", "variant", "test_domain", "trial"]
    pairs = chosen.sort_values("score", ascending=False).drop_duplicates([*case, "test_domains"])
    shared = pairs.merge(selected.chosen, on=case, suffixes=("", "_alone"))
    groups: Any = shared.groupby(["test_domains", "test_domain"])
    for (tests, domain), rows in groups:
        before, after = float(rows["accuracy_alone"].mean()), float(rows["accuracy"].mean())
        if before - after >= DROP:
            (other,) = (name for name in tests if name != domain)
            yield (
                f"Leaving out {other} as well lowers the accuracy on {domain} from "
                f"{100 * before:.1f} to {100 * after:.1f}: with {other} in training, the accuracy "
                f"on {domain} overestimates that on a new domain."
            )


def pictures_in_common(selected: Selected, data_dir: Path | None = None) -> Iterator[str]:
    """Cautions from the images: training domains that share images with a test domain."""
    name = str(selected.cases["own_data"].iloc[0])
    if name in BENCHMARKS and BENCHMARKS[name].images > MAX_IMAGES:
        return
    from riskmatch.data.catalogue import resolve  # imports torch

    try:
        data = resolve(name)
        if data.contents != "images":
            return
        index = data.index(data_dir)
    except (OSError, ValueError, ImportError, RuntimeError):
        return  # the notes on hardest samples name the cause
    if len(index) > MAX_IMAGES:
        return
    from riskmatch.data.doctor import siblings_in

    left_out = set(map(frozenset, selected.alone["test_domains"]))
    for one in siblings_in(index):
        family = set(one.domains)
        if any(tests & family and not family <= tests for tests in left_out):
            yield (
                f"{one.title} have {one.images} images in common: leaving out one of them "
                f"overestimates the accuracy on a new domain. {one.cure}"
            )
