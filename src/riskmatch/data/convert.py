"""Turn tensors, torch data sets and data frames into domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, default_collate

from riskmatch.data import OnProgress
from riskmatch.data.catalogue import load
from riskmatch.data.domain import Domain, DomainSet, NamedTensors, check_real
from riskmatch.data.table import encoded_groups, load_table
from riskmatch.validation import check_option, listed

if TYPE_CHECKING:
    from pandas import DataFrame

Samples: TypeAlias = "Domain | Dataset[Any] | tuple[Any, Any] | tuple[Any, Any, Any]"
"""One domain: a :class:`Domain`, a map-style torch data set of pairs, a pair ``(x, y)``, or
``(x, y, groups)``."""
LABELS = ("label", "labels")
"""Columns of the label of a data set of Hugging Face."""
Group: TypeAlias = "str | Mapping[str, Any] | None"
"""Groups of samples: a column, or the groups of each domain of a mapping by name."""


def load_data(
    source: str | Path | DomainSet | Mapping[str, Samples] | DataFrame,
    *,
    label: str | Sequence[str] | None = None,
    domain: str | None = None,
    ignore: Sequence[str] = (),
    group: Group = None,
    options: Mapping[str, Any] | None = None,
    data_dir: Path | None = None,
    on_progress: OnProgress | None = None,
) -> DomainSet:
    """Load data from a name, a path or objects in memory.

    Floating-point inputs become float32 and bytes stay bytes. The number of classes is the largest
    label plus one, unless the data name their classes. Labels (n,) that are floats are the targets
    of a regression; labels (n, k) of 0, 1 and NaN, where missing, are tags. Other shapes (n, …) are
    for tasks of your own. See :attr:`DomainSet.labels`.

    Args:
        source: one of

            - a name or a path, as :func:`~riskmatch.data.load` takes;
            - a :class:`~riskmatch.data.DomainSet`, returned as it is;
            - a mapping of domain names to pairs ``(x, y)`` of inputs (n, …), or a mapping of names
              to such tensors, which the network receives as keyword arguments, and labels (n, …),
              to :class:`~riskmatch.data.Domain` values, or to map-style
              ``torch.utils.data.Dataset`` objects that yield such pairs, read into memory, or to
              data sets of Hugging Face with a column ``label`` or ``labels`` and columns of numbers
              of one shape, which the network receives as keyword arguments, or as the inputs where
              it is a single one of floats or bytes; texts are left out;
            - a pandas data frame, or a data set of Hugging Face, one row per sample: a table of
              numbers, categories, dates and booleans, with missing values. A label with fractions
              is the target of a regression.
              :func:`riskmatch.train` fits the preprocessing, and so does
              :meth:`~riskmatch.data.table.TableDomains.fitted`.
        label: column of the label, for a table or a list of images: of the class, of numbers, or of
            lists of tags. Several columns, as a list or with commas between them, are a tag each.
        domain: column of the domain, for a table.
        ignore: columns to leave out, for a table.
        group: samples of one group, such as a patient, are on one side of every split, in all
            domains: a column of a table, a manifest or a file of features; ``"stem"``, the name of
            the file without its extension, for images in folders; or, for a mapping, the groups of
            each domain by name, (n,) texts or integers, which may also follow the labels:
            ``(x, y, groups)``.
        options: options of a named data set.
        data_dir: folder to search for the files of a named data set first.
        on_progress: called while images or torch data sets are read.

    Raises:
        ValueError: the data cannot be used; the message names the domain or column.
        TypeError: ``source`` has another type.

    Example:
        >>> x, y = torch.randn(6, 3), torch.tensor([0, 1, 2, 0, 1, 2])
        >>> data = load_data({"clinic A": (x, y), "clinic B": (x + 1, y)})
        >>> data.names, data.classes, data.input_shape
        (('clinic A', 'clinic B'), 3, (3,))

        >>> import pandas as pd
        >>> table = pd.DataFrame({"age": [30, 60], "ill": ["no", "yes"], "site": ["A", "B"]})
        >>> load_data(table, label="ill", domain="site").class_names
        ('no', 'yes')

        >>> load_data({"A": (x, torch.randn(6)), "B": (x, torch.randn(6))}).classes  # regression
        0
    """
    columns = table_options(label, domain, ignore)
    if isinstance(source, str | Path):
        columns = table_options(label, domain, ignore, group)
        return load(str(source), {**(options or {}), **columns}, data_dir, on_progress)
    _refuse("a name or a path", options=options, data_dir=data_dir)
    if isinstance(source, DomainSet):
        _refuse("a table", **columns)
        _refuse("data whose domains are not made yet", group=group)
        return source
    if isinstance(source, Mapping):
        _refuse("a table", **columns)
        return _from_mapping(source, on_progress, _groups_by_domain(source, group))
    import pandas as pd

    if hasattr(source, "column_names") and hasattr(source, "to_pandas"):  # of Hugging Face
        source = cast(Any, source).to_pandas()
    if not isinstance(source, pd.DataFrame):
        raise TypeError(
            "Data must be a name, a path, a DomainSet, a mapping of domain names to samples or a "
            f"pandas data frame, got {type(source).__name__}. riskmatch.fit takes loaders of "
            "batches (x, y, domain)."
        )
    columns = table_options(label, domain, ignore, _column(group, "a data frame"))
    return load_table(source, **columns)


def table_options(
    label: str | Sequence[str] | None = None,
    domain: str | None = None,
    ignore: Sequence[str] = (),
    group: Group = None,
) -> dict[str, Any]:
    """Options of data in a file that name its columns; those that are not given are left out."""
    columns = [ignore] if isinstance(ignore, str) else list(ignore)
    if label is not None and not isinstance(label, str):
        label = label[0] if len(label) == 1 else list(label)
    column = _column(group, "data by name or path")
    given = {"label": label, "domain": domain, "ignore": columns, "group": column}
    return {name: value for name, value in given.items() if value}


def _column(group: Group, data: str) -> str | None:
    if isinstance(group, str | None):
        return group
    raise TypeError(f"group must be the name of a column for {data}, got {type(group).__name__}.")


def _groups_by_domain(source: Mapping[str, Samples], group: Group) -> Mapping[str, Any]:
    """The groups of each domain of a mapping by name."""
    if group is None:
        return {}
    if not isinstance(group, Mapping):
        raise TypeError(
            f"group must have the groups by domain, as in {{'A': patients}}, got {group!r}."
        )
    by_name = {str(name): values for name, values in group.items()}
    for name in by_name:
        check_option("domain of group", name, map(str, source))
    if missing := [name for name in map(str, source) if name not in by_name]:
        raise ValueError(f"group has no groups of the domain '{missing[0]}'; give those of all.")
    return by_name


def _refuse(wanted: str, **arguments: object) -> None:
    for name, value in arguments.items():
        if value is not None:
            raise ValueError(f"{name} is for {wanted} only; leave it out here.")


def _from_mapping(
    source: Mapping[str, Samples], on_progress: OnProgress | None, groups: Mapping[str, Any]
) -> DomainSet:
    if not source:
        raise ValueError("The mapping of domain names to samples is empty.")
    for name in source:  # a number stands for its text
        if not isinstance(name, str | Real) or name != name or name == "":
            raise ValueError(f"A domain must have a text or a number as its name, got {name!r}.")
    domains = tuple(_domain(str(name), value, on_progress) for name, value in source.items())
    if groups:
        domains = tuple(
            replace(entry, groups=_sample_groups(entry.name, groups[entry.name]))
            for entry in domains
        )
    names = _class_names(source)
    parts = [part.y for entry in domains for part in entry.parts]
    shapes = list(dict.fromkeys(tuple(y.shape[1:]) for y in parts))
    if len(shapes) > 1:
        raise ValueError(f"The labels of all domains must have one shape, got {shapes}.")
    if all(y.ndim == 2 and bool(((y == 0) | (y == 1)).all()) for y in parts):  # tags
        domains = tuple(entry.relabelled(Tensor.float) for entry in domains)
        parts = [entry.y for entry in domains]
    if len({y.is_floating_point() for y in parts}) > 1:
        raise ValueError(
            "Some domains have integer labels and others floats: use y.float() or y.long() for all."
        )
    if parts[0].ndim > 1 or parts[0].is_floating_point():
        named = names if len(shapes[0]) == 1 and len(names) == shapes[0][0] else ()
        return DomainSet("mapping", domains, classes=0, class_names=named)
    classes = max(int(y.max()) + 1 for y in parts if len(y))
    if names and classes > len(names):
        raise ValueError(
            f"Label {classes - 1} has no name: the data sets name {len(names)} classes."
        )
    return DomainSet("mapping", domains, classes=len(names) or classes, class_names=names)


def _class_names(source: Mapping[str, Samples]) -> tuple[str, ...]:
    """Class names in the attribute ``classes`` that torchvision's data sets have."""
    stated = {
        name: tuple(map(str, classes))
        for name, value in source.items()
        if isinstance(classes := _stated_classes(value), Sequence)
    }
    domain, first = next(iter(stated.items()), ("", ()))
    for name, other in stated.items():
        if other != first:
            raise ValueError(
                f"Domains '{domain}' and '{name}' name different classes ({', '.join(first)}; "
                f"{', '.join(other)}), so a label means two things. Give them the same classes."
            )
    return first


