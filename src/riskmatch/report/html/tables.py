"""Cells and rows of the tables on the page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from riskmatch.report.tables import format_cell

FINAL_COLUMNS = (
    "domain",
    "used for",
    "accuracy, training split (%)",
    "accuracy, validation split (%)",
    "mean risk, validation",
    "ECE (%)",
)
"""Columns of :func:`final_rows`."""


def percent(value: float | None) -> str:
    """A fraction in per cent, with one decimal.

    Example:
        >>> percent(0.71234), percent(None)
        ('71.2', '—')
    """
    return format_cell(_percent(value))


def text(value: Any) -> str:
    """A table cell, with three significant digits for floats below 10.

    Example:
        >>> text(0.12345), text(-70.0), text(1.2e-05), text(None), text([1, 2]), text("rdm")
        ('0.123', '−70.0', '1.2e−05', '—', '[1, 2]', 'rdm')
    """
    return format_cell(value, significant=True)


def settings(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Names and values of all settings; names inside a mapping are dotted.

    Example:
        >>> list(settings({"lr": 1e-05, "hparams": {"weight": 5.0}, "data_options": {}}))
        [('lr', '1e-05'), ('hparams.weight', '5.0'), ('data_options', '{}')]
    """
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from settings(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value if isinstance(value, str) else json.dumps(value)


def pick(row: Mapping[str, Any], *names: str) -> list[Any]:
    """Entries of a mapping by name, as a table row."""
    return [row[name] for name in names]


def domains_of(run: Mapping[str, Any]) -> list[str]:
    """All domains of a run: training domains, test domains, then any others."""
    parts = (run["curves"]["accuracy"], run["confusion"], run["calibration"], run["hardest"])
    others = (name for part in parts for name in part)
    return list(dict.fromkeys([*run["training_domains"], *run["test_domains"], *others]))


def final_rows(run: Mapping[str, Any]) -> list[list[Any]]:
    """Scores of each domain at the last evaluation; the columns are ``FINAL_COLUMNS``."""
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
    """Columns and rows of the hardest samples of a domain without pictures.

    Example:
        >>> example = {"name": "3", "risk": 7.5, "label": "yes", "predicted": "no"}
        >>> example |= {"confidence": 0.99, "thumbnail": None, "row": {"age": "31"}}
        >>> columns, rows = hardest_table([example])
        >>> columns
        ['sample', 'risk', 'label', 'predicted', 'confidence (%)', 'age']
        >>> rows
        [['3', 7.5, 'yes', 'no', 99.0, '31']]
    """
    features = list(dict.fromkeys(name for example in examples for name in example["row"] or {}))
    columns = ["sample", "risk", "label", "predicted", "confidence (%)", *features]
    rows = [
        [
            *pick(example, "name", "risk", "label", "predicted"),
            _percent(example["confidence"]),
            *((example["row"] or {}).get(name) for name in features),
        ]
        for example in examples
    ]
    return columns, rows


def _last(series: Mapping[str, Any], domain: str, split: str) -> float | None:
    values = series.get(domain, {}).get(split) or [None]
    last: float | None = values[-1]
    return last


def _percent(fraction: float | None) -> float | None:
    return None if fraction is None else 100 * fraction
