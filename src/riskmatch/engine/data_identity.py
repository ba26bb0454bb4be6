"""Whether the data of a run are still those that it was trained on."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path
from weakref import WeakKeyDictionary

from torch import Tensor

from riskmatch.data.catalogue import resolve
from riskmatch.data.domain import Domain, DomainSet
from riskmatch.models.embedding import hash_inputs
from riskmatch.runs import records
from riskmatch.runs.identity import DataIdentity
from riskmatch.runs.records import RunRecord

# A sweep has hundreds of runs on one data set.
_known: WeakKeyDictionary[DomainSet, DataIdentity] = WeakKeyDictionary()


class DataChangedError(ValueError):
    """The data are not those that the run was trained on so far."""


def identity_of(domains: DomainSet) -> DataIdentity:
    """Classes, samples and content of a data set; found once for each that is loaded.

    Images are not read for it: the cache knows them by their content.
    """
    if domains not in _known:
        parts = [part for domain in domains.domains for part in _parts(domain)]
        _known[domains] = DataIdentity(
            domains.class_names or tuple(map(str, range(domains.classes))),
            {domain.name: sum(map(len, _parts(domain))) for domain in domains.domains},
            _hash(*(text for part in parts for text in (hash_inputs(part.x), _labels(part.y)))),
        )
    return _known[domains]


def listed(data: str, data_dir: Path | None) -> DataIdentity | None:
    """The identity of images by the names of their files; None where there are none to list."""
    try:
        named = resolve(data)
        if not named.has_image_files:
            return None
        index = named.index(data_dir)
    except (OSError, ValueError):
        return None  # without its data a run that is done can still be shown
    counts = {domain: sum(row.values()) for domain, row in index.counts().items()}
    return DataIdentity(index.class_names, counts)


def known_as(domains: DomainSet, identity: DataIdentity) -> DomainSet:
    """``domains``, to be told by the data that they were made from.

    Features differ in their last bits from machine to machine, their images do not.
    """
    _known[domains] = identity
    return domains


def check_unchanged(found: RunRecord, now: DataIdentity, folder: Path) -> None:
    """Raise :class:`DataChangedError` where the run in ``folder`` began with other data.

    A record that does not say what its data were passes.
    """
    if found.data is not None and (changes := found.data.changes(now)):
        raise DataChangedError(
            f"The data have changed since this run began: {changes}. "
            f"Restore them to go on, or remove {folder} to start again."
        )


def check_files(folder: Path, data_dir: Path | None) -> None:
    """As :func:`check_unchanged`, by the names of the files of images, before any is read."""
    found = records.find(folder)
    if found is not None and (now := listed(found.config.data, data_dir)) is not None:
        check_unchanged(found, now, folder)


def warn_if_changed(found: RunRecord, domains: DomainSet | None, data_dir: Path | None) -> None:
    """Warn where the data differ now from those of a finished run.

    Of data that are not loaded only the files are listed: their names tell classes and counts.
    """
    if found.data is None:
        return
    now = listed(found.config.data, data_dir) if domains is None else identity_of(domains)
    if now is not None and (changes := found.data.changes(now)):
        warnings.warn(
            f"The data differ now from those that this run was trained on: {changes}.",
            stacklevel=3,
        )


def _parts(domain: Domain) -> list[Domain]:
    return [domain] if domain.validation is None else [domain, *_parts(domain.validation)]


def _labels(y: Tensor) -> str:
    return _hash(" ".join(map(str, y.tolist())))


def _hash(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
