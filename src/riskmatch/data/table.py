"""Tables: one row per sample, one column with the label and one with the domain."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from riskmatch.data.columns import InputColumn, read_texts, with_text_names
from riskmatch.data.domain import Domain, DomainSet
from riskmatch.data.images.manifest import COLUMNS as MANIFEST_COLUMNS
from riskmatch.data.preprocessing import TablePreprocessing
from riskmatch.data.table_files import check_distinct, read_table
from riskmatch.validation import check_option, listed

if TYPE_CHECKING:
    from pandas import DataFrame, Series

MAX_CLASSES = 20
"""Classes that any label may have; more must be fewer than half of the rows."""


@dataclass(frozen=True, eq=False)
class TableDomains(DomainSet):
    """The domains of a table before preprocessing, which is fitted to the training domains.

    Inputs are (n, columns) in double precision: numbers as they are, dates as days since 1970, and
    the positions of texts in :attr:`texts`; missing values are NaN.
    """

    columns: tuple[InputColumn, ...] = ()
    """The features, in the order of the inputs."""
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Sorted values of the columns of categories and booleans, by name."""
    rows: Mapping[str, Tensor] = field(default_factory=dict)
    """(n,) number of each sample's row in the table, from 1, by domain."""
    label: str = ""
    """Column of the label."""
    domain: str = ""
    """Column of the domain."""

    def fitted(self, test_domains: Sequence[str] = (), *, regression: bool = False) -> DomainSet:
        """Inputs of a network, with preprocessing fitted to all domains but ``test_domains``.

        Args:
            test_domains: domains that the preprocessing does not see.
            regression: treat a numeric label with classes as a target. Targets are standardised on
                the training domains; ``preprocessing.restore_target`` is the inverse.

        Raises:
            ValueError: a domain is unknown, or the label does not fit.
        """
        training = [domain.name for domain in self.without(tuple(test_domains))]
        if regression and self.classes:
            return self.with_targets().fitted(test_domains)
        domains, classes = self.domains, self.classes
        if too_many := self.too_many_classes():
            raise ValueError(
                f"The label {self.label!r} {too_many}. Choose another label, or set the risk to "
                "squared or huber for a regression."
            )
        chosen = [domain for domain in domains if domain.name in training]
        values = self.values(torch.cat([domain.x for domain in chosen]))  # type: ignore[misc]
        y = torch.cat([domain.y for domain in chosen]).double().numpy()
        preprocessing = TablePreprocessing.fit_values(
            self.columns, values, target=None if classes else y
        )

        def prepared(domain: Domain) -> Domain:
            y = domain.y if classes else preprocessing.scale_target(domain.y)
            x = preprocessing.transform_values(self.values(domain.x))  # type: ignore[arg-type]
            return replace(domain, x=x, y=y)

        return DomainSet(
            self.name,
            tuple(map(prepared, domains)),
            classes,
            class_names=self.class_names if classes else (),
            preprocessing=preprocessing,
        )

    def too_many_classes(self) -> str | None:
        """How many classes there are in how many rows, where they are too many; else None."""
        rows = sum(map(len, self.domains))
        if self.classes <= MAX_CLASSES or 2 * self.classes <= rows:
            return None
        return f"has {self.classes:,} different values in {rows:,} rows, too many for classes"

    def values(self, x: Tensor) -> list[NDArray[Any]]:
        """The columns of inputs (n, columns), as :meth:`InputColumn.read` reads them."""
        columns = []
        for column, array in zip(self.columns, x.numpy().T, strict=True):
            if column.name in self.texts:
                texts = np.array([*self.texts[column.name], np.nan], dtype=object)
                array = texts[np.where(np.isnan(array), -1, array).astype(np.int64)]
            columns.append(array)
        return columns

    def describe(self) -> list[dict[str, Any]]:
        """Name, type, number of missing values and range or texts of each column, in words."""
        described = []
        x = torch.cat([domain.x[:] for domain in self.domains]).numpy()
        for column, array in zip(self.columns, x.T, strict=True):
            low, high = np.nanmin(array), np.nanmax(array)
            values = f"{low:g} … {high:g}"
            if column.type == "date":
                dates = np.floor([low, high]).astype("datetime64[D]")
                values = f"{dates[0]} … {dates[1]}"
            elif column.name in self.texts:
                texts = self.texts[column.name]
                values = ", ".join(texts[:3]) + (f" and {len(texts) - 3:,} more" * (len(texts) > 3))
            missing = int(np.isnan(array).sum())
            described.append(
                {"name": column.name, "type": column.type, "missing": missing, "values": values}
            )
        return described

    def with_targets(self) -> TableDomains:
        """The table with its classes as targets of a regression.

        Raises:
            ValueError: a class is no number.
        """
        try:
            targets = torch.tensor([float(name) for name in self.class_names])
        except ValueError:
            raise ValueError(
                f"A regression needs a label of numbers, and {self.label!r} holds "
                f"{self.class_names[-1]!r}. Choose another label, or the risk cross-entropy."
            ) from None
        domains = tuple(replace(domain, y=targets[domain.y]) for domain in self.domains)
        return replace(self, domains=domains, classes=0, class_names=())


