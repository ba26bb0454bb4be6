"""Files of features, as ``riskmatch embed`` writes them: ``.npz`` or ``.parquet``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from riskmatch.data.domain import Domain, DomainSet
from riskmatch.data.table import encoded_groups
from riskmatch.data.table_files import column_names, read_parquet
from riskmatch.files import bytes_of, check_regular, read_arrays, write_whole
from riskmatch.limits import LimitError
from riskmatch.validation import check_option

REQUIRED = ("domain", "label", "features")
"""Columns that every file of features has; ``class``, ``view`` and ``group`` may be missing."""
ROW_BYTES = 150
"""Memory of a row of a Parquet file while it is read, besides its values."""
_Columns = dict[str, NDArray[Any]]


def random_view(x: Tensor, generator: torch.Generator) -> Tensor:
    """Draw one view of each sample: (n, views, d) → (n, d)."""
    chosen = torch.randint(x.shape[1], (len(x),), generator=generator).to(x.device)
    return x[torch.arange(len(x), device=x.device), chosen]


def check_features_file(file: Path) -> None:
    """Raise unless features can be written to a file of this name."""
    check_option("type of features file", file.suffix, _WRITERS)
    if file.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise ImportError("Parquet needs pip install 'riskmatch[parquet]'; .npz does not.")


def write_features(domains: DomainSet, file: Path) -> None:
    """Write a data set of features to a file, one row per sample and view.

    The columns are ``domain``, ``label``, ``class`` (name of the label, or the label itself),
    ``view`` (0 is the image itself), ``features`` and, where the data have groups, ``group``. Of a
    regression ``label`` holds numbers, and ``class`` is left out. Of tags it holds lists of 0, 1
    and NaN, and ``class`` a JSON list of the names of all tags.

    Args:
        domains: data set with inputs (n, width) or (n, views, width).
        file: path ending in ``.parquet`` or ``.npz``.
    """
    check_features_file(file)
    parts = [_columns(domains, domain) for domain in domains.domains]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    write_whole(file, _WRITERS[file.suffix](columns))


def feature_domains(path: Path) -> tuple[str, ...]:
    """Names of the domains of a file of features, in order, without reading the features."""
    return tuple(dict.fromkeys(map(str, _read(path, ("domain",))["domain"].tolist())))


def read_features(path: Path, *, group: str | None = None) -> DomainSet:
    """Read a file that :func:`write_features` wrote, or one with the columns :data:`REQUIRED`.

    Rows of a sample that has several views follow each other; training draws one of them at random
    and evaluation uses the first.

    Args:
        path: file ``.npz`` or ``.parquet``.
        group: column of the group, whose samples are on one side of every split; ``group`` in files
            that :func:`write_features` wrote.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged or a column is unusable; the message names it.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> x, y = torch.randn(4, 3), torch.tensor([0, 1, 0, 1])
        >>> pets = DomainSet("pets", (Domain("a", x, y), Domain("b", x, y)), 2, (), ("cat", "dog"))
        >>> with TemporaryDirectory() as folder:
        ...     write_features(pets, Path(folder) / "pets.npz")
        ...     read = read_features(Path(folder) / "pets.npz")
        >>> read.names, read.class_names, torch.equal(read.domains[1].x, x)
        (('a', 'b'), ('cat', 'dog'), True)
    """
    more = () if group is None else (group,)
    columns = _read(path, (*REQUIRED, "class", "view", *more), (*REQUIRED, *more))
    features, labels = columns["features"], columns["label"]
    view = columns.get("view", np.zeros(len(labels), np.int64))
    sizes = {name: len(column) for name, column in columns.items()}
    if len(set(sizes.values())) != 1 or not len(labels):
        raise ValueError(f"{path} needs as many rows in each column, got {sizes}.")
    if features.ndim != 2 or features.dtype.kind != "f" or not np.isfinite(features).all():
        raise ValueError(f"{path}: features must be finite floats of shape (rows, width).")
    classes = labels.dtype.kind in "iu"
    if labels.dtype.kind not in "iuf" or labels.ndim > 2 or (classes and labels.min() < 0):
        raise ValueError(
            f"{path}: label must hold integers from 0, floats or lists of tags, got {labels.dtype}."
        )
    if labels.ndim == 1 and not np.isfinite(labels).all():
        raise ValueError(f"{path}: a label is infinite or not a number.")
    views = int(view.max()) + 1 if view.dtype.kind in "iu" else 0
    if not views or len(view) % views or (view.reshape(-1, views) != np.arange(views)).any():
        raise ValueError(f"{path}: view must count the views of each sample from 0.")
    x = torch.from_numpy(features.astype(np.float32))
    if views > 1:
        x = x.view(-1, views, x.shape[1])
    y = torch.from_numpy(labels[::views].astype(np.int64 if classes else np.float32))
    names = columns["domain"].astype(str)[::views]
    groups = None
    if group is not None:
        groups = encoded_groups(columns[group], group, f"{path}: ")[::views]
    whole = Domain("all", x, y, groups=groups)
    rows = {name: np.flatnonzero(names == name) for name in dict.fromkeys(names.tolist())}
    return DomainSet(
        path.stem,
        tuple(replace(whole.take(torch.from_numpy(k)), name=name) for name, k in rows.items()),
        classes=int(labels.max()) + 1 if classes else 0,
        class_names=_class_names(path, labels, columns.get("class")),
        augment=random_view if views > 1 else None,
    )


def _class_names(path: Path, labels: NDArray[Any], classes: NDArray[Any] | None) -> tuple[str, ...]:
    """Class names by label, those without a sample named by themselves; or names of the tags."""
    if classes is None or (labels.dtype.kind == "f" and labels.ndim == 1):
        return ()
    if labels.ndim == 2:
        stated = json.loads(str(classes[0]))
        if not isinstance(stated, list) or len(stated) != labels.shape[1]:
            raise ValueError(f"{path}: class must name the {labels.shape[1]} tags, as a JSON list.")
        return tuple(map(str, stated))
    names: dict[int, str] = {}
    for label, name in sorted(set(zip(labels.tolist(), classes.astype(str).tolist(), strict=True))):
        if label in names:
            raise ValueError(f"{path}: label {label} has two classes, {names[label]} and {name}.")
        names[label] = name
    return tuple(names.get(label, str(label)) for label in range(int(labels.max()) + 1))


def _read(path: Path, wanted: Sequence[str], required: Sequence[str] = REQUIRED) -> _Columns:
    """Some columns of a file; those of ``wanted`` that are not required may be missing."""
    if not path.exists():
        raise FileNotFoundError(f"There is no file of features {path}.")
    check_regular(path)
    columns = (_read_parquet if path.suffix.lower() == ".parquet" else _read_npz)(path, wanted)
    for name in wanted:
        if name in required and name not in columns:
            raise ValueError(
                f"{path} has no column {name!r}; a file of features has {', '.join(required)}."
            )
    return columns


def _read_npz(path: Path, wanted: Sequence[str]) -> _Columns:
    try:
        return read_arrays(path, wanted)
    except LimitError:
        raise
    except (ValueError, AttributeError, TypeError, OSError) as error:
        cause = str(error).split("\n", maxsplit=1)[0].rstrip(".")
        raise ValueError(f"{path} is damaged, or no .npz file of features: {cause}.") from error


def _read_parquet(path: Path, wanted: Sequence[str]) -> _Columns:
    names = [name for name in wanted if name in column_names(path)]
    table = read_parquet(path, names, ROW_BYTES)
    columns = {name: table[name].to_numpy() for name in names}
    for name in {"features", "label"} & columns.keys():
        if name == "label" and columns[name].dtype != object:
            continue
        try:
            columns[name] = np.stack(columns[name])
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{path}: {name} must be lists of numbers of one length: {error}."
            ) from error
    return columns


def _columns(domains: DomainSet, domain: Domain) -> _Columns:
    features = domain.x[:].cpu().numpy().astype(np.float32)
    n, views = len(domain), 1 if features.ndim == 2 else features.shape[1]
    labels, groups = domain.y.cpu().numpy().repeat(views, axis=0), domain.groups
    classes = {}
    if domains.labels == "classes":
        classes["class"] = np.array(domains.label_names)[labels]
    elif domains.labels == "tags":
        classes["class"] = np.full(n * views, json.dumps(domains.label_names))
    return {
        "domain": np.full(n * views, domain.name),
        "label": labels,
        **classes,
        "view": np.tile(np.arange(views), n),
        "features": features.reshape(n * views, -1),
        **({} if groups is None else {"group": groups.cpu().numpy().repeat(views)}),
    }


def _parquet(columns: Mapping[str, NDArray[Any]]) -> bytes:
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.parquet  # type: ignore[import-untyped]

    table = pyarrow.table(
        {
            name: pyarrow.FixedSizeListArray.from_arrays(column.reshape(-1), column.shape[1])
            if column.ndim == 2
            else column
            for name, column in columns.items()
        }
    )
    return bytes_of(lambda file: pyarrow.parquet.write_table(table, file))


_WRITERS: dict[str, Callable[[Mapping[str, NDArray[Any]]], bytes]] = {
    ".parquet": _parquet,
    ".npz": lambda columns: bytes_of(lambda file: np.savez(file, **columns)),  # type: ignore[arg-type]
}
