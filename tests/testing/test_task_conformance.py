"""riskmatch's own tasks and metrics pass their checks; faulty ones fail them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import mse_loss

from riskmatch.contract import TASKS, Task
from riskmatch.metrics import METRICS, Metric
from riskmatch.testing import ConformanceError, metrics, tasks

LABELS = {
    **dict.fromkeys(METRICS, ("classes",)),
    **dict.fromkeys(("auroc", "average-precision", "macro-f1"), ("classes", "tags")),
    "mean-ap": ("tags",),
    **dict.fromkeys(("rmse", "mae", "r2"), ("numbers",)),
}
NUMBERS, CLASSES = TASKS["regression"], TASKS["classification"]


@pytest.mark.parametrize("check", metrics.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    ("name", "labels"), [(name, labels) for name in METRICS for labels in LABELS[name]]
)
def test_metric_conforms(name, labels, check):
    check(METRICS[name], labels)


@pytest.mark.parametrize("check", tasks.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", TASKS)
def test_task_conforms(name, check):
    check(TASKS[name])


def pixels(count):
    generator = torch.Generator().manual_seed(0)
    outputs = torch.randn(count, 2, 4, 4, generator=generator)
    return outputs, torch.randint(2, (count, 4, 4), generator=generator)


def pixel_accuracy(y, predicted, scores=None):
    """Share of the pixels that are right."""
    return float(np.mean(y == predicted))


PIXELS = Task(
    lambda outputs, y: torch.nn.functional.cross_entropy(outputs, y, reduction="none").mean((1, 2)),
    lambda outputs: (outputs.argmax(1), None),
    (f"{__name__}:pixel_accuracy",),
    f"{__name__}:pixel_accuracy",
)


@pytest.mark.parametrize("check", tasks.CHECKS, ids=lambda check: check.__name__)
def test_task_with_labels_of_its_own_shape_conforms_on_an_example(check):
    check(PIXELS, pixels)
    with pytest.raises(ConformanceError, match="give the checks an example"):
        check(PIXELS)


def made(function, **facts):
    return Metric(title="mine", function=function, **facts)


def nothing(y, predicted, scores):
    """Is a constant."""
    return 2.0


def raising(y, predicted, scores):
    """Divides whole numbers."""
    return 1 // (len(y) - 1) * float(len(y) > 0)


def first(y, predicted, scores):
    """Looks at one sample."""
    return float(y[0] == predicted[0]) + float(y[1])


def sorting(y, predicted, scores):
    """Sorts in place."""
    predicted.sort()
    return 0.5


def errors(y, predicted, scores):
    """Share of errors, as if more of them were better."""
    return float(np.mean(y != predicted))


def undocumented(y, predicted, scores):
    return 0.5


@pytest.mark.parametrize(
    ("metric", "check", "fact"),
    [
        (made(undocumented), metrics.is_described, "no docstring"),
        (made(nothing, range=(1, 0)), metrics.is_described, r"\(1, 0\)"),
        (
            made(nothing, range=(0, 1)),
            metrics.gives_a_number_in_its_range,
            r"2\.0.*\(0, 1\)",
        ),
        (
            raising,
            metrics.degenerate_samples_give_a_number_or_a_reason,
            "ZeroDivisionError.*UndefinedMetricError",
        ),
        (first, metrics.order_does_not_matter, "order"),
        (sorting, metrics.samples_are_left_unchanged, "in place"),
        (errors, metrics.nothing_is_better_than_perfect, "perfect"),
    ],
)
def test_faulty_metric_is_named_with_its_fault(metric, check, fact):
    with pytest.raises(ConformanceError, match=fact):
        check(metric)


def centred(outputs, y):
    return (outputs[:, 0] - y - (outputs[:, 0] - y).mean()).square()


@pytest.mark.parametrize(
    ("task", "check", "fact"),
    [
        (
            replace(NUMBERS, risk=lambda outputs, y: mse_loss(outputs[:, 0], y)),
            tasks.risks_are_one_per_sample,
            r'reduction="none"',
        ),
        (replace(NUMBERS, risk=centred), tasks.risks_are_one_per_sample, "depend on the other"),
        (
            replace(NUMBERS, risk=lambda outputs, y: y.square()),
            tasks.risks_have_gradients,
            "do not depend on the outputs",
        ),
        (
            replace(NUMBERS, predict=lambda outputs: (outputs, None)),
            tasks.predictions_are_shaped_like_labels,
            r"\(1, 1\) for labels \(1,\)",
        ),
        (
            replace(CLASSES, predict=lambda outputs: (outputs.argmax(1), outputs)),
            tasks.predictions_are_shaped_like_labels,
            r"outside of \[0, 1\]",
        ),
        (
            replace(NUMBERS, metrics=("rmse", "nope")),
            tasks.metrics_judge_predictions,
            "nope",
        ),
        (
            replace(NUMBERS, metrics=("auroc",), primary="auroc"),
            tasks.metrics_judge_predictions,
            "primary metric auroc",
        ),
    ],
)
def test_faulty_task_is_named_with_its_fault(task, check, fact):
    with pytest.raises(ConformanceError, match=fact):
        check(task)