def _stated_classes(value: Any) -> Any:
    columns = getattr(value, "features", None) or {}
    label = next((columns[c] for c in LABELS if c in columns), None) if _is_hub(value) else value
    return getattr(label, "names", None) if _is_hub(value) else getattr(label, "classes", None)


def _is_hub(value: Any) -> bool:
    """Whether it is a data set of Hugging Face."""
    return hasattr(value, "column_names") and hasattr(value, "with_format")


def _from_hub(name: str, data: Any) -> tuple[Any, Any]:
    """Inputs and labels of a data set of Hugging Face."""
    rows = {column: np.asarray(values) for column, values in data.with_format("numpy")[:].items()}
    label = next((column for column in LABELS if column in rows), None)
    x = {k: v for k, v in rows.items() if k != label and v.dtype.kind in "biuf"}
    if label is None or not x:
        lacks = "a column label" if label is None else "columns of numbers of one shape"
        raise ValueError(
            f"Domain '{name}': the data set lacks {lacks}; it has {listed(list(rows))}. Rename or "
            "map its columns, such as tokens padded to one length."
        )
    (single, *others) = x.values()
    plain = not others and (single.dtype.kind == "f" or single.dtype == np.uint8)
    return (single if plain else x), rows[label]


def _domain(name: str, samples: Samples, on_progress: OnProgress | None) -> Domain:
    if isinstance(samples, Domain):
        validation = samples.validation
        held_out = validation and _domain(name, validation, on_progress)
        return Domain(name, samples.x, _labels(name, samples.y), held_out, samples.groups)
    if _is_hub(samples):
        samples = _from_hub(name, samples)
    elif isinstance(samples, Dataset):
        samples = _read(name, samples, on_progress)
    if not isinstance(samples, tuple | list) or len(samples) not in (2, 3):
        raise ValueError(
            f"Domain '{name}' must be a pair (x, y) or (x, y, groups), a Domain or a Dataset, "
            f"got {type(samples).__name__}."
        )
    x, y = _inputs(name, samples[0]), _tensor(name, "y", samples[1])
    if not x.shape or not len(x):
        raise ValueError(f"Domain '{name}' has no samples.")
    groups = _sample_groups(name, samples[2]) if len(samples) == 3 else None
    return Domain(name, x, _labels(name, y), groups=groups)