def load_table(
    path: Path,
    *,
    label: str | None = None,
    domain: str | None = None,
    ignore: Sequence[str] = (),
) -> TableDomains:
    """Domains of a table in a file.

    Args:
        path: file ``.csv``, ``.tsv`` or ``.parquet``.
        label: column of the class, or of the target of a regression.
        domain: column of the domain.
        ignore: columns to leave out.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the table cannot be used; the message names the column.
    """
    return table_domains(read_table(path), path.stem, label, domain, ignore)


def table_domains(
    frame: DataFrame,
    name: str,
    label: str | None,
    domain: str | None,
    ignore: Sequence[str] = (),
) -> TableDomains:
    """Domains of a data frame; arguments as of :func:`load_table`."""
    frame = with_text_names(frame)
    columns = list(frame.columns)
    _check_roles(frame, name, {"label": label, "domain": domain}, ignore)
    assert label is not None
    assert domain is not None
    features = [column for column in columns if column not in (label, domain, *ignore)]
    if not features or not len(frame):
        raise ValueError(
            f"A table needs rows, and at least one feature besides the columns label={label!r} and "
            f"domain={domain!r}; '{name}' has {len(frame):,} rows and the columns "
            f"{listed(columns)}"
            f"{' less ' + ', '.join(map(repr, ignore)) if ignore else ''}."
        )
    class_names, y = _label(frame[label])
    domain_names, numbers = encoded(frame[domain], "domain")
    if len(domain_names) < 2:
        raise ValueError(
            f"Column {domain!r} names one domain only, '{domain_names[0]}'; choose a column with "
            "two or more."
        )
    schema = tuple(InputColumn.of(frame[column]) for column in features)
    arrays, texts = [], {}
    for feature in schema:
        array = feature.read(frame[feature.name])
        if array.dtype == object:
            texts[feature.name], array = _codes(array)
        arrays.append(np.where(np.isnan(array), np.nan, array))
    x = torch.from_numpy(np.stack(arrays, axis=1))
    positions = [torch.from_numpy((numbers == k).nonzero()[0]) for k in range(len(domain_names))]
    return TableDomains(
        name,
        tuple(
            Domain(name, x[rows], y[rows])
            for name, rows in zip(domain_names, positions, strict=True)
        ),
        classes=len(class_names),
        class_names=class_names,
        columns=schema,
        texts=texts,
        rows=dict(zip(domain_names, (rows + 1 for rows in positions), strict=True)),
        label=label,
        domain=domain,
    )


def _check_roles(
    frame: DataFrame, name: str, roles: Mapping[str, str | None], ignore: Sequence[str]
) -> None:
    """Raise ``ValueError`` unless every role has a column of its own that is not ignored."""
    columns = list(frame.columns)
    for role, column in roles.items():
        if column is None:
            raise ValueError(
                f"A table needs the column of the {role}: --{role} NAME ({role}=… in Python). "
                f"'{name}' has {listed(columns)} (a list of images has "
                f"{', '.join(MANIFEST_COLUMNS)})."
            )
    chosen = [column for column in roles.values() if column is not None]
    for column in (*chosen, *ignore):
        if column in frame.index.names and column not in columns:
            raise ValueError(
                f"{column!r} is in the index of '{name}', not among its columns: use "
                "frame.reset_index()."
            )
        check_option(f"column of '{name}'", column, columns)
    check_distinct(name, columns)
    if len({*chosen}) < len(chosen):
        raise ValueError(
            f"{' and '.join(roles)} are the same column {chosen[0]!r} of '{name}'; name one column "
            "each."
        )
    for role, column in roles.items():
        if column in ignore:
            raise ValueError(f"{column!r} is the {role} of '{name}', so it cannot be ignored.")


def _label(values: Series[Any]) -> tuple[tuple[str, ...], Tensor]:
    """Class names and the class of each row; no names and the targets if there are fractions."""
    if _has_fractions(values):
        _check_present(values, values.isna().to_numpy(), "label")
        return (), torch.tensor(InputColumn(str(values.name), "number").read(values)).float()
    names, codes = encoded(values, "label")
    return names, torch.from_numpy(codes)


def _has_fractions(values: Series[Any]) -> bool:
    from pandas.api.types import is_float_dtype

    return is_float_dtype(values.dtype) and not bool((values.dropna() % 1 == 0).all())


def encoded(values: Series[Any], role: str) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Distinct values, sorted, and the number of each row's value."""
    if _has_fractions(values):
        raise ValueError(
            f"Column {str(values.name)!r} has fractions; domains must be text, integers or true "
            "and false."
        )
    texts = read_texts(values)
    names, codes = _codes(texts)
    _check_present(values, np.isnan(codes), role)
    return names, codes.astype(np.int64)


def _codes(texts: NDArray[Any]) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Distinct texts, whole numbers sorted as such, and the number of each; NaN where missing."""
    import pandas as pd

    codes, distinct = pd.factorize(texts)
    whole = all(re.fullmatch(r"[+-]?\d+", text) for text in distinct)
    order = sorted(range(len(distinct)), key=lambda k: int(distinct[k]) if whole else distinct[k])
    rank = np.full(len(distinct) + 1, np.nan)
    rank[order] = np.arange(len(order))
    return tuple(str(distinct[k]) for k in order), rank[codes]


def _check_present(values: Series[Any], missing: NDArray[np.bool_], role: str) -> None:
    if missing.any():
        raise ValueError(
            f"Column {str(values.name)!r} has {int(missing.sum()):,} missing values, the first in "
            f"row {int(missing.argmax()) + 1}, and every row needs a {role}. Fill them or drop the "
            "rows."
        )
