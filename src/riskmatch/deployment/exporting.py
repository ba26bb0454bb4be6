"""Export a model to ONNX or to a program of ``torch.export``, checked on real inputs."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from riskmatch.contract import inner, outputs
from riskmatch.data.catalogue import resolve
from riskmatch.data.preprocessing import TablePreprocessing
from riskmatch.deployment.folder import is_export
from riskmatch.deployment.inputs import ImagePreprocessing, samples
from riskmatch.deployment.model import TrainedModel, load_model
from riskmatch.engine.instances import is_instance
from riskmatch.files import write_whole
from riskmatch.models import Backbone
from riskmatch.trust import admit
from riskmatch.validation import check_option

if TYPE_CHECKING:
    from riskmatch.deployment.inputs import Inputs

Format = Literal["onnx", "torch"]
SUFFIXES: dict[str, str] = {"onnx": ".onnx", "torch": ".pt2"}
TOLERANCE = 1e-4
"""Largest difference of an output, relative to its size where that is above 1."""
CHECKED = 100
"""Most real inputs on which an exported model is checked."""
BATCHES = (1, 2, 7, 32)
"""Batch sizes of the check, in turn."""

Apply = Callable[[Tensor], list[NDArray[Any]]]


@dataclass(frozen=True)
class Exported:
    """An exported model, and how well it agrees with the network."""

    path: Path
    checked: int
    """Number of real inputs on which it was compared."""
    difference: float
    """Largest difference of an output, relative to its size where that is above 1."""
    metadata: Mapping[str, Any]
    """Description of input and outputs, which is also in the file."""


def export(
    model: TrainedModel | Path | str,
    out: Path | str | None = None,
    *,
    format: Format = "onnx",
    inputs: Inputs | None = None,
    overwrite: bool = False,
    data_dir: Path | None = None,
    trust: bool = False,
) -> Exported:
    """Export a model for programs without riskmatch, and compare its outputs on real inputs.

    The exported model takes batches of any size. Normalisation is inside; decoding and resizing of
    images, or the preparation of a table, are outside and described in the file's metadata.

    Args:
        model: a model, or its folder.
        out: file to write, ``.onnx`` or ``.pt2``; by default ``model.onnx`` or ``model.pt2`` in the
            model folder. It appears only if the outputs agree to 1e-4.
        format: ``onnx``, or ``torch`` for ``torch.export``.
        inputs: real inputs to compare on, as :func:`riskmatch.predict` takes them; by default 100
            of the data that the model was trained on.
        overwrite: where ``out`` is not given, replace a file that riskmatch did not export.
        data_dir: folder that is searched first for files of that data set.
        trust: import a network and data of the user's own that the folder names, which runs their
            code.

    Raises:
        ImportError: a package for ONNX is missing.
        ValueError: there are no inputs to compare on, the outputs differ, or a file that is not an
            export is in the place of the default.
    """
    check_option("format", format, get_args(Format))
    folder = Path() if isinstance(model, TrainedModel) else Path(model)
    path = Path(out) if out is not None else folder / f"model{SUFFIXES[format]}"
    check_option(f"suffix of a file in the format {format}", path.suffix, (SUFFIXES[format],))
    if out is None and path.exists() and not overwrite and not is_export(path):
        raise ValueError(
            f"{path} was not exported by riskmatch. Replace it with --overwrite (overwrite=True), "
            "or give another file with --out (out=…)."
        )
    packages = ("onnx", "onnxruntime", "onnxscript") if format == "onnx" else ()
    if missing := [name for name in packages if find_spec(name) is None]:
        raise ImportError(
            f"ONNX needs pip install 'riskmatch[export]': {', '.join(missing)} is missing."
        )
    if not isinstance(model, TrainedModel):
        model = load_model(model, trust=trust)
    if inputs is None:
        admit([model.config.data], folder, trust)
    x = _real_inputs(model, inputs, data_dir)
    network = _Exportable(model).eval()
    metadata = _metadata(model, x)
    other = "torch" if format == "onnx" else "onnx"
    try:
        data, apply = (_to_onnx if format == "onnx" else _to_torch)(network, x, metadata)
    except RuntimeError as error:  # those of torch.export and torch.onnx
        cause = str(error).strip().split("\n", maxsplit=1)[0].rstrip(".")
        raise ValueError(
            f"The network {model.config.model} cannot be exported as {format}: {cause}. Try the "
            f"format {other}."
        ) from error
    difference = _difference(network, apply, x)
    if not difference <= TOLERANCE:
        raise ValueError(
            f"The outputs of the exported model differ from those of torch by {difference:.1e} on "
            f"{len(x)} real inputs, which is more than {TOLERANCE:g}; nothing was written. Try the "
            f"format {other}."
        )
    write_whole(path, data)
    return Exported(path, len(x), difference, metadata)


class _Exportable(nn.Module):
    """Network from prepared inputs to logits and probabilities, or to predictions."""

    def __init__(self, model: TrainedModel) -> None:
        super().__init__()
        self.network = model.network
        self.predictions = model.predictions

    @torch.no_grad()
    def names(self, x: Tensor) -> list[str]:
        """Names of the outputs for inputs ``x``."""
        return ["logits", "probabilities"] if len(self(x)) == 2 else ["prediction"]

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        _, logits = outputs(self.network, x)
        predicted, scores = self.predictions(logits)
        return (predicted,) if scores is None else (logits, scores)


def _real_inputs(model: TrainedModel, inputs: Inputs | None, data_dir: Path | None) -> Tensor:
    """(n, …) up to 100 real inputs, evenly spaced, prepared for the exported model."""
    cure = "give real inputs: --inputs PATH, or inputs= in Python"
    config = model.config
    if inputs is None:
        if is_instance(config.data):
            raise ValueError(
                f"The data that the model was trained on were passed as objects; {cure}."
            )
        try:
            data = resolve(config.data)
            if isinstance(model.preprocessing, ImagePreprocessing):
                index = data.index(data_dir)
                inputs = [str(index.file(row)) for row in range(len(index))]
            elif isinstance(model.preprocessing, TablePreprocessing):
                inputs = config.data
            else:
                inputs = data.load(config.data_options, data_dir)
        except (OSError, ValueError) as error:
            cause = str(error).rstrip(".")
            raise ValueError(
                f"The data that the model was trained on cannot be read ({cause}); {cure}."
            ) from error
    source = samples(inputs, model.preprocessing)
    rows = np.unique(np.linspace(0, len(source) - 1, min(CHECKED, len(source))).round().astype(int))
    chosen = source.take(rows.tolist())
    skipped: list[str] = []
    parts = [x for _, x in chosen.batches(CHECKED, lambda name, cause: skipped.append(cause))]
    if not parts:
        raise ValueError(f"No input can be read ({skipped[0]}); {cure}.")
    x = torch.cat(parts)
    if isinstance(network := inner(model.network), Backbone):
        x = network.trunk.preprocess.resize(x)
    # An export needs two samples, or it takes their number for a constant.
    return x if len(x) > 1 else torch.cat([x, x])


def _metadata(model: TrainedModel, x: Tensor) -> dict[str, Any]:
    preprocessing = model.preprocessing.to_json()
    if isinstance(network := inner(model.network), Backbone):
        last = network.trunk.preprocess
        preprocessing["resize"].append({"side": last.size, "filter": last.interpolation})
    return {
        "preprocessing": preprocessing,
        "input": {"shape": ["n", *x.shape[1:]], "dtype": str(x.dtype).removeprefix("torch.")},
        "task": model.values["task"],
        "classes": list(model.classes),
        "expected": model.values["expected"],
        "licence": model.values["licence"],
        "run": model.config.id,
        "versions": model.values["versions"],
    }


def _to_onnx(network: _Exportable, x: Tensor, metadata: Mapping[str, Any]) -> tuple[bytes, Apply]:
    import onnx
    import onnxruntime

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch and onnxscript about each other
        program = torch.onnx.export(
            network,
            (x[:2],),
            dynamo=True,
            verbose=False,
            input_names=["inputs"],
            output_names=network.names(x[:2]),
            dynamic_shapes=({0: torch.export.Dim("n")},),
        )
    assert program is not None
    proto = program.model_proto
    onnx.helper.set_model_props(proto, {"riskmatch": json.dumps(metadata)})
    data: bytes = proto.SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return data, lambda part: list(session.run(None, {"inputs": part.numpy()}))


def _to_torch(network: _Exportable, x: Tensor, metadata: Mapping[str, Any]) -> tuple[bytes, Apply]:
    file = io.BytesIO()
    _apply(network, x[:2])  # a method may look for the classifier once, which cannot be traced
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(
            network, (x[:2],), dynamic_shapes=({0: torch.export.Dim("n")},)
        )
        torch.export.save(program, file, extra_files={"riskmatch.json": json.dumps(metadata)})
        loaded = torch.export.load(io.BytesIO(file.getvalue())).module()
    return file.getvalue(), partial(_apply, loaded)


@torch.no_grad()
def _apply(network: Callable[[Tensor], Any], x: Tensor) -> list[NDArray[Any]]:
    return [part.numpy() for part in network(x)]


def _difference(network: _Exportable, apply: Apply, x: Tensor) -> float:
    """Largest difference of the outputs on ``x``, in batches of several sizes."""
    differences, start = list[float](), 0
    while start < len(x):
        part = x[start : start + BATCHES[len(differences) % len(BATCHES)]]
        start += len(part)
        pairs = zip(_apply(network, part), apply(part), strict=True)
        differences.append(max(float((abs(a - b) / np.maximum(1, abs(a))).max()) for a, b in pairs))
    return max(differences)