def _sample_groups(name: str, values: Any) -> Tensor:
    """(n,) int64 group of each sample, from texts or integers."""
    values = values.cpu().numpy() if isinstance(values, Tensor) else values
    return encoded_groups(values, "group", f"Domain '{name}': ")


def _inputs(name: str, value: Any) -> Tensor | NamedTensors:
    """Inputs as float32 or bytes; integers in a mapping, such as those of tokens, stay as is."""
    if not isinstance(value, Mapping):
        x = _tensor(name, "x", value)
        check_real(f"Domain '{name}': x", x)
        return x if x.dtype == torch.uint8 else x.float()
    parts = {str(key): _tensor(name, f"x[{key!r}]", part) for key, part in value.items()}
    if not parts or any(part.ndim == 0 for part in parts.values()):
        raise ValueError(f"Domain '{name}' has no samples.")
    return NamedTensors(
        {key: part.float() if part.is_floating_point() else part for key, part in parts.items()}
    )


def _read(name: str, data: Dataset[Any], on_progress: OnProgress | None) -> tuple[Any, Tensor]:
    """All samples of a map-style data set."""
    if isinstance(data, IterableDataset) or not hasattr(data, "__len__"):
        raise ValueError(
            f"Domain '{name}' is an iterable data set without a length; give a map-style one."
        )
    samples, total = list[tuple[Any, Any]](), len(data)
    for row in range(total):
        sample = data[row]
        if not isinstance(sample, tuple | list) or len(sample) != 2:
            raise ValueError(
                f"Domain '{name}': sample {row} must be a pair (x, y), got {sample!r}."
            )
        samples.append((sample[0], sample[1]))
        if on_progress is not None:
            on_progress(f"reading {name}", row + 1, total)
    if not samples:
        raise ValueError(f"Domain '{name}' has no samples.")
    try:
        x, y = default_collate(samples)
    except (TypeError, RuntimeError, KeyError) as error:
        raise ValueError(
            f"Domain '{name}': its samples cannot be joined ({error}). Give each the same shape, "
            "as a tensor, an array or a mapping of names to these, and a number as label."
        ) from error
    y = _tensor(name, "y", y)
    return x, y[:, 0] if y.shape[1:] == (1,) else y


def _tensor(name: str, what: str, value: Any) -> Tensor:
    if isinstance(value, Tensor | np.ndarray | np.generic | int | float):
        try:
            return torch.as_tensor(value)
        except TypeError:  # an array of objects
            pass
    got = f"got {type(value).__name__}. Convert it first."
    raise ValueError(f"Domain '{name}': {what} must be a tensor or an array of numbers, {got}")


def _labels(name: str, y: Tensor) -> Tensor:
    if y.ndim == 0 or y.is_complex():
        got = f"got {y.dtype} of shape {tuple(y.shape)}"
        raise ValueError(f"Domain '{name}': labels must be integers or floats (n, …), {got}.")
    if y.shape[1:] == (1,):
        raise ValueError(
            f"Domain '{name}': labels have the shape {tuple(y.shape)}, not (n,): pass y[:, 0]."
        )
    if y.is_floating_point():
        if bool(y.isinf().any()) or (y.ndim == 1 and bool(y.isnan().any())):
            raise ValueError(f"Domain '{name}': a target is infinite or not a number.")
        return y.float()
    if y.ndim > 1:
        return y.long()
    if len(y) and int(y.min()) < 0:
        raise ValueError(f"Domain '{name}': labels must be 0 or more, got {int(y.min())}.")
    return y.long()
