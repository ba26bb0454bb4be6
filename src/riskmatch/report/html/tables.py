"""Cells and rows of the tables on the page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from riskmatch.report.page.data import MANY
from riskmatch.report.tables import Amount, format_cell


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
    return str(Amount(value)) if isinstance(value, float) else format_cell(value)


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
    """All domains of a run: those of the data set in its order, then any others."""
    parts = (run["curves"]["accuracy"], run["confusion"], run["calibration"], run["hardest"])
    others = (name for part in parts for name in part)
    named = [*run["domains"], *run["training_domains"], *run["test_domains"]]
    return list(dict.fromkeys([*named, *others]))


def scores_table(run: Mapping[str, Any]) -> tuple[str, list[str], list[list[Any]]]:
    """Caption, columns and rows of the scores of each domain, at the chosen step if there is one.

    The accuracy of a test domain on the first part of its samples is that of the headline.
    """
    curves, chosen = run["curves"], run["chosen_step"]
    place = curves["steps"].index(chosen) if chosen in curves["steps"] else -1
    first, second = (
        part.replace(" ", "\N{NO-BREAK SPACE}") for part in run["parts_of_domains"].values()
    )
    columns = [
        "domain",
        "used for",
        f"accuracy, {first} (%)",
        f"accuracy, {second} (%)",
        f"mean risk, {first}",
        f"mean risk, {second}",
    ]
    rows = [
        [
            domain,
            "test" if domain in run["test_domains"] else "training",
            *(_accuracy(run, domain, part, place) for part in run["parts_of_domains"]),
            *(_at(curves["risk"], domain, part, place) for part in run["parts_of_domains"]),
        ]
        for domain in domains_of(run)
    ]
    step = curves["steps"][place] if curves["steps"] else ""
    return f"Scores at step {step}" + ", the chosen one" * (place >= 0), columns, rows


def sample_count(samples: Mapping[str, Any]) -> str:
    """Number of samples that are shown of a domain, and how many are classified correctly.

    Example:
        >>> sample_count({"n": 157, "correct": 150, "of": 157})
        '150 of 157 samples right, 95.5 %'
        >>> sample_count({"n": 5000, "correct": 4000, "of": 10000})
        '4000 of 5000 samples (of 10000) right, 80.0 %'
    """
    n, correct, of = samples["n"], samples["correct"], samples["of"]
    some = f" (of {of})" if of is not None and of > n else ""
    return f"{correct} of {n} samples{some} right, {percent(correct / n if n else None)} %"


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


def _accuracy(run: Mapping[str, Any], domain: str, part: str, place: int) -> str | None:
    """Accuracy in per cent, with counts where one sample is more than 0.1 points."""
    share = _at(run["curves"]["accuracy"], domain, part, place)
    n = run["sizes"].get(domain, {}).get(part)
    if share is None or n is None or n >= MANY:
        return None if share is None else percent(share)
    return f"{percent(share)} ({round(share * n)} of {n})"


def _at(series: Mapping[str, Any], domain: str, part: str, place: int) -> float | None:
    values: list[float | None] = series.get(domain, {}).get(part) or [None]
    return values[place]


def _percent(fraction: float | None) -> float | None:
    return None if fraction is None else 100 * fraction
