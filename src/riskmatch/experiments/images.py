"""Runs that compare methods on the image benchmarks, by budget, and the files made from them.

``laptop`` trains heads on the features of a frozen backbone, for a fifth of the default steps. Its
runs are those of ``riskmatch sweep plan DIR --data NAME --frozen --draws 5 --steps 1000
--eval-every 60`` (on DomainNet 200), so the folder of such a sweep can be used as ``--out``.
``paper`` fine-tunes a ResNet-50 with RDM's preset authors-code and repeats the search ten times.
``smoke`` checks that everything works.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from riskmatch import registry
from riskmatch.data import DATASETS
from riskmatch.defaults import PRESETS, field_names
from riskmatch.experiments.experiment import STAND_IN, Budget, FinishedRuns, Output, Scope
from riskmatch.files import write_whole
from riskmatch.report.figures import Lines, Plot, read_plot, save
from riskmatch.report.stored_runs import StoredRun
from riskmatch.report.tables import Table
from riskmatch.sweep.plan import PlannedRun, Protocol, held_out

IMAGE_DATA = ("vlcs", "pacs", "officehome", "terraincognita", "domainnet")
"""Image benchmarks in the order of the paper's tables."""
SMOKE_METHODS = ("erm", "fish", "coral", "rdm")
STAND_IN_TEST_DOMAIN = "0.1"
CURVE_INTERVAL = 15
"""Steps between two points of the paper's training curves."""
_FROZEN = {"model_options": {"frozen": True}}
_SHORT = {"steps": 30, "eval_every": 15, "warmup": 10}

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


@dataclass(frozen=True)
class SearchSize:
    """Number of runs of a budget, and the fields that it fixes."""

    draws: int
    trials: int
    fields: Mapping[str, Any]
    """Values of run fields, or of hyper-parameters of the methods that have them."""
    fields_by_data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Values that differ on a data set, by its name."""

    def fields_on(self, data: str) -> dict[str, Any]:
        """Fixed values on a data set."""
        return {**self.fields, **self.fields_by_data.get(data, {})}


SIZES: dict[Budget, SearchSize] = {
    "smoke": SearchSize(1, 1, {**_FROZEN, **_SHORT}),
    "laptop": SearchSize(
        5,
        3,
        {**_FROZEN, "steps": 1000, "eval_every": 60},
        {"domainnet": {"eval_every": 200}},
    ),
    "paper": SearchSize(20, 10, {"model": "timm:resnet50.tv_in1k"}),
}
STAND_IN_SIZE = SearchSize(
    1,
    1,
    {
        "data_options": {"samples": 200},
        "model_options": {"widths": [16]},
        "divergence": "mmd",
        **_SHORT,
    },
)
"""Size of the budget smoke on the stand-in data."""


def protocols(
    data: str,
    budget: Budget,
    methods: tuple[str, ...] | None = None,
    fields: Mapping[str, Any] | None = None,
) -> list[Protocol]:
    """Comparisons of methods on a data set, each domain being the test domain in turn.

    Args:
        data: an image benchmark, or ``STAND_IN``.
        budget: how much to run.
        methods: names of methods, built in or ``package.module:Name``; None for the budget's.
        fields: values of run fields or hyper-parameters that are fixed in all draws.

    Example:
        >>> [len(one.runs()) for one in protocols("pacs", "laptop", ("erm", "rdm"))]
        [120]
    """
    size = STAND_IN_SIZE if data == STAND_IN else SIZES[budget]
    if methods is None:
        built_in = tuple(sorted(registry.built_in("method")))
        methods = SMOKE_METHODS if budget == "smoke" else built_in
    for method in methods:
        registry.find("method", method)
    presets = {"rdm": PRESETS["rdm"]["authors-code"].on(data)} if budget == "paper" else {}
    without_preset = tuple(method for method in methods if method not in presets)
    groups: list[tuple[tuple[str, ...], dict[str, Any]]] = []
    if without_preset:
        groups.append((without_preset, {}))
    groups += [((method,), presets[method]) for method in methods if method in presets]
    tests = tuple(held_out(DATASETS[data].domains))
    return [
        Protocol(
            data,
            group,
            tests,
            size.draws,
            size.trials,
            choices=_known_fields(group, {**size.fields_on(data), **preset}) | dict(fields or {}),
        )
        for group, preset in groups
    ]


def _known_fields(methods: tuple[str, ...], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Those fields that at least one of the methods has."""
    known = {name for method in methods for name in field_names(method)}
    return {name: value for name, value in fields.items() if name in known}


