"""Inputs of a trained model: image files, tables or tensors, prepared as in training."""

from __future__ import annotations

import itertools
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import torch
from torch import Tensor

from riskmatch.data import load_data
from riskmatch.data.columns import read_frame as read_columns
from riskmatch.data.domain import DomainSet, NamedTensors, StoredImages, check_real
from riskmatch.data.features import random_view
from riskmatch.data.images.decode import ImageError, decode
from riskmatch.data.images.index import EXTENSIONS, is_image, is_junk
from riskmatch.data.images.manifest import is_manifest, manifest_paths
from riskmatch.data.preprocessing import TablePreprocessing
from riskmatch.data.table_files import SUFFIXES, read_table
from riskmatch.limits import MEMORY, check_limit
from riskmatch.validation import check_json, check_option, shown

if TYPE_CHECKING:
    from pandas import DataFrame

    Inputs: TypeAlias = (
        "str | Path | Sequence[str | Path] | Tensor | np.ndarray[Any, Any] | DataFrame | DomainSet"
    )
    """A path, image files, a tensor or array (n, …), a data frame, or a data set."""

BATCH = 32
"""Inputs per forward pass, unless the caller gives another number."""
OnSkip = Callable[[str, str], None]
"""Called with the name of an input that cannot be read, and the cause."""
Rows = Sequence[int]


@dataclass(frozen=True)
class ImagePreprocessing:
    """Decode image files to bytes (3, side, side); the network normalises them itself."""

    side: int
    kind: ClassVar[str] = "images"

    def to_json(self) -> dict[str, Any]:
        """Preprocessing as plain JSON values."""
        resize = [{"side": self.side, "filter": "bilinear"}]  # of Pillow, ignoring the aspect ratio
        return {"kind": self.kind, "colours": "RGB, transparency on white", "resize": resize}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ImagePreprocessing:
        """Preprocessing from the values of :meth:`to_json`."""
        check_json(values, {"resize": [{"side": int}]}, "preprocessing")
        if len(values["resize"]) != 1 or values["resize"][0]["side"] < 1:
            raise ValueError(f"preprocessing.resize must have one side, got {values['resize']}.")
        return cls(values["resize"][0]["side"])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return (3, self.side, self.side)

    def check_memory(self) -> None:
        """Raise ``LimitError`` if a batch takes more memory than it may."""
        subject = f"a batch of {BATCH} images of {self.side:,} × {self.side:,} pixels takes"
        check_limit(subject, BATCH * math.prod(self.shape) * 4, MEMORY)


@dataclass(frozen=True)
class TensorPreprocessing:
    """Tensors (n, *shape), as they are."""

    shape: tuple[int, ...]
    dtype: str
    kind: ClassVar[str] = "tensors"

    def to_json(self) -> dict[str, Any]:
        """Preprocessing as plain JSON values."""
        return {"kind": self.kind, "shape": list(self.shape), "dtype": self.dtype}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TensorPreprocessing:
        """Preprocessing from the values of :meth:`to_json`."""
        check_json(values, {"shape": Sequence[int], "dtype": str}, "preprocessing")
        if not isinstance(getattr(torch, values["dtype"], None), torch.dtype):
            raise ValueError(f"preprocessing.dtype must be one of torch, got {values['dtype']!r}.")
        return cls(tuple(values["shape"]), values["dtype"])


Preprocessing = ImagePreprocessing | TensorPreprocessing | TablePreprocessing
_KINDS: dict[str, Any] = {
    cls.kind: cls for cls in (ImagePreprocessing, TensorPreprocessing, TablePreprocessing)
}


def preprocessing_of(domains: DomainSet) -> Preprocessing:
    """The preprocessing that gives the inputs of a data set."""
    if domains.preprocessing is not None:
        return domains.preprocessing
    x = domains.domains[0].x
    if isinstance(x, NamedTensors):
        raise ValueError(
            f"The inputs of '{domains.name}' are several tensors by name, which a model folder "
            "cannot describe: save the network with torch.save."
        )
    if isinstance(x, StoredImages):
        return ImagePreprocessing(domains.input_shape[-1])
    shape = domains.input_shape[-1:] if domains.augment is random_view else domains.input_shape
    return TensorPreprocessing(shape, str(x.dtype).removeprefix("torch."))


