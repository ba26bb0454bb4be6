"""Evaluate a model on labelled data: accuracy and risk of every domain, with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from riskmatch.data import OnProgress, load_data
from riskmatch.data.catalogue import is_path, resolve
from riskmatch.data.columns import InputColumn, with_text_names
from riskmatch.data.domain import DomainSet, StoredImages
from riskmatch.data.preprocessing import TablePreprocessing
from riskmatch.data.table import encoded
from riskmatch.deployment.inputs import (
    BATCH,
    ImagePreprocessing,
    InputSamples,
    OnSkip,
    read_frame,
    release_tables,
    samples,
)
from riskmatch.deployment.model import TrainedModel, load_model
from riskmatch.engine.evaluate import predictions_of
from riskmatch.runs.predictions import Predictions
from riskmatch.statistics import normal_quantile, share_interval
from riskmatch.validation import check_option, listed

LEVEL = 0.95
NO_LABELS = "Without labels, monitor --unlabelled (labelled=False) compares confidences."


def evaluate(
    model: TrainedModel | Path | str,
    data: Any,
    *,
    level: float = LEVEL,
    label: str | None = None,
    domain: str | None = None,
    options: Mapping[str, Any] | None = None,
    data_dir: Path | None = None,
    batch_size: int = BATCH,
    trust: bool = False,
    on_skip: OnSkip | None = None,
    on_progress: OnProgress | None = None,
) -> pd.DataFrame:
    """Accuracy and mean risk of a model on every domain of labelled data.

    Args:
        model: a model, or its folder.
        data: labelled data as :func:`riskmatch.load_data` takes them: a name, a path, a data frame,
            a mapping of domain names to ``(x, y)``. Classes are matched by name.
        level: level of the intervals, which take the samples of a domain as independent: Wilson's
            for the accuracy, the normal one for the mean risk.
        label: column of the label of a table; by default that of training.
        domain: column of the domain of a table; by default that of training, where the table has
            it: otherwise all rows are one domain.
        options: options of a named data set; by default those of training if it is the same.
        data_dir: folder that is searched first for files of the data set.
        batch_size: samples per forward pass.
        trust: import a network of the user's own that the folder names, which runs its code.
        on_skip: called with each file that cannot be read, which is left out; by default such a
            file is an error.
        on_progress: called with the number of samples that are done.

    Returns:
        One row per domain: ``domain``, ``trained_on`` (whether the model was trained on a domain of
        this name), ``samples``, ``accuracy``, ``accuracy_low``, ``accuracy_high``, ``risk``,
        ``risk_low``, ``risk_high``. The accuracy of a regression is NaN; its risk on a table is
        that of standardised targets.

    Raises:
        ValueError: the data do not fit the model, such as a class that it does not have.

    Example:
        >>> import tempfile, torch, riskmatch
        >>> x, y = torch.randn(40, 3), torch.arange(40) % 2
        >>> sites = {"A": (x, y), "B": (x + 1, y)}
        >>> run = riskmatch.train(sites, "erm", out=tempfile.mkdtemp(), steps=4)
        >>> folder = riskmatch.save_model(run, run.folder / "model")
        >>> evaluate(folder, {"C": (x - 1, y)})[["domain", "trained_on", "samples"]].values.tolist()
        [['C', False, 40]]
    """
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got {level}.")
    if not isinstance(model, TrainedModel):
        model = load_model(model, trust=trust)
    domains = read_domains(model, data, label, domain, options, data_dir, on_progress)
    scored = score_domains(model, domains, batch_size, on_skip, on_progress)
    rows = [
        {"domain": name, "trained_on": name in model.domains, **_row(scores, level)}
        for name, scores in scored
    ]
    return pd.DataFrame(rows)


LabelledInputs = tuple[str, InputSamples, Tensor]
"""Name, inputs and labels of a domain, labels as those of the model."""


def read_domains(
    model: TrainedModel,
    data: Any,
    label: str | None,
    domain: str | None,
    options: Mapping[str, Any] | None,
    data_dir: Path | None,
    on_progress: OnProgress | None,
) -> list[LabelledInputs]:
    """The domains of labelled data; image files are found but not read.

    Arguments are those of :func:`evaluate`.
    """
    if isinstance(data, str | Path) and is_path(str(data)) and not Path(data).exists():
        raise FileNotFoundError(
            f"There is no {data}. Give the path of labelled data, or the name of a data set."
        )
    if isinstance(model.preprocessing, TablePreprocessing):
        return list(_table(model, data, label, domain))
    for option, value in (("label", label), ("domain", domain)):
        if value is not None:
            raise ValueError(
                f"{option} is for models of tables, and this one takes {model.preprocessing.kind}: "
                f"leave out {option}."
            )
    if isinstance(data, str | Path) and isinstance(model.preprocessing, ImagePreprocessing):
        return list(_images(model, str(data), data_dir))
    if isinstance(data, str | Path):
        if options is None and str(data) == model.config.data:
            options = model.config.data_options
        data = load_data(data, options=options, data_dir=data_dir, on_progress=on_progress)
    return list(_domains(model, load_data(data, on_progress=on_progress)))


def score_domains(
    model: TrainedModel,
    domains: Sequence[LabelledInputs],
    batch_size: int,
    on_skip: OnSkip | None,
    on_progress: OnProgress | None,
) -> Iterator[tuple[str, Predictions]]:
    """Name of each domain of labelled data, and scores of its samples, without features."""
    if model.risk is None:
        raise ValueError(
            "The model was trained with a risk of your own, which its folder does not hold: pass "
            "it as load_model(path, risk=…)."
        )
    for name, inputs, y in domains:
        outputs = model.outputs(
            inputs, batch_size=batch_size, on_skip=on_skip, on_progress=on_progress
        )
        yield (
            name,
            predictions_of(
                outputs.logits, y[list(outputs.rows)], replace(model.task, risk=model.risk)
            ),
        )


def _row(scores: Predictions, level: float) -> dict[str, float]:
    n, risks = len(scores.risk), scores.risk.astype(np.float64)
    accuracy = low = high = math.nan
    if not np.issubdtype(scores.label.dtype, np.floating):
        correct = int(np.sum(scores.predicted == scores.label))
        accuracy, (low, high) = correct / n, share_interval(correct, n, level)
    z = normal_quantile(level)
    half = z * risks.std(ddof=1) / math.sqrt(n) if n > 1 else math.nan
    least = 0.0 if risks.min() >= 0 else -math.inf
    return {
        "samples": n,
        "accuracy": accuracy,
        "accuracy_low": low,
        "accuracy_high": high,
        "risk": risks.mean(),
        "risk_low": max(risks.mean() - half, least),
        "risk_high": risks.mean() + half,
    }


def _table(
    model: TrainedModel, data: Any, label: str | None, domain: str | None
) -> Iterator[LabelledInputs]:
    assert isinstance(model.preprocessing, TablePreprocessing)
    frame = with_text_names(read_frame(data))
    name = Path(data).stem if isinstance(data, str | Path) else "table"
    columns, usual = list(frame.columns), model.table.get("domain")
    label = label or model.table.get("label")
    if label not in columns:
        raise ValueError(
            f"The table has no column '{label}', the label. Name it with --label (label=…), one of "
            f"{listed(columns)}. {NO_LABELS}"
        )
    if domain is not None:
        check_option(f"column of '{name}'", domain, columns)
    if model.classes:
        names, codes = encoded(frame[label], "label")
        y = _relabelled(torch.from_numpy(codes), names, model, name)
    else:
        targets = InputColumn(label, "number").read(frame[label])
        y = model.preprocessing.scale_target(torch.tensor(targets))
    x = model.preprocessing.transform(frame)
    domain = domain or (usual if usual in columns else None)
    domains, numbers = encoded(frame[domain], "domain") if domain else ((name,), np.zeros(len(x)))
    del frame
    release_tables()
    for number, name in enumerate(domains):
        rows = np.flatnonzero(numbers == number)
        yield name, samples(x[rows], model.preprocessing), y[rows]


def _images(model: TrainedModel, data: str, data_dir: Path | None) -> Iterator[LabelledInputs]:
    try:
        index = resolve(data).index(data_dir)
    except ValueError as error:  # images that are not in folders of classes
        raise ValueError(f"{error} {NO_LABELS}") from error
    labels, numbers = torch.tensor(index.labels), np.array(index.domains)
    y = _relabelled(labels, index.class_names, model, index.name)
    for number, name in enumerate(index.domain_names):
        rows = np.flatnonzero(numbers == number).tolist()
        files = [str(index.file(row)) for row in rows]
        yield name, samples(files, model.preprocessing), y[rows]


def _domains(model: TrainedModel, domains: DomainSet) -> Iterator[LabelledInputs]:
    if bool(domains.classes) != bool(model.classes):
        kinds = ("a regression", "a classifier")
        raise ValueError(
            f"The model is {kinds[bool(model.classes)]}, and the labels of '{domains.name}' are "
            f"those of {kinds[bool(domains.classes)]}."
        )
    images = isinstance(model.preprocessing, ImagePreprocessing)
    for domain in domains.domains:
        if not isinstance(domain.x, Tensor | StoredImages if images else Tensor):
            raise ValueError(f"The model does not take the inputs of '{domains.name}'.")
        y = domain.y
        if model.classes:
            y = _relabelled(y, domains.label_names, model, domains.name)
        yield domain.name, samples(domain.x, model.preprocessing), y


def _relabelled(y: Tensor, names: tuple[str, ...], model: TrainedModel, data: str) -> Tensor:
    """Labels of the model for the classes ``names`` of the data."""
    number = {}
    for label in y.unique().tolist():
        check_option(f"class of '{data}' for this model", names[label], model.classes)
        number[label] = model.classes.index(names[label])
    return torch.tensor([number[label] for label in y.tolist()])
