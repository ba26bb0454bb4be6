"""What is known about the task of a run without importing it.

The first line of a record repeats it, so that selection and reports need no part and are right for
a task or a metric of the user's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import msgspec

from riskmatch.metrics import METRICS, MetricFacts
from riskmatch.runs.method import part_title


@dataclass(frozen=True)
class TaskFacts:
    """What is known about a task.

    Example:
        >>> facts = TaskFacts.of("regression", "rmse", {"rmse": METRICS["rmse"]})
        >>> facts.metrics[facts.primary].higher
        False
    """

    name: str
    """Name of the task: one of the user's own is ``package.module:NAME``."""
    primary: str
    """The metric that tables show and selection compares, unless another is asked for."""
    metrics: Mapping[str, MetricFacts]
    """The metrics of every evaluation, by name."""

    @classmethod
    def of(cls, name: str, primary: str, metrics: Mapping[str, MetricFacts]) -> TaskFacts:
        """The facts, without the functions of the metrics."""
        return cls(name, primary, decode_metrics({k: vars(m) for k, m in metrics.items()}))

    def to_json(self) -> dict[str, Any]:
        """The facts as plain JSON values."""
        return asdict(self)


def metric_facts(name: str, *known: Mapping[str, MetricFacts]) -> MetricFacts:
    """What is known about a metric, in the first mapping that has it, else the built-in one's.

    Example:
        >>> metric_facts("rmse").higher, metric_facts("my_metrics:cost").title
        (False, 'cost')
    """
    stated = [facts[name] for facts in (*known, METRICS) if name in facts]
    return stated[0] if stated else MetricFacts(part_title(name))


def decode_metrics(values: Mapping[str, Any]) -> dict[str, MetricFacts]:
    """The facts about metrics from JSON values."""
    return msgspec.convert(values, dict[str, MetricFacts])


ACCURACY_ALONE = TaskFacts.of("classification", "accuracy", {"accuracy": METRICS["accuracy"]})
"""Of records that hold nothing but accuracies, such as those of DomainBed."""


@lru_cache(maxsize=1024)
def decode_task(text: bytes) -> TaskFacts:
    """The facts from JSON; the same object for the same text.

    Raises:
        ValueError: a value is missing or wrong.
    """
    return msgspec.json.decode(text, type=TaskFacts)