def preprocessing_from_json(values: Mapping[str, Any]) -> Preprocessing:
    """Preprocessing that ``model.json`` describes.

    Raises:
        ValueError: network, preprocessing and classes do not belong together.
    """
    network, stated = values["network"], values["preprocessing"]
    check_option("kind of preprocessing", stated["kind"], _KINDS)
    preprocessing: Preprocessing = _KINDS[stated["kind"]].from_json(stated)
    if not any(entry["trained_on"] for entry in values["domains"].values()):
        raise ValueError("it was trained on none of its domains.")
    if isinstance(preprocessing, TablePreprocessing):
        codes = list(preprocessing.cardinalities)
        if codes and network["options"].get("cardinalities", codes) != codes:
            raise ValueError(f"the network does not take {codes} codes of categories.")
    shape, made = tuple(network["input_shape"]), preprocessing.shape
    if made not in (shape, shape[-1:]):  # of several views of features one is used
        raise ValueError(f"the network takes inputs {shape}, and the preprocessing makes {made}.")
    if values["labels"] != "any" and network["outputs"] != (len(values["classes"]) or 1):
        raise ValueError(
            f"the network has {network['outputs']} outputs for {len(values['classes'])} classes."
        )
    return preprocessing


@dataclass(frozen=True)
class InputSamples:
    """Inputs that are read in batches, from ``x`` or one by one."""

    column: str
    """What the names are: ``path``, ``row`` or ``sample``."""
    names: Sequence[str | int]
    read: Callable[[int], Tensor] | None = None
    """Reads one input; None where ``x`` has them all."""
    x: Tensor | None = None
    """(n, …) all inputs."""
    unlike_training: Sequence[str] = ()
    """What the columns of a table hold that training did not, a line each."""

    def __len__(self) -> int:
        return len(self.names)

    def take(self, rows: Rows) -> InputSamples:
        """The samples at ``rows``."""
        names = [self.names[row] for row in rows]
        if self.x is not None:
            return replace(self, names=names, x=self.x[list(rows)])
        read = self.read
        assert read is not None
        return replace(self, names=names, read=lambda row: read(rows[row]))

    def batches(self, size: int, on_skip: OnSkip) -> Iterator[tuple[Rows, Tensor]]:
        """Positions and inputs of each batch; images of the next one are decoded meanwhile."""
        if self.x is not None:
            for start in range(0, len(self), size):
                rows: Rows = range(start, min(start + size, len(self)))
                x = self.x[start : start + size]
                finite = x.flatten(1).isfinite().all(1)
                if not finite.all():
                    for row in itertools.compress(rows, ~finite):
                        name = str(self.names[row])
                        on_skip(name, f"{self.column} {name}: a value is not a finite number.")
                    rows, x = list(itertools.compress(rows, finite)), x[finite]
                if rows:
                    yield rows, x
            return
        read = self.read
        assert read is not None
        with ThreadPoolExecutor(os.cpu_count()) as pool:

            def submitted(start: int) -> dict[int, Future[Tensor]]:
                rows = range(start, min(start + size, len(self)))
                return {row: pool.submit(read, row) for row in rows}

            waiting = submitted(0)
            for start in range(0, len(self), size):
                current, waiting = waiting, submitted(start + size)
                images = dict[int, Tensor]()
                for row, future in current.items():
                    try:
                        images[row] = future.result()
                    except FileNotFoundError as error:
                        cause = f"{error.filename} does not exist. Restore it, or do not list it."
                        on_skip(str(self.names[row]), cause)
                    except (ImageError, OSError) as error:
                        on_skip(str(self.names[row]), str(error))
                if images:
                    yield list(images), torch.stack([*images.values()])


def samples(inputs: Inputs, preprocessing: Preprocessing) -> InputSamples:
    """The samples of ``inputs``; files are found but not read.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the inputs are not those of the model.
    """
    unlike = list[str]()
    if isinstance(preprocessing, ImagePreprocessing):
        if isinstance(inputs, str | Path):
            return _image_files(Path(inputs), preprocessing)
        if isinstance(inputs, StoredImages):
            rows = range(1, len(inputs) + 1)
            return InputSamples("row", rows, read=lambda row: inputs[row : row + 1][0])
        if isinstance(inputs, Sequence):
            return _files([str(path) for path in inputs], Path(), preprocessing)
        x = _numbers(inputs)
        if x.ndim != 4 or x.shape[1] != 3:
            raise ValueError(f"Images must have the shape (n, 3, h, w), got {tuple(x.shape)}.")
    elif isinstance(preprocessing, TablePreprocessing):
        x, unlike = _rows(inputs, preprocessing)
    elif isinstance(inputs, str | Path | DomainSet):
        return _domains(load_data(inputs), preprocessing)
    else:
        x = _checked(_numbers(inputs), preprocessing.shape, preprocessing.dtype)
    return InputSamples("row", range(1, len(x) + 1), x=x, unlike_training=unlike)


def _numbers(inputs: Any) -> Tensor:
    """Inputs as a tensor of real numbers; ``ValueError`` if they are something else."""
    try:
        x = inputs if isinstance(inputs, Tensor) else torch.as_tensor(np.asarray(inputs))
    except (TypeError, ValueError) as error:  # objects, or rows of different lengths
        raise ValueError(
            "The model takes a tensor or an array of numbers, with rows of one length, got "
            f"{shown(inputs)}."
        ) from error
    check_real("Inputs", x)
    return x


