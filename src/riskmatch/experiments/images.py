"""Runs that compare methods on the image benchmarks, by budget, and the files made from them.

``laptop`` trains heads on the features of a frozen backbone, for a fifth of the default steps. Its
runs are among those of ``riskmatch sweep plan DIR --data NAME --frozen --draws 5 --steps 1000
--eval-every 60`` (on DomainNet 200), so the folder of such a sweep can be used as ``--out``.
``paper`` fine-tunes a ResNet-50 with the preset authors-code and repeats the search ten times.
``smoke`` checks that everything works.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from riskmatch import registry
from riskmatch.data import DATASETS
from riskmatch.defaults import field_names
from riskmatch.experiments.experiment import STAND_IN, Budget, FinishedRuns, Output, Scope
from riskmatch.report.figures import Plot, read_plot, save
from riskmatch.report.published import METHODS
from riskmatch.report.tables import Table
from riskmatch.sweep.plan import PlannedRun, Protocol, held_out

IMAGE_DATA = ("vlcs", "pacs", "officehome", "terraincognita", "domainnet")
"""Image benchmarks in the order of the paper's tables."""
SMOKE_METHODS = ("erm", "fish", "coral", "rdm")
CONTROLS = {"erm-switch"}
"""Methods with a place in the tables that are not in the paper's."""
STAND_IN_TEST_DOMAIN = "0.1"
TABLE_NOTES: dict[Budget, str] = {
    "smoke": "The budget smoke checks that everything works, with few methods and steps. Do not "
    "compare its numbers with the paper's.",
    "laptop": "The budget laptop trains heads on frozen features of a network smaller than the "
    "paper's ResNet-50, which was fine-tuned. Compare methods with each other, not with the "
    "paper's numbers. Seconds and memory are those of training the head.",
    "paper": "",
}
FIGURE_NOTES: dict[Budget, str] = {
    "smoke": "Few steps: a check that everything works.",
    "laptop": "The paper fine-tunes a ResNet-50 instead.",
    "paper": "",
}


def _size(data: str, budget: Budget) -> tuple[int, int, dict[str, Any]]:
    """Draws, trials and the fixed fields of runs, or of the methods that have them."""
    short = {"steps": 30, "eval_every": 15, "warmup": 10}
    frozen = {"model": "lite0", "model_options": {"frozen": True}}
    if data == STAND_IN:
        small = {"data_options": {"samples": 200}, "model_options": {"widths": [16]}}
        return 1, 1, {**small, "divergence": "mmd", **short}
    if budget == "smoke":
        return 1, 1, {**frozen, **short}
    if budget == "laptop":
        return 5, 3, {**frozen, "steps": 1000, "eval_every": 200 if data == "domainnet" else 60}
    return 20, 10, {"model": "timm:resnet50.tv_in1k"}


def protocol(
    data: str,
    scope: Scope,
    methods: Sequence[str] | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Protocol:
    """Comparison of methods on a data set, each domain being the test domain in turn.

    Args:
        data: an image benchmark, or ``STAND_IN``.
        scope: budget and preset.
        methods: names of methods, built in or ``package.module:Name``; None for the budget's.
        fields: values of run fields or hyper-parameters that are fixed in all draws.

    Example:
        >>> len(protocol("pacs", Scope("laptop", ("pacs",)), ("erm", "rdm")).runs())
        120
    """
    draws, trials, fixed = _size(data, scope.budget)
    if methods is None:
        compared = registry.built_in("method").keys() & set(METHODS) - CONTROLS
        methods = SMOKE_METHODS if scope.budget == "smoke" else sorted(compared)
    known = {name for method in methods for name in field_names(method)}
    choices = {name: value for name, value in fixed.items() if name in known} | dict(fields or {})
    preset = scope.preset or ("authors-code" if scope.budget == "paper" else None)
    tests = tuple(held_out(DATASETS[data].domains))
    return Protocol(data, tuple(methods), tests, draws, trials, choices=choices, preset=preset)


def shared_batch_size(data: str, scope: Scope) -> dict[str, int]:
    """RDM's default batch size on a data set, to compare all methods at one batch size."""
    search = protocol(data, scope, ("rdm",))
    (run, *_) = replace(search, draws=1, trials=1).runs()
    return {"batch_size": run.config.batch_size}


def planned_runs(protocols: Iterable[Protocol]) -> list[PlannedRun]:
    """Every run once, sorted by draw, so that an interrupted sweep has all of the first draws."""
    by_id = {run.config.id: run for protocol in protocols for run in protocol.runs()}
    return sorted(by_id.values(), key=lambda run: run.draw)


def runs_without(
    domain: str,
    scope: Scope,
    methods: tuple[str, ...],
    fields: Mapping[str, Any] | None = None,
    trials: int = 1,
) -> list[PlannedRun]:
    """Runs of methods with default hyper-parameters, with one test domain.

    Args:
        domain: test domain; replaced by ``STAND_IN_TEST_DOMAIN`` on the stand-in data.
        scope: scope with one data set.
        methods: names of methods.
        fields: values of run fields or hyper-parameters.
        trials: number of trials, at most that of the budget.
    """
    (data,) = scope.data
    tests = ((STAND_IN_TEST_DOMAIN if data == STAND_IN else domain,),)
    whole = protocol(data, scope, methods, fields)
    return planned_runs([replace(whole, tests=tests, draws=1, trials=min(trials, whole.trials))])


def write_tables(title: str, tables: Sequence[Table], finished: FinishedRuns) -> Output:
    """Write one table for all data sets, or one for each, as Markdown, LaTeX and CSV."""
    scope = finished.scope
    tables = [replace(one, caption=joined(scope.stand_in_note, one.caption)) for one in tables]
    whole = tables[0]
    if len(tables) > 1:  # the data set is the first column
        stacked = zip(scope.data, tables, strict=True)
        rows = tuple((name, *row) for name, one in stacked for row in one.rows)
        whole = Table("", ("data", *whole.columns), rows)
    notes = filter(None, (TABLE_NOTES[scope.budget], scope.unavailable_note))
    shown = [*(one.markdown() for one in tables), *notes]
    paragraphs = [f"# {title}", *shown, f"Written by `{finished.command}`."]
    return finished.write_tables(paragraphs, tables, whole, "\n\n".join(shown))


def write_figure(finished: FinishedRuns, plot: Plot, text: str) -> Output:
    """Write a figure as PNG and PDF, and as JSON from which it can be drawn again."""
    scope = finished.scope
    plot = replace(
        plot,
        title=joined(scope.stand_in_note, plot.title),
        note=joined(plot.note, FIGURE_NOTES[scope.budget], scope.unavailable_note),
    )
    numbers = plot.json()
    figure, drawn = read_plot(numbers).draw(), [finished.file("png"), finished.file("pdf")]
    for path in drawn:
        save(figure, path)
    return Output([*drawn, *finished.write({"json": numbers})], text, json.loads(numbers))


def joined(*sentences: str) -> str:
    """Sentences that are not empty, with blanks between them."""
    return " ".join(filter(None, sentences))
