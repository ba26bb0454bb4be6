"""Predict the labels of new inputs, as a table."""

from __future__ import annotations

import io
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from riskmatch.data import OnProgress
from riskmatch.deployment.estimating import check_estimable, estimate_outputs
from riskmatch.deployment.inputs import BATCH, OnSkip, samples
from riskmatch.deployment.model import TrainedModel, load_model
from riskmatch.files import csv_text, refuse_input, write_whole
from riskmatch.validation import check_option

if TYPE_CHECKING:
    from riskmatch.deployment.inputs import Inputs

SUFFIXES = (".csv", ".parquet")
_FORMULA = tuple("=+-@")
"""First characters of text that a spreadsheet takes for a formula."""


def predict(
    model: TrainedModel | Path | str,
    inputs: Inputs,
    out: Path | str | None = None,
    *,
    estimate: bool = False,
    batch_size: int = BATCH,
    strict: bool = False,
    trust: bool = False,
    on_skip: OnSkip | None = None,
    on_progress: OnProgress | None = None,
) -> pd.DataFrame:
    """Predict the label of every input; inputs that cannot be read are left out.

    What a table holds that training did not is a warning for each column: categories, columns that
    are all missing, and numbers further from the mean than preprocessing goes.

    Args:
        model: a model, or its folder.
        inputs: a folder of images, at any depth, or a manifest with a column ``path``; a table; a
            tensor or array (n, …); what the model was trained on decides.
        out: file to write, ``.csv`` or ``.parquet``; it appears whole or not at all.
        estimate: also estimate the primary metric on these inputs, as :func:`riskmatch.estimate`
            does: ``attrs["estimate"]`` of the result.
        batch_size: inputs per forward pass.
        strict: refuse such tables, and inputs that cannot be read.
        trust: import a network of the user's own that the folder names, which runs its code.
        on_skip: called with each input that cannot be read, and the cause; by default a warning.
        on_progress: called with the number of inputs that are done.

    Returns:
        One row per input: ``path``, or ``row`` from 1; ``class``, ``confidence`` (the probability
        of that class) and the probability ``p_NAME`` of every class; of tags ``tags``, those that
        are predicted with ``|`` between them, and ``p_NAME``; of a regression ``prediction``, in
        the unit of the label; of a task of your own ``prediction``, or ``prediction_1``, … where a
        sample has several.

    Raises:
        ValueError: the inputs are not those of the model, none can be read, or ``out`` is one; or
            they are refused by ``strict``.

    Example:
        >>> import tempfile, torch, riskmatch
        >>> options = {"out": tempfile.mkdtemp(), "steps": 4, "data_options": {"samples": 50}}
        >>> run = riskmatch.train("colored-digits", "erm", **options)
        >>> folder = riskmatch.save_model(run, run.folder / "model")
        >>> list(predict(folder, torch.zeros(3, 2, 8, 8)).columns)
        ['row', 'class', 'confidence', 'p_0', 'p_1']
    """
    if out is not None:
        out = Path(out)
        check_option("file type", out.suffix, SUFFIXES)
        if out.suffix == ".parquet" and find_spec("pyarrow") is None:
            raise ImportError(
                "Parquet files need pip install 'riskmatch[parquet]'; or write a .csv."
            )
        refuse_input(out, *([inputs] if isinstance(inputs, str | Path) else []))
    if not isinstance(model, TrainedModel):
        model = load_model(model, trust=trust)
    if estimate:
        check_estimable(model)
    source = samples(inputs, model.preprocessing)
    if strict and source.unlike_training:
        raise ValueError(" ".join([*source.unlike_training, "Without strict these are warnings."]))
    for line in source.unlike_training:
        warnings.warn(line, stacklevel=2)
    on_skip = None if strict else on_skip or _warn
    outputs = model.outputs(source, batch_size=batch_size, on_skip=on_skip, on_progress=on_progress)
    predicted, scores = model.predictions(outputs.logits)
    names = [_safe(str(outputs.samples.names[row])) for row in outputs.rows]
    columns: dict[str, object] = {outputs.samples.column: names}
    if model.labels == "classes" and predicted.ndim == 1 and scores is not None:
        columns["class"] = [model.classes[label] for label in predicted.tolist()]
        columns["confidence"] = scores.amax(1).numpy()
    elif model.labels == "tags" and predicted.ndim == 2:
        names_of = np.array(model.classes, dtype=object)
        columns["tags"] = ["|".join(names_of[tags > 0]) for tags in predicted.numpy()]
    else:
        flat = predicted.reshape(len(predicted), -1).numpy()
        numbered = [f"_{k}" for k in range(1, flat.shape[1] + 1)] if predicted.ndim > 1 else [""]
        columns |= {f"prediction{k}": flat[:, i] for i, k in enumerate(numbered)}
    if scores is not None and scores.shape[1:] == (len(model.classes),):
        columns |= {f"p_{name}": scores[:, k].numpy() for k, name in enumerate(model.classes)}
    table = pd.DataFrame(columns)
    if estimate:
        table.attrs["estimate"] = estimate_outputs(model, inputs, outputs)
    if out is not None:
        write_table(table, out)
    return table


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV or Parquet, whole or not at all."""
    if path.suffix == ".csv":
        texts = table.select_dtypes(["object", "string"])
        table = table.assign(**{str(name): texts[name].map(csv_text) for name in texts})
        table = table.rename(columns=csv_text)
        data = table.to_csv(index=False, lineterminator="\n", float_format="%.7g").encode()
    else:
        file = io.BytesIO()
        table.to_parquet(file, index=False)
        data = file.getvalue()
    write_whole(path, data)


def _safe(name: str) -> str:
    """A name as UTF-8, and a path that looks like a formula with ``./`` before it."""
    text = name.encode("utf-8", "backslashreplace").decode()
    return f"./{text}" if text.startswith(_FORMULA) else text


def _warn(name: str, cause: str) -> None:
    warnings.warn(f"{name} is skipped: {cause}", stacklevel=6)
