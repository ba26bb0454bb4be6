"""Estimate a metric at a site without labels, with an interval made of errors on left-out sites."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from riskmatch.data import OnProgress
from riskmatch.data.preprocessing import TablePreprocessing
from riskmatch.deployment.estimation.calibration import BASELINES, ESTIMATORS, choose, judge
from riskmatch.deployment.estimation.case import Array, Case, Unlabelled
from riskmatch.deployment.estimation.estimated import Estimated
from riskmatch.deployment.estimation.shift import shifts
from riskmatch.deployment.inputs import BATCH, OnSkip, read_frame, samples
from riskmatch.deployment.model import Outputs, TrainedModel, load_model
from riskmatch.engine.assemble import is_frozen
from riskmatch.files import refuse_input, write_whole
from riskmatch.metrics import METRICS, find_metric
from riskmatch.registry import find
from riskmatch.report.samples import MAX_FEATURES, MAX_HARDEST, SIDE, example_of_tensor
from riskmatch.runs.predictions import Predictions
from riskmatch.statistics import even
from riskmatch.validation import format_value

if TYPE_CHECKING:
    from pandas import DataFrame

    from riskmatch.deployment.inputs import Inputs

LEVEL = 0.9
MOST, WITH_FEATURES = 2000, 500
"""Most samples that are compared with held-out ones, and with features of left-out sites."""
NEIGHBOURS = 5
"""The distance of a sample is that from so many-th nearest held-out sample."""
MOST_CLASSES = 12
"""Most classes whose shares are shown."""


def estimate(
    model: TrainedModel | Path | str,
    inputs: Inputs,
    *,
    metric: str | None = None,
    estimator: str | None = None,
    level: float = LEVEL,
    out: Path | None = None,
    batch_size: int = BATCH,
    trust: bool = False,
    on_skip: OnSkip | None = None,
    on_progress: OnProgress | None = None,
) -> Estimated:
    """Estimate a metric of a model at a site without labels.

    Every estimator is judged by its errors on the left-out sites of the model folder, each
    estimated by a model that was trained without it. The one with the smallest mean absolute error
    is used; the mean of the left-out sites, or the validation of the training sites, where none is
    better. Its errors make the interval, see :func:`riskmatch.statistics.new_site_interval`.

    Args:
        model: a model of classes whose folder has left-out sites, or the folder.
        inputs: inputs of one site, as :func:`riskmatch.predict` takes them.
        metric: metric to estimate; by default the primary one of the task.
        estimator: estimator to use: ``"thresholded"``, ``"difference"``, ``"calibrated"``,
            ``"nearest"`` or one of your own, ``package.module:Name``, a function of a
            :class:`~riskmatch.deployment.estimation.case.Case`.
        level: level of the interval.
        out: file to write a page to, ``.html``.
        batch_size: inputs per forward pass.
        trust: import a network of the user's own that the folder names, which runs its code.
        on_skip: called with each input that cannot be read, which is left out; by default such an
            input is an error.
        on_progress: called with the number of inputs that are done.

    Raises:
        ValueError: the folder has no left-out sites, or the metric cannot be estimated.

    Example:
        >>> import tempfile, torch, riskmatch
        >>> x, y = torch.randn(400, 3), torch.arange(400) // 4 % 2
        >>> sites = {name: (x[k::4] + 2 * y[k::4, None], y[k::4]) for k, name in enumerate("ABC")}
        >>> folder = tempfile.mkdtemp()
        >>> run = riskmatch.train(
        ...     sites, "erm", out=folder, steps=50, save=f"{folder}/model", left_out=True
        ... )
        >>> estimated = estimate(f"{folder}/model", x[3::4])
        >>> 0 <= estimated.interval[0] <= estimated.value <= estimated.interval[1] <= 1
        True
    """
    if not isinstance(model, TrainedModel):
        model = load_model(model, trust=trust)
    if out is not None:
        refuse_input(out, *([inputs] if isinstance(inputs, str | Path) else []))
    check_estimable(model, metric, level)
    source = samples(inputs, model.preprocessing)
    outputs = model.outputs(
        source,
        batch_size=batch_size,
        features=len(source) <= MOST,
        on_skip=on_skip,
        on_progress=on_progress,
    )
    estimated = estimate_outputs(
        model, inputs, outputs, metric=metric, estimator=estimator, level=level
    )
    if out is not None:
        write_whole(out, estimated.html().encode())
    return estimated


def check_estimable(model: TrainedModel, metric: str | None = None, level: float = LEVEL) -> str:
    """The metric to estimate; ``ValueError`` if it cannot be."""
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got {level}.")
    task = model.task.judged_by((), metric or "")
    can = [name for name in task.metrics if name != "ece"] if model.labels == "classes" else []
    if task.primary not in can:
        raise ValueError(
            f"{METRICS[task.primary].title if task.primary in METRICS else task.primary} cannot be "
            "estimated without labels: estimates rest on calibrated probabilities of classes. Of "
            f"this model can be: {', '.join(can) or 'none'}."
        )
    if not model.left_out:
        raise ValueError(
            "The model folder has no left-out sites, on which estimates are calibrated. Repeat its "
            "riskmatch train … --all-domains --save, which then trains these runs alone "
            "(left_out=True)."
        )
    return task.primary


def estimate_outputs(
    model: TrainedModel,
    inputs: Inputs,
    outputs: Outputs,
    *,
    metric: str | None = None,
    estimator: str | None = None,
    level: float = LEVEL,
) -> Estimated:
    """Estimate a metric from the outputs of a model; see :func:`estimate`."""
    name = check_estimable(model, metric, level)
    predicted, scores = model.predictions(outputs.logits)
    assert scores is not None  # of classes
    rows = even(len(outputs.rows), MOST)
    positions = [outputs.rows[row] for row in rows]
    features = outputs.features
    if features is None:
        features = model.outputs(outputs.samples.take(positions), features=True).features
    else:
        features = features[rows]
    wide = np.empty((0, 0)) if features is None else features.numpy()
    held = [model.held_out[domain] for domain in model.domains]
    shares = [even(len(part.label), MOST // len(held)) for part in held]
    validation = Predictions.join([p.take(r) for p, r in zip(held, shares, strict=True)])
    config = model.config
    own = not (is_frozen(config) or config.model == "linear") or config.model_options.get("hidden")
    compared = np.empty((0, 0)) if own else wide[even(len(wide), WITH_FEATURES)]
    site = Unlabelled(predicted.numpy(), scores.numpy(), compared)
    case = Case(name, site, validation, [*model.left_out.values()], find_metric(name))
    chosen = {} if estimator is None else {estimator: find("estimator", estimator).value}
    judged = judge({**ESTIMATORS, **chosen, **BASELINES}, case)
    used = choose([one for one in judged if estimator in (None, one.name)])
    if used.missing:
        raise ValueError(f"The estimator {estimator} gives no {name}: {used.missing}.")
    held_out = [p.features[r] for p, r in zip(held, shares, strict=True) if p.features is not None]
    far = _distances(wide, np.concatenate(held_out)) if wide.size else -site.confidence[rows]
    order = np.argsort(-far, kind="stable")[:MAX_HARDEST]
    path = inputs if isinstance(inputs, str | Path) else None
    made, frame = model.preprocessing, None
    if isinstance(made, TablePreprocessing) and not isinstance(inputs, Tensor):
        frame = read_frame(inputs)[[column.name for column in made.columns]]
    return Estimated(
        site="the new site" if path is None else Path(path).stem,
        samples=len(outputs.rows),
        metric=name,
        facts=model.facts.metrics.get(name) or case.metric,
        used=used,
        interval=used.interval(level),
        level=level,
        judged=judged,
        shifts=shifts(case, level),
        shares=_shares(model.classes, site, validation),
        columns=outputs.samples.unlike_training,
        unusual=[
            {
                **_shown(outputs, frame, positions[k]),
                "predicted": model.classes[site.predicted[rows[k]]],
                "confidence": float(site.confidence[rows[k]]),
                "distance": float(far[k]) if wide.size else None,
            }
            for k in order.tolist()
        ],
    )


def _distances(x: Array, held_out: Array) -> Array:
    """(n,) distances of samples from held-out ones, relative to the median among these.

    Reference: Sun et al., *Out-of-Distribution Detection with Deep Nearest Neighbors*, ICML 2022.
    """
    from scipy.spatial.distance import cdist

    def nearest(y: Array, k: int) -> Array:
        k = min(k, len(held_out) - 1)
        return np.partition(cdist(y.astype(float), held_out.astype(float)), k, axis=1)[:, k]

    typical = float(np.median(nearest(held_out, NEIGHBOURS)))  # the nearest is the sample itself
    return np.asarray(nearest(x, NEIGHBOURS - 1) / (typical or 1.0))


def _shares(
    classes: Sequence[str], site: Unlabelled, validation: Predictions
) -> dict[str, tuple[float, float]]:
    """Mean confidence, and shares of the predicted classes that differ most."""
    both = [
        np.bincount(predicted, minlength=len(classes)) / len(predicted)
        for predicted in (validation.predicted, site.predicted)
    ]
    order = np.argsort(-abs(both[1] - both[0]), kind="stable")[:MOST_CLASSES]
    confidence = float(validation.confidence.mean(dtype=float)), float(site.confidence.mean())
    shares = {f"predicted {classes[k]}": (float(both[0][k]), float(both[1][k])) for k in order}
    return {"confidence": confidence, **shares}


def _shown(outputs: Outputs, frame: DataFrame | None, position: int) -> dict[str, Any]:
    """Name of an input, and its picture or row."""
    source = outputs.samples
    shown: dict[str, Any] = {"name": str(source.names[position]), "thumbnail": None, "row": None}
    if frame is not None:
        texts = frame.iloc[position].map(format_value)
        return shown | {"row": dict(texts[:MAX_FEATURES])}
    ((_, batch),) = source.take([position]).batches(1, lambda name, cause: None)
    x = batch[0]
    if x.ndim == 3:
        step = max(1, min(x.shape[1:]) // SIDE)
        x = x[:, ::step, ::step]
    example = example_of_tensor(x, None)
    return shown | {"thumbnail": example.thumbnail, "row": example.row}
