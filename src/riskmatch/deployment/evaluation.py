"""Evaluate a model on labelled data: metrics and risk of every domain, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from riskmatch.data import OnProgress, load_data
from riskmatch.data.catalogue import is_path, resolve
from riskmatch.data.columns import InputColumn, with_text_names
from riskmatch.data.convert import Group, table_options
from riskmatch.data.domain import Domain, DomainSet, Labels, StoredImages
from riskmatch.data.images.cache import index_domains
from riskmatch.data.images.index import STEM, index_sites
from riskmatch.data.images.manifest import is_manifest, other_columns
from riskmatch.data.labels import Place, label_columns, read_tags
from riskmatch.data.preprocessing import TablePreprocessing
from riskmatch.data.table import encoded, encoded_groups, row_place
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
from riskmatch.metrics import ACCURACY, Metric, find_metric
from riskmatch.runs.predictions import Predictions
from riskmatch.runs.task import decode_metrics
from riskmatch.statistics import bootstrap_interval, normal_quantile, share_interval
from riskmatch.validation import check_option, listed

LEVEL = 0.95
NO_LABELS = "Without labels, monitor --unlabelled (labelled=False) compares confidences."


def evaluate(
    model: TrainedModel | Path | str,
    data: Any,
    *,
    metric: str | None = None,
    level: float = LEVEL,
    label: str | Sequence[str] | None = None,
    domain: str | None = None,
    group: Group = None,
    options: Mapping[str, Any] | None = None,
    data_dir: Path | None = None,
    batch_size: int = BATCH,
    trust: bool = False,
    on_skip: OnSkip | None = None,
    on_progress: OnProgress | None = None,
) -> pd.DataFrame:
    """Metrics and mean risk of a model on every domain of labelled data.

    Args:
        model: a model, or its folder.
        data: labelled data as :func:`riskmatch.load_data` takes them: a name, a path, a data frame,
            a mapping of domain names to ``(x, y)``. Classes and tags are matched by name.
        metric: the metric that tells the worst domain, a name or ``package.module:function``; by
            default the primary one of the model's task.
        level: level of the intervals. Where the data have groups they are bootstrap percentiles
            over groups; elsewhere the samples of a domain count as independent: Wilson's interval
            for the accuracy, bootstrap percentiles for other metrics, the normal one for the mean
            risk.
        label: columns of the label of a table or a list of images; by default those of training.
        domain: column of the domain of a table; by default that of training, where the table has
            it: otherwise all rows are one domain.
        group: groups of samples, such as patients, as :func:`riskmatch.load_data` takes them; by
            default the column of training, where the data have it.
        options: options of a named data set; by default those of training if it is the same.
        data_dir: folder that is searched first for files of the data set.
        batch_size: samples per forward pass.
        trust: import a network of the user's own that the folder names, which runs its code.
        on_skip: called with each file that cannot be read, which is left out; by default such a
            file is an error.
        on_progress: called with the number of samples that are done.

    Returns:
        One row per domain: ``domain``, ``trained_on`` (whether the model was trained on a domain of
        this name), ``samples``; of each metric ``NAME``, ``NAME_low`` and ``NAME_high``, such as
        ``accuracy_low``, NaN where it cannot be computed; ``risk``, ``risk_low``, ``risk_high``.
        Metrics of a regression are in the unit of the label, its risk on a table is that of
        standardised labels. In ``attrs``: ``metric``, the name of the metric; ``metrics``, what is
        known about each by name; ``worst``, the domain with the worst value; ``missing``, by domain
        and metric why there is none; ``unit``, what the intervals take as independent:
        ``"samples"`` or ``"groups"``.

    Raises:
        ValueError: the data do not fit the model, such as a class that it does not have.
        PartError: there is no such metric.

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
    task = model.task.judged_by((), metric or "")
    metrics = {name: find_metric(name) for name in task.metrics}
    domains = read_domains(model, data, label, domain, options, data_dir, on_progress, group)
    rows, missing = list[dict[str, Any]](), dict[str, dict[str, str]]()
    groups = {entry.name: entry.groups for entry in domains}
    for name, scored in score_domains(model, domains, batch_size, on_skip, on_progress):
        own = groups[name]
        drawn = None if own is None else own.numpy()[scored.index]
        row, missing[name] = _row(scored, metrics, level, drawn)
        rows.append({"domain": name, "trained_on": name in model.domains, **row})
    table = pd.DataFrame(rows)
    values = table.set_index("domain")[task.primary].dropna()
    worst = values.idxmin() if metrics[task.primary].higher else values.idxmax()
    table.attrs |= {
        "metric": task.primary,
        "metrics": decode_metrics({name: vars(metric) for name, metric in metrics.items()}),
        "worst": None if values.empty else worst,
        "missing": {name: reasons for name, reasons in missing.items() if reasons},
        "unit": "samples" if None in groups.values() else "groups",
    }
    return table


