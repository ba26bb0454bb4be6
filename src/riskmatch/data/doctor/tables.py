"""Examine tables: leaking columns, domains of one class, duplicates across domains, drift."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from riskmatch.data.columns import LARGEST, InputColumn
from riskmatch.data.doctor.findings import Finding, Severity
from riskmatch.data.doctor.groups import check_columns
from riskmatch.data.doctor.lifts import check_lifts
from riskmatch.data.labels import NUMBER, summary
from riskmatch.data.table import TableDomains
from riskmatch.statistics import ks_distance
from riskmatch.validation import listed

SAMPLE = 20_000
"""Rows that leaks are searched in."""
LEAK = 0.98
"""Share of the errors of a constant guess that a column avoids by itself if it leaks."""
FEW = 50
"""Rows of a domain from which it is not warned about."""
DRIFT = 0.1
"""Least distance between a domain and the others that is reported."""
MAX_DRIFT = 10
"""Most columns whose drift is reported."""
IDENTIFIER = 0.5
"""Share of different texts in the rows from which a column is an identifier."""
NUMBERS = 0.9
"""Share of numbers in the values of a column from which its texts are reported."""
_COMMA = re.compile(r"[+-]?\d[\d.]*(,\d+)?")

Floats = NDArray[np.float64]


def row_counts(table: TableDomains) -> dict[str, dict[str, int]]:
    """Number of rows by domain and class or tag; a regression has the class ""."""

    def counts(y: Tensor) -> list[int]:
        if table.labels == "tags":
            return [int(count) for count in y.nansum(0)]
        return y.bincount(minlength=table.classes).tolist() if table.classes else [len(y)]

    names = table.class_names or ("",)
    return {d.name: dict(zip(names, counts(d.y), strict=True)) for d in table.domains}


def labels_of(table: TableDomains) -> dict[str, NDArray[Any]]:
    """Labels by domain."""
    return {domain.name: domain.y.numpy() for domain in table.domains}


def check_table(table: TableDomains) -> Iterator[Finding]:
    """Findings about a table; those on drift are ranked."""
    x = np.concatenate([domain.x[:].numpy() for domain in table.domains])
    y = np.concatenate([domain.y.numpy() for domain in table.domains])
    domains = np.repeat(np.arange(len(table.domains)), [len(domain) for domain in table.domains])
    yield from check_unlabelled(table.unlabelled)
    yield from _check_domains(table)
    if not table.classes:
        yield from check_labels(table.class_names, labels_of(table))
    leaks = [*_check_leaks(table, x, y, domains)]
    yield from leaks
    yield from check_lifts(table, x, y, {leak.column for leak in leaks if leak.severity == "fault"})
    yield from check_columns(table, x, y)
    yield from _check_duplicates(table, x, y, domains)
    yield from _check_drift(table, x, domains)


def check_labels(names: Sequence[str], labels: Mapping[str, NDArray[Any]]) -> Iterator[Finding]:
    """Findings about tags or numbers that say nothing, in a domain or in all."""
    described = summary(names, labels)
    tags = {tag: [shares[tag] for shares in described.values()] for tag in names}
    for tag, shares in tags.items():
        known = [share for share in shares if not np.isnan(share)]
        if not known or (len({*known}) == 1 and known[0] in (0, 1)):
            state = "missing from all rows" if not known else f"{known[0]:g} in all rows"
            message = f"is {state}, so nothing can be learnt about the tag"
            yield Finding("one-class", "fault", message, "Leave it out of the label.", column=tag)
    for domain, values in described.items():
        if values.keys() == {"mean", "spread"} and not names:
            if values["spread"] == 0 and len(labels[domain]) > 1:
                message = f"has the label {values['mean']:g} only, in {len(labels[domain]):,} rows"
                cure = "R² has no value there. Add rows, or join it with another domain."
                yield Finding("one-value", "warning", message, cure, domain=domain)
            continue
        single = [tag for tag, share in values.items() if share in (0, 1) or np.isnan(share)]
        single = [tag for tag in single if any(0 < share < 1 for share in tags[tag])]
        if single:
            message = f"has the same value of {listed(single)} in all rows where it is known"
            cure = "AUROC has no value for these tags there. Add rows that differ."
            yield Finding("one-class", "warning", message, cure, domain=domain)


def check_unlabelled(counts: Mapping[str, int]) -> Iterator[Finding]:
    """Findings on rows without a label, of which there are so many by domain."""
    for domain, number in counts.items():
        message = f"has no label in {number:,} rows"
        cure = "Fill them, or leave these rows out: --drop-missing-labels"
        yield Finding("missing-label", "fault", message, cure, domain=domain)


def _check_domains(table: TableDomains) -> Iterator[Finding]:
    if table.classes == 1:
        message = f"has one class only, '{table.class_names[0]}', so every prediction is right"
        yield Finding("one-class", "fault", message, "Choose another label, or add rows.")
    few = [domain for domain in table.domains if 2 <= len(domain) < FEW]
    if few:
        least = min(few, key=len)
        message = (
            f"has {len(few):,} of {len(table.domains):,} domains with fewer than {FEW} rows, the "
            f"smallest '{least.name}' with {len(least):,}: an accuracy there is off by "
            f"{50 / np.sqrt(len(least)):.0f} points or so by chance"
        )
        cure = "Join such domains, or add rows."
        yield Finding("few-rows", "warning", message, cure, column=table.domain)
    for domain in table.domains:
        if len(domain) < 2:
            message, cure = "has one row, and a split needs two", "Add rows, or drop the domain."
            yield Finding("small-domain", "fault", message, cure, domain=domain.name)
        elif table.classes > 1 and len(domain.y.unique()) == 1:
            name = table.class_names[int(domain.y[0])]
            message = f"has the class '{name}' only, in {len(domain):,} rows"
            cure = "Its risk is that of one class. Add rows, or join it with another domain."
            yield Finding("one-class", "warning", message, cure, domain=domain.name)


def _check_leaks(
    table: TableDomains, x: Floats, y: NDArray[Any], domains: NDArray[np.int64]
) -> Iterator[Finding]:
    rows = np.random.default_rng(0).permutation(len(x))[:SAMPLE]
    parts = [*_parts(table, y[rows])]
    for k, column in enumerate(table.columns):
        values = x[rows, k]
        if column.name in table.texts:
            values = np.where(np.isnan(values), len(table.texts[column.name]), values)
            distinct = len(table.texts[column.name])
            if numbers := numbers_as_texts(table, column.name):
                yield numbers
            elif distinct > IDENTIFIER * len(x) and distinct > 100:
                message = f"has {distinct:,} different texts in {len(x):,} rows, as an identifier"
                yield _finding("identifier", "warning", column, message)
        elif column.type == "number" and len(x) > 100 and _are_ids(x[:, k]):
            message = f"has another whole number in each of {len(x):,} rows, as an identifier"
            yield _finding("identifier", "warning", column, message)
        shares = {
            part: _explained(column, values[known], target, classes=table.labels != "numbers")
            for part, target, known in parts
        }
        part, share = max(shares.items(), key=lambda item: item[1])
        if share >= LEAK and table.classes != 1:
            message = f"determines {part} by itself: it explains {share:.1%} of it"
            yield _finding("label-leak", "fault", column, message)
        share = _explained(column, values, domains[rows], classes=True)
        if share >= LEAK:
            message = f"names the domain: it explains {share:.1%} of it, and a new one is unseen"
            yield _finding("domain-leak", "warning", column, message)


def _are_ids(values: Floats) -> bool:
    return bool((values % 1 == 0).all()) and len(np.unique(values)) == len(values)


def _parts(
    table: TableDomains, y: NDArray[Any]
) -> Iterator[tuple[str, NDArray[Any], NDArray[np.bool_]]]:
    """The label, or each tag: what it is called, its values, and the rows where it is known."""
    if y.ndim == 1:
        yield "the label", y, np.ones(len(y), bool)
        return
    for name, tag in zip(table.class_names, y.T, strict=True):
        known = ~np.isnan(tag)
        yield f"the tag '{name}'", tag[known].astype(np.int64), known


def numbers_as_texts(table: TableDomains, column: str) -> Finding | None:
    """A finding on a column of texts that are numbers but for a few, or for decimal commas."""
    texts = table.texts[column]
    k = [entry.name for entry in table.columns].index(column)
    codes = np.concatenate([domain.x[:, k].numpy() for domain in table.domains])  # type: ignore[index]
    if any("," in text for text in texts) and all(map(_COMMA.fullmatch, texts)):
        example = next(text for text in texts if "," in text)
        message = f"holds numbers with decimal commas, such as '{example}', which are read as texts"
        cure = "Write decimal points, and no separators of thousands."
        return Finding("decimal-comma", "warning", message, cure, column=column)
    present = codes[~np.isnan(codes)].astype(np.int64)
    is_number = np.array([NUMBER.fullmatch(text) is not None for text in texts])[present]
    stray = len(is_number) - is_number.sum()
    if not stray or (is_number.mean() < NUMBERS and not (stray == 1 and len(is_number) > 2)):
        return None
    rows = np.concatenate([table.rows[name].numpy() for name in table.names])[~np.isnan(codes)]
    others = np.flatnonzero(~is_number)
    first = others[rows[others].argmin()]
    message = (
        f"is read as texts: {is_number.sum():,} of {len(present):,} values are numbers; row "
        f"{rows[first]} is '{texts[present[first]]}'"
    )
    cure = "Correct such rows, or leave the value empty."
    return Finding("text-in-numbers", "warning", message, cure, column=column)


def _explained(column: InputColumn, x: Floats, target: NDArray[Any], *, classes: bool) -> float:
    """Share of the errors of a constant guess that a column avoids, on rows it was not fitted to.

    Numbers and dates are read by a decision tree, texts by the most frequent class or the mean
    target of each.
    """
    half = len(x) // 2
    if half < 2:
        return 0.0
    read = _read_texts if column.type in ("category", "boolean") else _read_numbers
    predicted = read(x[:half], target[:half], x[half:], classes)
    constant = _guess(target[:half], classes)
    if classes:
        errors, least = np.mean(predicted != target[half:]), np.mean(target[half:] != constant)
    else:
        errors = np.mean((predicted - target[half:]) ** 2)
        least = np.mean((target[half:] - constant) ** 2)
    return float(1 - errors / least) if least > 0 else 0.0


def _guess(target: NDArray[Any], classes: bool) -> Any:
    """The most frequent class, or the mean target."""
    return np.bincount(target).argmax() if classes else target.mean()


def _read_texts(x: Floats, target: NDArray[Any], new: Floats, classes: bool) -> NDArray[Any]:
    import pandas as pd

    guesses = pd.Series(target).groupby(x).agg(lambda group: _guess(group.to_numpy(), classes))
    return pd.Series(new).map(guesses).fillna(_guess(target, classes)).to_numpy()


def _read_numbers(x: Floats, target: NDArray[Any], new: Floats, classes: bool) -> NDArray[Any]:
    from sklearn.tree import (  # type: ignore[import-untyped]
        DecisionTreeClassifier,
        DecisionTreeRegressor,
    )

    # Missing is below all numbers: up to scikit-learn 1.7 no split divides NaN from one value.
    x, new = (np.nan_to_num(values, nan=-LARGEST) for values in (x, new))
    tree = DecisionTreeClassifier if classes else DecisionTreeRegressor
    leaves = max(256, 4 * len(np.unique(target))) if classes else 256
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of many classes
        fitted = tree(max_leaf_nodes=leaves, random_state=0).fit(x[:, None], target)
    predicted: NDArray[Any] = fitted.predict(new[:, None])
    return predicted


def _check_duplicates(
    table: TableDomains, x: Floats, y: NDArray[Any], domains: NDArray[np.int64]
) -> Iterator[Finding]:
    """For each domain, the rows that another domain has too, label included."""
    whole = np.ascontiguousarray(np.column_stack([x, y.astype(np.float64)]))
    keys = whole.view([("", np.void, whole.itemsize * whole.shape[1])]).ravel()
    _, groups = np.unique(keys, return_inverse=True)
    present = np.zeros((groups.max() + 1, len(table.domains)), dtype=bool)
    present[groups, domains] = True
    shared = present.sum(1) > 1
    numbers = np.concatenate([table.rows[name].numpy() for name in table.names])
    for d, name in enumerate(table.names):
        mine = (domains == d) & shared[groups]
        if not mine.any():
            continue
        others = present[groups[mine]].sum(0)
        others[d] = 0
        partner = int(others.argmax())
        group = next(g for g in groups[mine] if present[g, partner])
        rows = [numbers[(groups == group) & (domains == k)][0] for k in (d, partner)]
        count, size = int(mine.sum()), int((domains == d).sum())
        message = (
            f"shares {count:,} of {size:,} rows with other domains, most with "
            f"'{table.names[partner]}' (such as row {rows[0]} and row {rows[1]})"
        )
        cure = "Keep each row in one domain, or a test on one domain is no test."
        yield Finding("duplicate", "warning", message, cure, domain=name)


def _check_drift(table: TableDomains, x: Floats, domains: NDArray[np.int64]) -> Iterator[Finding]:
    """The columns that differ most between a domain and the others, the largest first."""
    drifts = []
    for k, column in enumerate(table.columns):
        text = column.name in table.texts
        distances = [
            (distance, d)
            for d, inside in enumerate(domains == d for d in range(len(table.domains)))
            if (distance := _distance(x[inside, k], x[~inside, k], text))
            >= _chance(x[:, k], inside, text)
        ]
        if distances:
            drifts.append((*max(distances), k, text))
    for distance, most, k, text in sorted(drifts, reverse=True)[:MAX_DRIFT]:
        measure = "total variation" if text else "Kolmogorov–Smirnov distance"
        message = f"differs most in '{table.names[most]}': {measure} {distance:.2f} to the others"
        yield _finding("drift", "note", table.columns[k], message)


def _chance(values: Floats, inside: NDArray[np.bool_], text: bool) -> float:
    """Distance that domains of this size may have by chance, but at least :data:`DRIFT`.

    The 1 % point of the Kolmogorov–Smirnov statistic; of texts, a bound on the mean of the total
    variation is added.
    """
    scale = np.sqrt(1 / inside.sum() + 1 / (~inside).sum())
    factor = 1.63 + 0.4 * np.sqrt(len(np.unique(values)) - 1) * text
    return max(DRIFT, float(scale * factor))


def _distance(one: Floats, rest: Floats, text: bool) -> float:
    """Total variation of texts, or the largest gap between the distributions of numbers.

    Missing values count as one more text, or as a number below all others.
    """
    one, rest = (np.where(np.isnan(values), -np.inf, values) for values in (one, rest))
    if not text:
        return ks_distance(one, rest)
    points = np.unique(np.concatenate([one, rest]))
    shares = [np.searchsorted(points, values) for values in (one, rest)]
    counts = [np.bincount(codes, minlength=len(points)) / len(codes) for codes in shares]
    return float(np.abs(counts[0] - counts[1]).sum() / 2)


def _finding(type_: str, severity: Severity, column: InputColumn, message: str) -> Finding:
    cure = f"Leave it out: --ignore {column.name}"
    if type_ == "drift":
        cure = "Domains differ; leave out (--ignore) what will differ more in a new one."
    return Finding(type_, severity, message, cure, column=column.name)
