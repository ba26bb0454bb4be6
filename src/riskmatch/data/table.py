"""Tables: one row per sample, a column with the domain and one or several with the label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from riskmatch.data.columns import InputColumn, read_texts, with_text_names
from riskmatch.data.domain import Domain, DomainSet, Labels
from riskmatch.data.images.manifest import COLUMNS as MANIFEST_COLUMNS
from riskmatch.data.labels import codes_of, label_columns, read_tags, warn_of_unlabelled
from riskmatch.data.preprocessing import TablePreprocessing
from riskmatch.data.splits import group_ids
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
    """Column of the label; several with commas between them."""
    domain: str = ""
    """Column of the domain."""
    group: str = ""
    """Column of the group; empty without."""
    unlabelled: Mapping[str, int] = field(default_factory=dict)
    """Number of rows without a label, which are left out, by domain."""

    def fitted(
        self, test_domains: Sequence[str] = (), *, labels: Labels | None = None
    ) -> DomainSet:
        """Inputs of a network, with preprocessing fitted to all domains but ``test_domains``.

        Args:
            test_domains: domains that the preprocessing does not see.
            labels: what the label is taken as, see :meth:`labelled`; by default what it is. The
                numbers of a regression are standardised on the training domains;
                ``preprocessing.restore_target`` is the inverse.

        Raises:
            ValueError: a domain is unknown, or the label does not fit.
        """
        training = [domain.name for domain in self.without(tuple(test_domains))]
        if labels not in (None, self.labels):
            return self.labelled(labels).fitted(test_domains)
        domains, classes, numbers = self.domains, self.classes, self.labels == "numbers"
        if too_many := self.too_many_classes():
            raise ValueError(
                f"The label {self.label!r} {too_many}. Choose another label, or a regression: "
                "--task regression (task='regression' in Python)."
            )
        chosen = [domain for domain in domains if domain.name in training]
        values = self.values(torch.cat([domain.x for domain in chosen]))  # type: ignore[misc]
        y = torch.cat([domain.y for domain in chosen]).double().numpy()
        preprocessing = TablePreprocessing.fit_values(
            self.columns, values, target=y if numbers else None
        )

        def prepared(domain: Domain) -> Domain:
            y = preprocessing.scale_target(domain.y) if numbers else domain.y
            x = preprocessing.transform_values(self.values(domain.x))  # type: ignore[arg-type]
            return replace(domain, x=x, y=y)

        return DomainSet(
            self.name,
            tuple(map(prepared, domains)),
            classes,
            class_names=self.class_names,
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


def load_table(
    source: Any,
    *,
    label: str | list[str] | None = None,
    domain: str | None = None,
    ignore: Sequence[str] = (),
    group: str | None = None,
    drop_missing_labels: bool = False,
) -> TableDomains:
    """Domains of a table.

    Args:
        source: path of a file ``.csv``, ``.tsv`` or ``.parquet``, or a data frame.
        label: column of the label: of the class, of numbers, or of lists of tags; or several
            columns, of which each is a tag, as a list or with commas between them.
        domain: column of the domain.
        ignore: columns to leave out.
        group: column of the group, such as a patient, whose rows are on one side of every split.
        drop_missing_labels: leave out rows without a label, which are counted in a warning.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the table cannot be used; the message names the column.
    """
    name = source.stem if isinstance(source, Path) else "data frame"
    frame = with_text_names(read_table(source) if isinstance(source, Path) else source)
    columns = list(frame.columns)
    labels = () if label is None else label_columns(label, columns)
    ignore = label_columns(ignore, columns)
    roles = {"label": labels, "domain": (domain,) if domain else ()}
    _check_roles(frame, name, {**roles, "group": (group,)} if group else roles, ignore)
    assert domain is not None
    features = [column for column in columns if column not in (*labels, domain, group, *ignore)]
    if not features or not len(frame):
        raise ValueError(
            f"A table needs rows, and at least one feature besides label={','.join(labels)!r} and "
            f"domain={domain!r}; '{name}' has {len(frame):,} rows and the columns "
            f"{listed(columns)}{' less ' + ', '.join(map(repr, ignore)) if ignore else ''}."
        )
    place, unlabelled = np.arange(1, len(frame) + 1), dict[str, int]()
    if drop_missing_labels:
        missing = frame[[*labels]].isna().all(axis=1).to_numpy()
        counts = frame[domain].loc[missing].astype(str).value_counts()
        unlabelled = {str(one): int(count) for one, count in counts.items()}
        frame, place = frame.loc[~missing], place[~missing]
        if frame.empty:
            raise ValueError(f"Column {','.join(labels)!r} has no labels; choose another label.")
        warn_of_unlabelled(source if isinstance(source, Path) else name, unlabelled)
    classes, class_names, y = _label([frame[column] for column in labels])
    domain_names, numbers = encoded(frame[domain], "domain")
    if len(domain_names) < 2:
        raise ValueError(
            f"Column {domain!r} names one domain only, '{domain_names[0]}'; choose another column."
        )
    schema = tuple(InputColumn.of(frame[column]) for column in features)
    arrays, texts = [], {}
    numbered = torch.from_numpy(place)
    for feature in schema:
        array = feature.read(frame[feature.name])
        if array.dtype == object:
            texts[feature.name], array = codes_of(array)
        arrays.append(np.where(np.isnan(array), np.nan, array))
    groups = None if group is None else encoded_groups(frame[group])
    whole = Domain("all", torch.from_numpy(np.stack(arrays, axis=1)), y, groups=groups)
    positions = [torch.from_numpy((numbers == k).nonzero()[0]) for k in range(len(domain_names))]
    return TableDomains(
        name,
        tuple(
            replace(whole.take(rows), name=name)
            for name, rows in zip(domain_names, positions, strict=True)
        ),
        classes=classes,
        class_names=class_names,
        columns=schema,
        texts=texts,
        rows={name: numbered[rows] for name, rows in zip(domain_names, positions, strict=True)},
        label=",".join(labels),
        domain=domain,
        group=group or "",
        unlabelled=unlabelled,
    )


def _check_roles(
    frame: DataFrame, name: str, roles: Mapping[str, Sequence[str]], ignore: Sequence[str]
) -> None:
    """Raise ``ValueError`` unless every role has columns of its own that are not ignored."""
    columns = list(frame.columns)
    for role, named in roles.items():
        if not named:
            raise ValueError(
                f"A table needs the column of the {role}: --{role} NAME ({role}=… in Python). "
                f"'{name}' has {listed(columns)} (a list of images has "
                f"{', '.join(MANIFEST_COLUMNS)})."
            )
    chosen = [column for named in roles.values() for column in named]
    for column in (*chosen, *ignore):
        if column in frame.index.names and column not in columns:
            raise ValueError(
                f"{column!r} is in the index of '{name}', no column: use frame.reset_index()."
            )
        check_option(f"column of '{name}'", column, columns)
    check_distinct(name, columns)
    if twice := [column for column, count in Counter(chosen).items() if count > 1]:
        same = [role for role, named in roles.items() if twice[0] in named]
        raise ValueError(
            f"{' and '.join(same)} are the same column {twice[0]!r} of '{name}'; name one each."
        )
    for role, named in roles.items():
        if both := {*named} & {*ignore}:
            raise ValueError(f"{min(both)!r} is the {role} of '{name}', so it cannot be ignored.")


def _label(columns: Sequence[Series[Any]]) -> tuple[int, tuple[str, ...], Tensor]:
    """Number of classes, names of classes or tags, and the label of each row.

    A column of numbers with fractions is the target of a regression.
    """
    if (tags := read_tags(columns, row_place)) is not None:
        return 0, tags[0], torch.from_numpy(tags[1])
    (values,) = columns
    if _has_fractions(values):
        _check_present(values, values.isna().to_numpy(), "label")
        return 0, (), torch.tensor(InputColumn(str(values.name), "number").read(values)).float()
    names, codes = encoded(values, "label")
    return len(names), names, torch.from_numpy(codes)


def row_place(row: int) -> str:
    """Place of a row of a table."""
    return f"row {row + 1}"


def _has_fractions(values: Series[Any]) -> bool:
    from pandas.api.types import is_float_dtype

    return is_float_dtype(values.dtype) and not bool((values.dropna() % 1 == 0).all())


def encoded(values: Series[Any], role: str) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Distinct values, sorted, and the number of each row's value."""
    if _has_fractions(values):
        name = str(values.name)
        raise ValueError(
            f"Column {name!r} has fractions; a {role} is text, integer, true or false."
        )
    texts = read_texts(values)
    names, codes = codes_of(texts)
    _check_present(values, np.isnan(codes), role)
    return names, codes.astype(np.int64)


def encoded_groups(values: Any, name: str | None = None, place: str = "") -> Tensor:
    """(n,) int64 group of each value; see :func:`~riskmatch.data.splits.group_ids`.

    Args:
        values: (n,) texts or integers.
        name: what errors call them; by default their own name.
        place: what errors begin with, such as ``pets.npz: ``.
    """
    import pandas as pd

    try:
        names, codes = encoded(pd.Series(values, name=name), "group")
    except ValueError as error:
        raise ValueError(f"{place}{error}") from error
    return group_ids(names)[torch.from_numpy(codes)]


def _check_present(values: Series[Any], missing: NDArray[np.bool_], role: str) -> None:
    if missing.any():
        raise ValueError(
            f"Column {str(values.name)!r} has {int(missing.sum()):,} missing values, the first in "
            f"row {int(missing.argmax()) + 1}, and every row needs a {role}. Fill them or drop the "
            f"rows{': --drop-missing-labels' if role == 'label' else ''}."
        )
