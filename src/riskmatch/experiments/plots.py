"""What the figures of the benchmarks of images share: their runs, their captions, their files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from riskmatch.experiments.experiment import STAND_IN, Budget, Finished, Request, Result
from riskmatch.experiments.notes import in_place_of, left_out
from riskmatch.experiments.on_images import comparison, runs
from riskmatch.files import write_whole
from riskmatch.report.figures import Plot, read_plot, save
from riskmatch.report.findings.runs import RunOnFile
from riskmatch.sweep.plan import PlannedRun

CAPTIONS: dict[Budget, str] = {
    "smoke": "A few steps, which only show that everything works.",
    "laptop": "Not the paper's network, which is a ResNet-50 trained whole.",
    "paper": "",
}
"""What to know of each budget."""
TEST_DIGITS = "0.1"
"""The test domain of ``STAND_IN``."""
EVERY = 15
"""Steps from one point of the paper's curves to the next."""


def without(
    domain: str,
    request: Request,
    methods: tuple[str, ...],
    choices: Mapping[str, Any] | None = None,
    trials: int = 1,
) -> list[PlannedRun]:
    """Methods with their default hyper-parameters on the request's data set but for a domain.

    Args:
        domain: the test domain; that of digits where these stand in.
        request: with one data set and a budget.
        methods: by name.
        choices: fields of the runs, or of the methods that have them.
        trials: at most; fewer where the budget has fewer.
    """
    (data,) = request.data
    tests = ((TEST_DIGITS if data == STAND_IN else domain,),)
    return runs(
        replace(one, tests=tests, draws=1, trials=min(trials, one.trials))
        for one in comparison(data, request.budget, methods, choices)
    )


def often(budget: Budget) -> dict[str, int]:
    """The choice of evaluations as often as the paper's, relative to the length of its training."""
    fifth = EVERY // 5  # the laptop's runs are a fifth as long
    return {"eval_every": {"smoke": 5, "laptop": fifth, "paper": EVERY}[budget]}


def on_file(finished: Finished[PlannedRun], run: PlannedRun) -> RunOnFile:
    """A run that is done, with its folder."""
    return RunOnFile(finished.runs / run.config.id, finished.records[run.config.id])


def write_plot(finished: Finished[PlannedRun], plot: Plot, text: str) -> Result:
    """The figure as PNG and PDF, and as JSON from which it can be drawn again."""
    request = finished.request
    notes = (plot.note, CAPTIONS[request.budget], left_out(request))
    captioned = replace(
        plot, title=in_place_of(request) + plot.title, note=" ".join(filter(None, notes))
    )
    numbers = captioned.json()
    figure = read_plot(numbers).draw()
    write_whole(finished.file("json"), numbers.encode())
    for suffix in ("png", "pdf"):
        save(figure, finished.file(suffix))
    files = [finished.file(suffix) for suffix in ("png", "pdf", "json")]
    return Result(files, text, json.loads(numbers))
