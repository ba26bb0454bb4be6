"""Find columns and file names that look like groups, and what a random split of them would leak."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riskmatch.data.doctor.findings import Finding
from riskmatch.data.images.index import STEM, ImageIndex
from riskmatch.data.splits import VALIDATION_SHARE
from riskmatch.data.table import MAX_CLASSES, TableDomains

LARGEST_MEAN = 100
"""Most samples that a group has on average; values of more are those of a feature."""
RECURRING = 0.2
"""Least share of the samples whose value occurs again."""
TOGETHER, MARGIN = 0.5, 0.1
"""Least excess agreement within values, as a share of the possible one, and absolute."""
PAIRS = 20
"""Fewest pairs of samples that such an agreement is estimated from."""
SHAPES = 0.05
"""Most different texts but for their digits, as a share of the texts, that are numbered."""
BINS = 10
"""Intervals of equal frequency that numbers are compared by."""
_PREFIXES = {"last": re.compile(r"(.+)[_\-. ]"), "first": re.compile(r"(.+?)[_\-. ]")}

Codes = NDArray[np.int64]


def leaked_share(groups: NDArray[Any]) -> float:
    """Expected share of validation samples whose group is trained on, if samples are split alone.

    A sample of a group of s leaks unless the other s − 1 are validation samples, too.

    Example:
        >>> leaked_share(np.array(["anna", "anna", "ben"]))  # 0.8 of two in three
        0.533...
    """
    _, places, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    return float(np.mean(1 - VALIDATION_SHARE ** (sizes[places] - 1.0)))


def recur(groups: Codes) -> bool:
    """Whether there are many groups, of a few samples each, of which a fair part recurs."""
    sizes = np.unique(groups, return_counts=True)[1]
    repeated = sizes[sizes > 1].sum() / len(groups)
    few = len(groups) <= LARGEST_MEAN * len(sizes)
    return len(sizes) > MAX_CLASSES and few and bool(repeated >= RECURRING)


def go_together(groups: Codes, others: Sequence[Codes], numbers: bool = False) -> bool:
    """Whether samples of one group agree in one of ``others`` more than those of neighbours do.

    Neighbours are groups whose values follow each other. If they are ``numbers``, neighbours must
    agree little more than any two samples, so that an age and what depends on it are no groups.
    """
    order = np.lexsort((np.random.default_rng(0).random(len(groups)), groups))
    same = groups[order][1:] == groups[order][:-1]
    if min(same.sum(), (~same).sum()) < PAIRS:
        return False
    for codes in others:
        equal = codes[order][1:] == codes[order][:-1]
        within, across = equal[same].mean(), equal[~same].mean()
        chance = float(np.sum(np.unique(codes, return_counts=True)[1] ** 2.0)) / len(codes) ** 2
        needed = max(MARGIN, TOGETHER * (1 - across), TOGETHER * (within - chance) * numbers)
        if within - across >= needed:
            return True
    return False


def check_columns(table: TableDomains, x: NDArray[Any], y: NDArray[Any]) -> Iterator[Finding]:
    """Columns of a table that look like groups; or, where the group is given, what it keeps apart.

    Args:
        table: the table.
        x: (n, columns) inputs of all domains.
        y: (n,) labels.
    """
    if table.group:
        groups = np.concatenate([d.groups.numpy() for d in table.domains if d.groups is not None])
        yield _given(groups, "rows", table.group)
        return
    columns = list(zip(table.columns, x.T, strict=True))
    coded = [_binned(values, column.name in table.texts) for column, values in columns]
    labels = _label_codes(y, table.classes > 0)
    for k, (column, values) in enumerate(columns):
        present = ~np.isnan(values)
        whole = column.type == "number" and (values[present] % 1 == 0).all()
        if column.type != "category" and not whole:
            continue
        groups = values[present].astype(np.int64)
        others = [codes[present] for j, codes in enumerate(coded) if j != k]
        others += [codes[present] for codes in labels]
        numbered = not whole and _numbered(table.texts[column.name])
        if recur(groups) and (numbered or go_together(groups, others, numbers=bool(whole))):
            yield _column_finding(column.name, groups, "rows")


def check_names(
    index: ImageIndex, columns: Mapping[str, Mapping[str, str]] | None = None
) -> Iterator[Finding]:
    """File names, and further columns of a manifest, that look like groups.

    Args:
        index: the images.
        columns: further columns of the manifest: texts by path; None for a folder.
    """
    if index.groups:
        yield _given(np.array(index.groups), "images")
        return
    labels = _label_codes(np.array(index.labels, dtype=float), index.classes > 0)
    stems = [PurePosixPath(path).stem for path in index.paths]
    coded = {
        name: _codes([texts.get(path, "") for path in index.paths])
        for name, texts in (columns or {}).items()
    }
    for name, groups in coded.items():
        others = [*labels, *(codes for other, codes in coded.items() if other != name)]
        numbered = _numbered((columns or {})[name].values())
        if recur(groups) and (numbered or go_together(groups, others)):
            yield _column_finding(name, groups, "images")
    in_column = "list them with it as a column, and keep them on one side: --group COLUMN"
    domains, groups = np.array(index.domains), _codes(stems)
    pairs = np.unique(np.stack([groups, domains]), axis=1)[0]
    several = np.flatnonzero(np.bincount(pairs) > 1)
    if np.isin(groups, several).mean() >= RECURRING and go_together(groups, labels):
        message = (
            f"has file names that recur in several domains, {len(several):,} of "
            f"{groups.max() + 1:,}, for images of the same class: {_leak(groups, 'images')}"
        )
        in_folder = f"keep them on one side of every split: --group {STEM}"
        cure = in_folder if columns is None else in_column
        cure = f"If images of one name show the same thing, {cure}"
        yield Finding("groups", "warning", message, cure)
        return
    cells = len(np.unique(np.stack([*labels, domains]), axis=1)[0])
    for place, pattern in _PREFIXES.items():
        matches = [pattern.match(stem) for stem in stems]
        prefixes = [match[1] if match else "" for match in matches]
        sizes = Counter(prefixes)
        few = {prefix for prefix, size in sizes.items() if prefix and 1 < size <= LARGEST_MEAN}
        names = [p if p in few else path for p, path in zip(prefixes, index.paths, strict=True)]
        groups = _codes(names)
        if len(few) > 2 * cells and recur(groups):
            example = sorted(few, key=lambda prefix: (sizes[prefix], prefix))[len(few) // 2]
            message = (
                f"has file names with prefixes that recur, before the {place} separator, such as "
                f"'{example}': {_leak(groups, 'images')}"
            )
            cure = f"If images of one prefix belong together, {in_column}"
            yield Finding("groups", "warning", message, cure)
            return


def _given(groups: NDArray[Any], samples: str, column: str | None = None) -> Finding:
    """What is known about groups that are given."""
    count = f"has {len(np.unique(groups)):,} groups in {len(groups):,} {samples}"
    cure = "A split by group keeps the samples of a group on one side, in all domains."
    message = f"{count}: {_leak(groups, samples)}"
    return Finding("groups", "note", message, cure, column=column)


def _column_finding(name: str, groups: Codes, samples: str) -> Finding:
    number = len(np.unique(groups))
    message = (
        f"looks like groups: {number:,} values, each in {len(groups) / number:.1f} {samples} on "
        f"average: {_leak(groups, samples)}"
    )
    cure = f"If {samples} of one value belong together, keep them on one side of every split: "
    return Finding("groups", "warning", message, f"{cure}--group {name}", column=name)


def _leak(groups: NDArray[Any], samples: str) -> str:
    share = leaked_share(groups)
    return f"a random split would leak {share:.0%} of the validation {samples}"


def _numbered(texts: Collection[str]) -> bool:
    """Whether texts differ in their digits alone, as ``patient-12`` does."""
    shapes = {re.sub(r"\d+", "0", text) for text in texts}
    return len(shapes) <= SHAPES * len(set(texts))


def _binned(values: NDArray[Any], texts: bool) -> Codes:
    """Codes of texts and classes; intervals of numbers, with missing ones first."""
    codes: Codes = np.nan_to_num(values, nan=-1).astype(np.int64)
    if not texts:
        points = np.nanquantile(values, np.arange(1, BINS) / BINS)
        codes = np.where(np.isnan(values), -1, np.searchsorted(points, values))
    return codes


def _label_codes(y: NDArray[Any], classes: bool) -> list[Codes]:
    """Codes of labels (n,), or of each of tags (n, k)."""
    return [_binned(column, classes or y.ndim > 1) for column in y.reshape(len(y), -1).T]


def _codes(names: Sequence[str]) -> Codes:
    """Numbers of texts, in their order."""
    codes: Codes = np.unique(np.array(names), return_inverse=True)[1]
    return codes