def _checked(x: Tensor, shape: tuple[int, ...], dtype: str) -> Tensor:
    """Inputs in the type that the model takes; ``ValueError`` if they have another shape.

    Of several views of features, (n, views, d), the first is used.
    """
    if len(shape) == 1 and x.ndim == 3:
        x = x[:, 0]
    if tuple(x.shape[1:]) != shape:
        raise ValueError(
            f"The model takes inputs of shape (n, {', '.join(map(str, shape))}), got "
            f"{tuple(x.shape)}."
        )
    return x.to(getattr(torch, dtype))


def _rows(inputs: Inputs, preprocessing: TablePreprocessing) -> tuple[Tensor, list[str]]:
    """Prepared rows of a table, and what is unlike training; a tensor must be prepared already."""
    if isinstance(inputs, Tensor):
        x = _checked(_numbers(inputs), preprocessing.shape, "float32")
        sizes = preprocessing.cardinalities
        codes = x[:, x.shape[1] - len(sizes) :]
        if not ((codes >= 0) & (codes < torch.tensor(sizes)) & (codes % 1 == 0)).all():
            raise ValueError(
                f"The last {len(sizes)} columns of the inputs must be codes of categories, whole "
                f"numbers from 0 to below {', '.join(map(str, sizes))}. Pass the table as a data "
                "frame, which the model encodes."
            )
        return x, []
    values = read_columns(read_frame(inputs), preprocessing.columns)
    x, unlike = preprocessing.transform_values(values), preprocessing.unlike_training(values)
    release_tables()
    return x, unlike


def release_tables() -> None:
    """Return the memory of tables that are no longer used, which Arrow keeps, to the system."""
    if arrow := sys.modules.get("pyarrow"):
        arrow.default_memory_pool().release_unused()


def read_frame(table: Any) -> DataFrame:
    """A data frame, or the table in a file.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(table, str | Path):
        if Path(table).is_dir():
            raise ValueError(
                f"The model takes a table ({', '.join(SUFFIXES)}), and {table} is a folder."
            )
        if not Path(table).exists():
            raise FileNotFoundError(f"There is no {table}. Give a table ({', '.join(SUFFIXES)}).")
        check_option(f"file type of the table {table}", Path(table).suffix.lower(), SUFFIXES)
        return read_table(Path(table))
    import pandas as pd

    if not isinstance(table, pd.DataFrame):
        raise ValueError(
            f"The model takes rows of a table: a file {' '.join(SUFFIXES)} or a data frame, got "
            f"{type(table).__name__}."
        )
    return table


def _domains(domains: DomainSet, preprocessing: TensorPreprocessing) -> InputSamples:
    parts, names = [], list[str]()
    for domain in domains.domains:
        if not isinstance(domain.x, Tensor):
            raise ValueError(
                f"'{domains.name}' has no tensors of shape {preprocessing.shape}, which this model "
                "takes."
            )
        parts.append(_checked(domain.x, preprocessing.shape, preprocessing.dtype))
        names += [f"{domain.name}/{row}" for row in range(len(domain))]
    return InputSamples("sample", names, x=torch.cat(parts))


def _image_files(path: Path, preprocessing: ImagePreprocessing) -> InputSamples:
    """The images in a folder, at any depth, those that a manifest lists, or a single one."""
    if path.is_dir():
        names = sorted(_scan(path))
        if not names:
            extensions = " ".join(extension[1:] for extension in EXTENSIONS)
            raise ValueError(f"{path} has no images ({extensions}). Give another folder.")
        return _files(names, path, preprocessing)
    if not path.exists():
        raise FileNotFoundError(f"There is no {path}. Give a folder of images or a manifest.")
    if is_manifest(path):
        return _files(manifest_paths(path), path.parent, preprocessing)
    return _files([path.name], path.parent, preprocessing)


def _files(names: Sequence[str], root: Path, preprocessing: ImagePreprocessing) -> InputSamples:
    def read(row: int) -> Tensor:
        pixels = decode(root / names[row], preprocessing.side)
        return torch.from_numpy(pixels.copy()).permute(2, 0, 1)

    return InputSamples("path", names, read)


def _scan(root: Path) -> Iterator[str]:
    """Images at any depth; links are followed, but those to a folder that holds them."""

    def refuse(error: OSError) -> None:
        raise error

    for folder, below, files in os.walk(root, onerror=refuse, followlinks=True):
        inside = Path(folder).relative_to(root)
        holding = {os.path.realpath(root / part) for part in (inside, *inside.parents)}
        below[:] = [
            name
            for name in below
            if not is_junk(name) and os.path.realpath(f"{folder}/{name}") not in holding
        ]
        for name in files:
            if is_image(Path(name)):
                yield (Path(folder) / name).relative_to(root).as_posix()