class LabelledInputs(NamedTuple):
    """A domain of labelled data."""

    name: str
    inputs: InputSamples
    y: Tensor
    """Labels as those of the model."""
    groups: Tensor | None = None
    """(n,) group of each sample."""


def read_domains(
    model: TrainedModel,
    data: Any,
    label: str | Sequence[str] | None,
    domain: str | None,
    options: Mapping[str, Any] | None,
    data_dir: Path | None,
    on_progress: OnProgress | None,
    group: Group = None,
) -> list[LabelledInputs]:
    """The domains of labelled data; image files are found but not read.

    Arguments are those of :func:`evaluate`.
    """
    if isinstance(data, str | Path) and is_path(str(data)) and not Path(data).exists():
        raise FileNotFoundError(
            f"There is no {data}. Give the path of labelled data, or the name of a data set."
        )
    if isinstance(model.preprocessing, TablePreprocessing):
        return list(_table(model, data, label, domain, group))
    images = isinstance(model.preprocessing, ImagePreprocessing)
    for option, value in (("label", None if images else label), ("domain", domain)):
        if value is not None:
            raise ValueError(
                f"{option} is for models of tables, and this one takes {model.preprocessing.kind}: "
                f"leave out {option}."
            )
    if isinstance(data, str | Path) and images:
        return list(_images(model, str(data), label, data_dir, group))
    if isinstance(data, str | Path):
        if options is None and str(data) == model.config.data:
            options = model.config.data_options
        paths: Any = {"options": options, "data_dir": data_dir}
        data, group = load_data(data, group=group, on_progress=on_progress, **paths), None
    return list(_domains(model, load_data(data, group=group, on_progress=on_progress)))


def score_domains(
    model: TrainedModel,
    domains: Sequence[LabelledInputs],
    batch_size: int,
    on_skip: OnSkip | None,
    on_progress: OnProgress | None,
) -> Iterator[tuple[str, Predictions]]:
    """Name of each domain of labelled data, and predictions on its samples."""
    if model.risk is None:
        raise ValueError(
            "The model was trained with a risk of your own, which its folder does not hold: pass "
            "it as load_model(path, risk=…)."
        )
    task = replace(model.task, risk=model.risk)
    for name, inputs, y, _ in domains:
        outputs = model.outputs(
            inputs, batch_size=batch_size, on_skip=on_skip, on_progress=on_progress
        )
        labels = y[list(outputs.rows)]
        scored = predictions_of(outputs.logits, labels, task, restore=model.restored)
        yield name, replace(scored, index=np.array(outputs.rows))


