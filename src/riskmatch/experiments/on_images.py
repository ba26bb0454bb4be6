"""Which runs compare methods on the benchmarks of images, by budget.

``laptop`` trains heads on the features of a frozen backbone, for a fifth of the usual steps; its
runs are those of ``riskmatch sweep plan DIR --data NAME --frozen --draws 5 --steps 1000
--eval-every 60`` (on DomainNet 200), so the folder of such a sweep serves as well.
``paper`` fine-tunes a ResNet-50, with RDM as the released code has it, and repeats the search ten
times. ``smoke`` shows that everything works.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from riskmatch.data import DATASETS
from riskmatch.defaults import PRESETS, recipe
from riskmatch.experiments.experiment import STAND_IN, Budget, Request
from riskmatch.objectives import methods as known_methods
from riskmatch.sweep.plan import PlannedRun, Protocol, held_out
from riskmatch.validation import check_option

FEW = ("erm", "fish", "coral", "rdm")
"""The methods of the budget smoke."""
_FROZEN = {"model_options": {"frozen": True}}
_SHORT = {"steps": 30, "eval_every": 15, "warmup": 10}
_DIGITS = {"data_options": {"samples": 200}, "model_options": {"widths": [16]}}


@dataclass(frozen=True)
class Scale:
    """How much a budget runs."""

    draws: int
    trials: int
    choices: Mapping[str, Any]
    """Fields of the runs, or of the methods that have them."""
    by_data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What differs on a data set, by its name."""

    def on(self, data: str) -> dict[str, Any]:
        """Every choice, on the data set of this name."""
        return {**self.choices, **self.by_data.get(data, {})}


SCALES: dict[Budget, Scale] = {
    "smoke": Scale(1, 1, {**_FROZEN, **_SHORT}),
    "laptop": Scale(
        5,
        3,
        {**_FROZEN, "steps": 1000, "eval_every": 60},
        {"domainnet": {"eval_every": 200}},
    ),
    "paper": Scale(20, 10, {"model": "timm:resnet50.tv_in1k"}),
}
ON_DIGITS = Scale(1, 1, {**_DIGITS, **_SHORT, "divergence": "mmd"})
"""In place of the budget smoke where digits stand in for images."""


def comparison(
    data: str,
    budget: Budget,
    methods: tuple[str, ...] | None = None,
    choices: Mapping[str, Any] | None = None,
) -> list[Protocol]:
    """Methods on a data set at a budget, each domain left out in turn.

    Args:
        data: a benchmark of images, or ``STAND_IN``.
        budget: how much to run.
        methods: in place of the budget's.
        choices: fields of the runs, or of the methods that have them, for all draws alike.

    Example:
        >>> [len(one.runs()) for one in comparison("pacs", "laptop", ("erm", "rdm"))]
        [120]
    """
    scale = ON_DIGITS if data == STAND_IN else SCALES[budget]
    if methods is None:
        methods = FEW if budget == "smoke" else tuple(sorted(known_methods()))
    for method in methods:
        check_option("method", method, sorted(known_methods()))
    presets = {"rdm": PRESETS["rdm"]["authors-code"].on(data)} if budget == "paper" else {}
    usual = tuple(method for method in methods if method not in presets)
    groups: list[tuple[tuple[str, ...], dict[str, Any]]] = [(usual, {})] if usual else []
    groups += [((method,), presets[method]) for method in methods if method in presets]
    tests = tuple(held_out(DATASETS[data].domains))
    return [
        Protocol(
            data,
            group,
            tests,
            scale.draws,
            scale.trials,
            choices=_had_by(group, data, {**scale.on(data), **preset}) | dict(choices or {}),
        )
        for group, preset in groups
    ]


def _had_by(methods: tuple[str, ...], data: str, choices: Mapping[str, Any]) -> dict[str, Any]:
    """Those choices that at least one of the methods has."""
    known = {name for method in methods for name in recipe(method, data)}
    return {name: value for name, value in choices.items() if name in known}


def search(request: Request) -> list[Protocol]:
    """Every method of the request on its data sets, with a search of hyper-parameters."""
    return [
        protocol
        for data in request.data
        for protocol in comparison(data, request.budget, request.methods)
    ]


def costs(request: Request) -> list[Protocol]:
    """The methods whose cost the paper compares, with their default hyper-parameters."""
    rivals = ("fish", "coral", "rdm")
    return [
        replace(protocol, draws=1)
        for data in request.data
        for methods, choices in ((rivals, {}), (("rdm",), {"match": "variance"}))
        for protocol in comparison(data, request.budget, methods, choices)
    ]


def runs(protocols: Iterable[Protocol]) -> list[PlannedRun]:
    """Every run once; whoever stops early has all of the first draws."""
    found = {run.config.id: run for protocol in protocols for run in protocol.runs()}
    return sorted(found.values(), key=lambda run: run.draw)


def count(protocols: Iterable[Protocol]) -> int:
    """How many runs these are, at most."""
    return sum(one.draws * one.trials * len(one.tests) * len(one.methods) for one in protocols)
