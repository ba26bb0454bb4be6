"""Tasks: what is predicted, and how it is judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from riskmatch import registry, trust
from riskmatch.contract.risks import (
    REGRESSION,
    RiskFunction,
    binary_cross_entropy_risks,
    cross_entropy_risks,
    squared_risks,
)
from riskmatch.data.domain import Labels
from riskmatch.metrics import METRICS, find_metric
from riskmatch.registry import PartError
from riskmatch.runs.config import RunConfig
from riskmatch.validation import check_option

Predict = Callable[[Tensor], tuple[Tensor, Tensor | None]]
"""Maps outputs (n, …) to predicted labels and scores, or None where the task has no scores."""


@dataclass(frozen=True)
class Task:
    """What is predicted and how it is judged: the risk of a sample, the prediction, the metrics.

    One of your own is such a value, named ``package.module:NAME``. A loss per pixel or per token
    has as its risk the mean over the parts of a sample.

    Example:
        >>> import torch
        >>> from torch.nn.functional import l1_loss
        >>> risk = lambda outputs, y: l1_loss(outputs[:, 0], y, reduction="none")
        >>> task = Task(risk, lambda outputs: (outputs[:, 0], None), ("mae", "r2"), "mae")
        >>> task.risk(torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 1.0]))
        tensor([0., 2.])
    """

    risk: RiskFunction
    """Risks (n,) of outputs (n, …) and labels (n, …)."""
    predict: Predict
    """Predicted labels of outputs, shaped like labels, and scores between 0 and 1: the
    probabilities (n, c) of classes or (n, k) of tags."""
    metrics: tuple[str, ...]
    """What is recorded: names in :mod:`riskmatch.metrics`, or ``package.module:function``."""
    primary: str
    """The metric that tables show and selection compares, unless another is asked for."""
    labels: Labels = "any"
    """Labels of the data: classes (n,), tags (n, k) of 0, 1 and NaN, numbers (n,), or any (n, …),
    which are then passed to the task as they are."""

    def __post_init__(self) -> None:
        if self.primary not in self.metrics:
            raise ValueError(
                f"The primary metric {self.primary!r} must be one of the task's metrics, got "
                f"{', '.join(self.metrics) or 'none'}."
            )

    def judged_by(self, metrics: tuple[str, ...] = (), primary: str = "") -> Task:
        """The task with other metrics, or another primary one, which then is among them.

        Raises:
            ValueError: a built-in metric is for other labels.

        Example:
            >>> TASKS["regression"].judged_by(("rmse",), "mae").metrics
            ('rmse', 'mae')
        """
        chosen = primary or (metrics[0] if metrics and self.primary not in metrics else "")
        names = metrics or self.metrics
        primary = chosen or self.primary
        if primary not in names:
            names = (*names, primary)
        fitting = [k for t in TASKS.values() if t.labels == self.labels for k in t.metrics]
        valid = dict.fromkeys([*fitting, *self.metrics])
        for name in names:
            find_metric(name)
            if self.labels != "any" and name in METRICS:
                check_option(f"metric of {self.labels}", name, valid)
        return replace(self, metrics=names, primary=primary)


def predicted_classes(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """(n,) the classes of the largest outputs, and the probabilities (n, c).

    Example:
        >>> import torch
        >>> predicted_classes(torch.tensor([[0.0, 2.0]]))[0]
        tensor([1])
    """
    return outputs.argmax(1), outputs.softmax(1)


def predicted_tags(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """(n, k) the tags whose outputs are positive, as 0 and 1, and their probabilities (n, k).

    Example:
        >>> import torch
        >>> predicted_tags(torch.tensor([[0.0, 2.0]]))[0]
        tensor([[0., 1.]])
    """
    return (outputs > 0).float(), outputs.sigmoid()


def predicted_numbers(outputs: Tensor) -> tuple[Tensor, None]:
    """(n,) the outputs of a regression, which has no scores."""
    return outputs.reshape(-1), None


TASKS: dict[str, Task] = {
    "classification": Task(
        cross_entropy_risks,
        predicted_classes,
        (
            "accuracy",
            "balanced-accuracy",
            "macro-f1",
            "auroc",
            "average-precision",
            "log-loss",
            "brier",
            "ece",
        ),
        "accuracy",
        "classes",
    ),
    "multi-label": Task(
        binary_cross_entropy_risks,
        predicted_tags,
        ("mean-ap", "macro-f1", "auroc"),
        "mean-ap",
        "tags",
    ),
    "regression": Task(squared_risks, predicted_numbers, ("rmse", "mae", "r2"), "rmse", "numbers"),
}
"""The built-in tasks by name."""


def labels_of(config: RunConfig) -> Labels | None:
    """What the task of a run takes the labels as; None where it follows from the labels.

    Example:
        >>> labels_of(RunConfig("visits.csv", ("JFK",), "erm", risk="huber"))
        'numbers'
    """
    if config.task != "auto":
        return find_task(config.task).labels
    return "numbers" if config.risk in REGRESSION else None


def find_task(name: str) -> Task:
    """The task of a name: built in, announced, or ``package.module:NAME``.

    Raises:
        PartError: there is no such task, or it is not a :class:`Task`.

    Example:
        >>> find_task("multi-label").primary
        'mean-ap'
    """
    value = registry.find("task", name).value
    if not isinstance(value, Task):
        raise PartError(f"The task '{name}' must be a riskmatch.contract.Task, got {value!r}.")
    trust.type_names(value.metrics)  # by code that was imported, not by a file
    return value