def _row(
    scored: Predictions,
    metrics: Mapping[str, Metric],
    level: float,
    groups: NDArray[np.int64] | None,
) -> tuple[dict[str, float], dict[str, str]]:
    """Metrics and risk with their intervals, and why metrics are missing."""
    n, risks = len(scored.risk), scored.risk.astype(np.float64)
    row: dict[str, float] = {"samples": n}
    missing = dict[str, str]()
    for name, metric in metrics.items():
        row[name], reason = metric(scored.label, scored.predicted, scored.scores)
        row[f"{name}_low"], row[f"{name}_high"] = math.nan, math.nan
        if reason:
            missing[name] = reason
        else:
            ends = _interval(scored, name, metric, level, groups)
            row[f"{name}_low"], row[f"{name}_high"] = ends
    half = math.nan
    if n > 1:
        half = normal_quantile(level) * risks.std(ddof=1) / math.sqrt(n)
    least = 0.0 if risks.min() >= 0 else -math.inf
    ends = max(risks.mean() - half, least), risks.mean() + half
    if groups is not None:
        ends = bootstrap_interval(lambda rows: float(risks[rows].mean()), groups, level)
    row |= {"risk": risks.mean(), "risk_low": ends[0], "risk_high": ends[1]}
    return row, missing


def _interval(
    scored: Predictions,
    name: str,
    metric: Metric,
    level: float,
    groups: NDArray[np.int64] | None,
) -> tuple[float, float]:
    n = len(scored.risk)
    if name == ACCURACY and groups is None:
        return share_interval(int(np.sum(scored.predicted == scored.label)), n, level)

    def drawn(rows: NDArray[np.intp]) -> float:
        scores = None if scored.scores is None else scored.scores[rows]
        return metric(scored.label[rows], scored.predicted[rows], scores)[0]

    return bootstrap_interval(drawn, np.arange(n) if groups is None else groups, level)


def _table(
    model: TrainedModel,
    data: Any,
    label: str | Sequence[str] | None,
    domain: str | None,
    group: Group,
) -> Iterator[LabelledInputs]:
    assert isinstance(model.preprocessing, TablePreprocessing)
    frame = with_text_names(read_frame(data))
    name = Path(data).stem if isinstance(data, str | Path) else "table"
    columns, usual = list(frame.columns), model.table.get("domain")
    labels = label_columns(label or model.table.get("label", ""), columns)
    if absent := [column for column in labels if column not in columns]:
        raise ValueError(
            f"The table has no column '{absent[0]}', the label. Name it with --label (label=…), "
            f"one of {listed(columns)}. {NO_LABELS}"
        )
    group = _group(model, group, columns)
    for column in (domain, group):
        if column is not None:
            check_option(f"column of '{name}'", column, columns)
    y = _labels(model, [frame[column] for column in labels], row_place, name)
    if model.labels == "numbers":
        y = model.preprocessing.scale_target(y)
    x = model.preprocessing.transform(frame)
    domain = domain or (usual if usual in columns else None)
    domains, numbers = encoded(frame[domain], "domain") if domain else ((name,), np.zeros(len(x)))
    groups = None if group is None else encoded_groups(frame[group])
    del frame
    release_tables()
    for number, name in enumerate(domains):
        rows = np.flatnonzero(numbers == number)
        own = None if groups is None else groups[rows]
        yield LabelledInputs(name, samples(x[rows], model.preprocessing), y[rows], own)


def _group(model: TrainedModel, group: Group, columns: Container[str]) -> str | None:
    """The column of the groups: the one given, or that of training where the data have it."""
    usual = model.table.get("group")
    return table_options(group=group).get("group") or (usual if usual in columns else None)


def _labels(
    model: TrainedModel, columns: Sequence[pd.Series[Any]], place: Place, name: str
) -> Tensor:
    """Labels of a table, as those of the model."""
    if model.labels == "tags":
        tags = read_tags(columns, place, known=True)
        if tags is None:
            raise ValueError(
                f"The model predicts tags, and the label {columns[0].name!r} of '{name}' has no "
                f"lists of them: name a column of lists, or one of each tag. {NO_LABELS}"
            )
        return _retagged(torch.from_numpy(tags[1]), tags[0], model, name, len(columns) > 1)
    (column,) = columns
    if model.labels == "numbers":
        return torch.tensor(InputColumn(str(column.name), "number").read(column))
    names, codes = encoded(column, "label")
    return _relabelled(torch.from_numpy(codes), names, model, name)


