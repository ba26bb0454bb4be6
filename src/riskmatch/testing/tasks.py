"""Conformance checks for tasks: riskmatch's own, or one of yours.

Each check takes a task and raises :class:`ConformanceError`, which names the property that fails.
In a test module::

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_task_conforms(check):
        check(MY_TASK)

A task whose labels have a shape of their own is checked on an example: a function of the number of
samples that returns outputs of a network and labels, as in ``check(MY_TASK, example)``.

>>> from riskmatch.contract import TASKS
>>> for check in CHECKS:
...     check(TASKS["regression"])
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from riskmatch.contract import Task
from riskmatch.contract.risks import checked_risks
from riskmatch.metrics import find_metric
from riskmatch.registry import PartError
from riskmatch.testing import ConformanceError, checks_in, metrics, require

Example = Callable[[int], tuple[Tensor, Tensor]]
"""Outputs (n, …) and labels (n, …) of n samples."""
Check = Callable[..., None]

_SAMPLES = 12


def risks_are_one_per_sample(task: Task, example: Example | None = None) -> None:
    """The risks are (n,) finite numbers, each of its sample alone."""
    outputs, y = _samples(task, example)
    try:
        risks = checked_risks(task.risk, outputs, y)
    except ValueError as error:
        raise ConformanceError("Task", str(error)) from error
    require(bool(torch.isfinite(risks).all()), task, "has risks that are not finite.")
    alone = torch.cat([task.risk(outputs[i : i + 1], y[i : i + 1]) for i in range(_SAMPLES)])
    same = torch.allclose(risks, alone, rtol=1e-4, atol=1e-6)
    require(same, task, "has risks that depend on the other samples; take no mean over the batch.")


def risks_have_gradients(task: Task, example: Example | None = None) -> None:
    """The gradient of the risks by the outputs is finite, and reaches every sample."""
    outputs, y = _samples(task, example)
    outputs.requires_grad_()
    risks = task.risk(outputs, y)
    require(risks.requires_grad, task, "has risks that do not depend on the outputs.")
    (gradient,) = torch.autograd.grad(risks.sum(), outputs)
    require(bool(torch.isfinite(gradient).all()), task, "has gradients that are not finite.")
    reached = gradient.reshape(_SAMPLES, -1).abs().sum(1) > 0
    require(bool(reached.all()), task, "has a risk without a gradient in its sample's outputs.")


def predictions_are_shaped_like_labels(task: Task, example: Example | None = None) -> None:
    """Predicted labels have the shape of labels; scores, where there are any, are in [0, 1]."""
    for count in (1, _SAMPLES):
        outputs, y = _samples(task, example, count)
        predicted, scores = task.predict(outputs)
        shapes = f"{tuple(predicted.shape)} for labels {tuple(y.shape)}"
        require(predicted.shape == y.shape, task, f"predicts labels of shape {shapes}.")
        if scores is not None:
            require(len(scores) == count, task, f"gives {len(scores)} scores of {count} samples.")
            inside = bool(((scores >= 0) & (scores <= 1)).all())
            require(inside, task, "has scores outside of [0, 1].")


def metrics_judge_predictions(task: Task, example: Example | None = None) -> None:
    """Every metric exists and gives a number in its range, or a reason; the primary a number."""
    outputs, y = _samples(task, example)
    predicted, scores = task.predict(outputs)
    known = None if scores is None else scores.numpy()
    for name in task.metrics:
        try:
            metric = find_metric(name)
        except PartError as error:
            raise ConformanceError("Task", str(error)) from error
        value, reason = metric(y.numpy(), predicted.numpy(), known)
        require(np.isnan(value) == bool(reason), task, f"has {name} = {value} without a reason.")
        computed = name != task.primary or not reason
        require(computed, task, f"cannot compute its primary metric {name}: {reason}.")
        if not reason:
            metrics.require_in_range(metric, value)


CHECKS: tuple[Check, ...] = checks_in(globals())
"""All checks."""


def _samples(task: Task, example: Example | None, count: int = _SAMPLES) -> tuple[Tensor, Tensor]:
    if example is not None:
        return example(count)
    if task.labels == "any":
        message = "has labels of its own shape: give the checks an example, n → (outputs, labels)."
        raise ConformanceError("Task", message)
    y = torch.from_numpy(metrics.example(task.labels)[0][:count])
    generator = torch.Generator().manual_seed(0)
    shape = {"numbers": (count, 1), "tags": y.shape, "classes": (count, 3)}[task.labels]
    return torch.randn(shape, generator=generator), y