def planned_runs(protocols: Iterable[Protocol]) -> list[PlannedRun]:
    """Every run once, sorted by draw, so that an interrupted sweep has all of the first draws."""
    by_id = {run.config.id: run for protocol in protocols for run in protocol.runs()}
    return sorted(by_id.values(), key=lambda run: run.draw)


def run_count(protocols: Iterable[Protocol]) -> int:
    """Upper bound of the number of runs."""
    return sum(one.draws * one.trials * len(one.tests) * len(one.methods) for one in protocols)


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
    return planned_runs(
        replace(one, tests=tests, draws=1, trials=min(trials, one.trials))
        for one in protocols(data, scope.budget, methods, fields)
    )


def curve_fields(budget: Budget) -> dict[str, int]:
    """Evaluation interval of a training curve with as many points as the paper's."""
    fifth = CURVE_INTERVAL // 5  # runs of the budget laptop have a fifth of the steps
    return {"eval_every": {"smoke": 5, "laptop": fifth, "paper": CURVE_INTERVAL}[budget]}


def warmup_of(planned: Sequence[PlannedRun]) -> int:
    """Longest warm-up of the runs, in steps."""
    return max(int(run.config.hparams.get("warmup", 0)) for run in planned)


def after_warmup(plot: Lines, finished: FinishedRuns) -> Lines:
    """The plot with a note on the test domain and the evaluations that it shows."""
    config = finished.planned[0].config
    note = (
        f"Test domain {config.test_domains[0]}; every {config.eval_every} steps from the end of "
        "RDM's warm-up on."
    )
    return replace(plot, note=f"{note} {plot.note}")


def stored_run(finished: FinishedRuns, run: PlannedRun) -> StoredRun:
    """Folder and record of a run that is done."""
    return StoredRun(finished.runs / run.config.id, finished.records[run.config.id])


def write_tables(title: str, tables: Sequence[Table], finished: FinishedRuns) -> Output:
    """Write one table for all data sets, or one for each, as Markdown, LaTeX and CSV."""
    scope = finished.scope
    tables = [replace(one, caption=_joined(scope.stand_in_note, one.caption)) for one in tables]
    notes = [note for note in (TABLE_NOTES[scope.budget], scope.unavailable_note) if note]
    shown = [*(one.markdown() for one in tables), *notes]
    texts = {
        "md": "\n\n".join([f"# {title}", *shown, f"Written by `{finished.command}`."]) + "\n",
        "tex": "\n\n".join(one.latex() for one in tables) + "\n",
        "csv": (tables[0] if len(tables) == 1 else _stacked(scope.data, tables)).csv(),
    }
    for suffix, text in texts.items():
        write_whole(finished.file(suffix), text.encode())
    files = [finished.file(suffix) for suffix in texts]
    return Output(files, "\n\n".join(shown), list(csv.DictReader(texts["csv"].splitlines())))


def write_figure(finished: FinishedRuns, plot: Plot, text: str) -> Output:
    """Write a figure as PNG and PDF, and as JSON from which it can be drawn again."""
    scope = finished.scope
    plot = replace(
        plot,
        title=_joined(scope.stand_in_note, plot.title),
        note=_joined(plot.note, FIGURE_NOTES[scope.budget], scope.unavailable_note),
    )
    numbers = plot.json()
    write_whole(finished.file("json"), numbers.encode())
    figure = read_plot(numbers).draw()
    for suffix in ("png", "pdf"):
        save(figure, finished.file(suffix))
    files = [finished.file(suffix) for suffix in ("png", "pdf", "json")]
    return Output(files, text, json.loads(numbers))


def _joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


def _stacked(names: Sequence[str], tables: Sequence[Table]) -> Table:
    """One table with the data set as its first column."""
    rows = [(name, *row) for name, one in zip(names, tables, strict=True) for row in one.rows]
    return Table("", ("data", *tables[0].columns), tuple(rows))