def _images(
    model: TrainedModel,
    data: str,
    label: str | Sequence[str] | None,
    data_dir: Path | None,
    group: Group,
) -> Iterator[LabelledInputs]:
    try:
        source = resolve(data)
        manifest = source.path is not None and is_manifest(source.path)
        if label is not None and not manifest:
            raise ValueError(
                f"label is for models of tables and lists of images, and {data} is a folder of "
                "images: leave out label."
            )
        options, columns = dict[str, Any](), [STEM]
        if manifest and source.path is not None:
            options["label"] = label or model.table.get("label")
            columns = [*other_columns(source.path)]
        options["group"] = _group(model, group, columns)
        if source.path is None or manifest:
            index = source.index(data_dir, options)
        else:
            index = index_sites(source.path).grouped(options["group"])
    except ValueError as error:  # images that are not in folders of classes
        raise ValueError(f"{error} {NO_LABELS}") from error
    domains = index_domains(index)
    positions = DomainSet(index.name, domains, index.classes, class_names=index.class_names)
    for domain in _of_model(model, positions):
        files = [str(index.file(row)) for row in domain.x[:].tolist()]
        inputs = samples(files, model.preprocessing)
        yield LabelledInputs(domain.name, inputs, domain.y, domain.groups)


def _domains(model: TrainedModel, domains: DomainSet) -> Iterator[LabelledInputs]:
    images = isinstance(model.preprocessing, ImagePreprocessing)
    for domain in _of_model(model, domains):
        if not isinstance(domain.x, Tensor | StoredImages if images else Tensor):
            raise ValueError(f"The model does not take the inputs of '{domains.name}'.")
        inputs = samples(domain.x, model.preprocessing)
        yield LabelledInputs(domain.name, inputs, domain.y, domain.groups)


def _of_model(model: TrainedModel, domains: DomainSet) -> tuple[Domain, ...]:
    """The domains, with labels as those of the model."""
    data, labels = domains.name, model.labels
    if labels != domains.labels:
        try:
            return _of_model(model, domains.labelled(labels))
        except ValueError as error:
            kinds = {"classes": "a classifier", "numbers": "a regression", "tags": "one of tags"}
            raise ValueError(
                f"The model is {kinds.get(labels, 'one of other labels')}, and the labels of "
                f"'{data}' are those of {kinds.get(domains.labels, 'another')}: {error}"
            ) from error
    names = domains.label_names
    relabel: dict[Labels, Callable[[Tensor], Tensor]] = {
        "classes": lambda y: _relabelled(y, names, model, data),
        "tags": lambda y: _retagged(y, names, model, data, True),
    }
    if labels not in relabel:
        return domains.domains
    return tuple(replace(domain, y=relabel[labels](domain.y)) for domain in domains.domains)


def _relabelled(y: Tensor, names: tuple[str, ...], model: TrainedModel, data: str) -> Tensor:
    """Labels of the model for the classes ``names`` of the data."""
    number = {}
    for label in y.unique().tolist():
        check_option(f"class of '{data}' for this model", names[label], model.classes)
        number[label] = model.classes.index(names[label])
    return torch.tensor([number[label] for label in y.tolist()])


def _retagged(
    y: Tensor, names: tuple[str, ...], model: TrainedModel, data: str, columns: bool
) -> Tensor:
    """Tags of the model (n, k) from the tags ``names`` of the data.

    Those that the data do not name are missing where each tag has a column; in lists they are 0.
    """
    for name in names:
        check_option(f"tag of '{data}' for this model", name, model.classes)
    tags = torch.full((len(y), len(model.classes)), torch.nan)
    if not columns:
        tags[~y.isnan().all(1)] = 0
    tags[:, [model.classes.index(name) for name in names]] = y
    return tags
