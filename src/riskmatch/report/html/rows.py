"""Rows of the tables that the page shows of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from riskmatch.report.html.pack import domains_of

FINAL = (
    "domain",
    "used for",
    "accuracy, training split (%)",
    "accuracy, validation split (%)",
    "mean risk, validation",
    "ECE (%)",
)


def final_rows(run: Mapping[str, Any]) -> list[list[Any]]:
    """How each domain stands at the last evaluation; the columns are ``FINAL``."""
    curves = run["curves"]
    return [
        [
            domain,
            "test" if domain in run["test_domains"] else "training",
            _percent(_last(curves["accuracy"], domain, "train")),
            _percent(_last(curves["accuracy"], domain, "val")),
            _last(curves["risk"], domain, "val"),
            _percent(run["calibration"].get(domain, {}).get("ece")),
        ]
        for domain in domains_of(run)
    ]


def hardest_table(examples: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    """The columns and rows of the hardest examples of a domain, where they are rows of a table.

    Example:
        >>> example = {"name": "3", "risk": 7.5, "label": "yes", "predicted": "no"}
        >>> example |= {"confidence": 0.99, "thumbnail": None, "row": {"age": "31"}}
        >>> columns, rows = hardest_table([example])
        >>> columns
        ['example', 'risk', 'truth', 'predicted', 'confidence (%)', 'age']
        >>> rows
        [['3', 7.5, 'yes', 'no', 99.0, '31']]
    """
    fields = list(dict.fromkeys(name for example in examples for name in example["row"] or {}))
    columns = ["example", "risk", "truth", "predicted", "confidence (%)", *fields]
    rows = [
        [
            *(example[name] for name in ("name", "risk", "label", "predicted")),
            _percent(example["confidence"]),
            *((example["row"] or {}).get(name) for name in fields),
        ]
        for example in examples
    ]
    return columns, rows


def _last(series: Mapping[str, Any], domain: str, split: str) -> float | None:
    values = series.get(domain, {}).get(split) or [None]
    last: float | None = values[-1]
    return last


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
