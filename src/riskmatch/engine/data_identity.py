"""Detect that the data of a run have changed since it started."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from weakref import WeakKeyDictionary

from torch import Tensor

from riskmatch.contract.task import labels_of
from riskmatch.data.catalogue import resolve
from riskmatch.data.domain import DomainSet, Labels
from riskmatch.data.splits import shared_domains
from riskmatch.data.table import TableDomains
from riskmatch.files import sha256
from riskmatch.models.embedding import hash_inputs
from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.lines import DataIdentity
from riskmatch.runs.records import RunRecord

# A sweep has hundreds of runs on one data set.
_identities: WeakKeyDictionary[DomainSet, DataIdentity] = WeakKeyDictionary()


class DataChangedError(ValueError):
    """The data are not those that the run was trained on so far."""


def identity_of(domains: DomainSet) -> DataIdentity:
    """Classes, number of samples and content of a data set; computed once per loaded data set.

    Stored images are not read: their cache knows the hash of their content.
    """
    if domains not in _identities:
        schema = []
        if isinstance(domains, TableDomains):
            columns = [[column.name, column.type] for column in domains.columns]
            schema = [json.dumps([columns, dict(domains.texts)])]
        parts = [part for domain in domains.domains for part in domain.parts]
        groups = [part.groups for part in parts if part.groups is not None]
        _identities[domains] = DataIdentity(
            domains.label_names,
            {domain.name: sum(map(len, domain.parts)) for domain in domains.domains},
            _hash(
                *schema,
                *(text for part in parts for text in (hash_inputs(part.x), _labels(part.y))),
                *map(_labels, groups),
            ),
            shared_domains(domains.domains),
        )
    return _identities[domains]


def identity_of_table(table: TableDomains, labels: Labels | None) -> DataIdentity:
    """Identity of a table whose label a run takes as ``labels``: a regression has no classes."""
    names = table.labelled(labels).label_names if labels else table.label_names
    return replace(identity_of(table), classes=names)


def identity_of_files(config: RunConfig, data_dir: Path | None) -> DataIdentity | None:
    """Identity of a run's data set of files; None if it has none.

    That of images has the names of the files alone, that of features and tables their content too.
    """
    try:
        labels = labels_of(config)
        named = resolve(config.data)
        if named.contents == "table":
            table = named.load(config.data_options)
            return identity_of_table(table, labels)  # type: ignore[arg-type]
        if named.contents == "features":
            features = named.load()
            return identity_of(features.labelled(labels) if labels else features)
        if named.contents != "images":
            return None
        index = named.index(data_dir, config.data_options)
    except (OSError, ValueError):
        return None  # a finished run can be shown without its data
    names = () if labels == "numbers" else index.class_names
    return DataIdentity(names, index.domain_sizes())


def with_identity(domains: DomainSet, identity: DataIdentity) -> DomainSet:
    """Give a data set of features the identity of the images they were computed from.

    Features differ in their last bits between machines; images do not.
    """
    _identities[domains] = identity
    return domains


def check_unchanged(record: RunRecord, current: DataIdentity, folder: Path) -> None:
    """Raise :class:`DataChangedError` if the run in ``folder`` started with other data.

    A record without an identity passes.
    """
    if record.data is not None and (changes := record.data.changes(current)):
        raise DataChangedError(
            f"The data have changed since this run started: {changes}. "
            f"Restore them to continue, or remove {folder} to start again."
        )


def check_files_unchanged(folder: Path, data_dir: Path | None) -> None:
    """Check like :func:`check_unchanged` by the names of image files, before any is read."""
    record = records.find(folder)
    if record is not None and (current := identity_of_files(record.config, data_dir)):
        check_unchanged(record, current, folder)


def warn_if_changed(record: RunRecord, domains: DomainSet | None, data_dir: Path | None) -> None:
    """Warn if the data differ from those that a finished run was trained on.

    Data that are not loaded are compared by the names of their files.
    """
    if record.data is None:
        return
    loaded = None if domains is None else identity_of(domains)
    current = loaded or identity_of_files(record.config, data_dir)
    if current is not None and (changes := record.data.changes(current)):
        warnings.warn(
            f"The data differ from those that this run was trained on: {changes}.", stacklevel=3
        )


def _labels(y: Tensor) -> str:
    return _hash(" ".join(map(str, y.tolist())))


def _hash(*texts: str) -> str:
    return sha256("\n".join(texts))[:16]
