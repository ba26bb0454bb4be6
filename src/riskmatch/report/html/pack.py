"""Page data made small: what the charts need of them, and nothing twice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MOST_CLASSES = 30
"""With more classes a confusion matrix is a list of the pairs that are confused most."""
PAIRS = 20


def packed(data: Mapping[str, Any]) -> dict[str, Any]:
    """What the script reads of page data."""
    runs = [_run(run) for run in data["runs"]]
    return {
        "domains": list(dict.fromkeys(name for run in runs for name in run["domains"])),
        "differences": _rounded((data["comparison"] or {}).get("differences", [])),
        "runs": runs,
    }


def thin(charts: Mapping[str, Any]) -> None:
    """Leave out every other snapshot but the first and the last of each run, in place."""
    for run in charts["runs"]:
        shots = run["snapshots"]
        run["snapshots"] = [*shots[:-1:2], *shots[-1:]]


def domains_of(run: Mapping[str, Any]) -> list[str]:
    """Every domain of a run once: those trained on, those tested on, any others."""
    parts = (run["curves"]["accuracy"], run["confusion"], run["calibration"], run["hardest"])
    others = (name for part in parts for name in part)
    return list(dict.fromkeys([*run["training_domains"], *run["test_domains"], *others]))


def most_confused(matrix: Sequence[Sequence[int]], most: int = PAIRS) -> list[list[int]]:
    """The pairs of classes that are confused most: true class, predicted, samples, of how many.

    Example:
        >>> most_confused([[5, 1, 0], [0, 3, 0], [4, 0, 2]])
        [[2, 0, 4, 6], [0, 1, 1, 6]]
    """
    pairs = [
        [true, predicted, count, sum(row)]
        for true, row in enumerate(matrix)
        for predicted, count in enumerate(row)
        if count and true != predicted
    ]
    return sorted(pairs, key=lambda pair: -pair[2])[:most]


def _run(run: Mapping[str, Any]) -> dict[str, Any]:
    grids: dict[tuple[Any, ...], int] = {}

    def grid(values: Iterable[float]) -> int:
        """The number of a series that many distributions share."""
        return grids.setdefault(tuple(_rounded(list(values))), len(grids))

    snapshots = [
        {
            "step": shot["step"],
            "mmd": _rounded(shot["mmd"]),
            "domains": {
                name: {
                    **_rounded({key: d[key] for key in ("n", "mean", "heights", "density", "cdf")}),
                    "edges": grid(d["edges"]),
                    "x": grid(d["x"]),
                }
                for name, d in shot["domains"].items()
            },
        }
        for shot in run["snapshots"]
    ]
    few = len(run["classes"]) <= MOST_CLASSES
    return {
        "domains": domains_of(run),
        "test": list(run["test_domains"]),
        "classes": list(run["classes"]),
        "curves": _rounded(run["curves"]),
        "snapshots": snapshots,
        "grids": [list(values) for values in grids],
        "confusion": {
            name: {"counts": matrix} if few else {"pairs": most_confused(matrix)}
            for name, matrix in run["confusion"].items()
        },
        "calibration": _rounded(run["calibration"]),
    }


def _rounded(value: Any) -> Any:
    """The same value with four significant digits in every float, and null where it has none."""
    if isinstance(value, float):
        return float(f"{value:.4g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(part) for part in value]
    return value
