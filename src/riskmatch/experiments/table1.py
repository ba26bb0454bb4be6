"""Table 1: accuracy of every method on ColoredMNIST, from random and from ERM initialisation.

Both selection rules use the validation digits of the test domain (p = 0.9), as the paper does. The
reported accuracies are on the 10,000 digits of MNIST's test set, which no selection uses.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from riskmatch.experiments.colored_mnist import (
    METHODS,
    TARGET_P,
    TEST_P,
    GridRun,
    domain_name,
    grid_runs,
)
from riskmatch.experiments.experiment import (
    INITS,
    Experiment,
    FinishedRuns,
    Init,
    Output,
    Scope,
)
from riskmatch.report.figures import Curve, Lines, save
from riskmatch.report.published import TABLE1 as PUBLISHED
from riskmatch.report.published import TABLE1_CITATION, TABLE1_OPTIMUM
from riskmatch.report.style import (
    BLACK,
    BLUE,
    DASHED,
    DOTTED,
    GREEN,
    GREY,
    ORANGE,
    VERMILION,
    LineStyle,
)
from riskmatch.report.tables import Cell, Spread, Table
from riskmatch.runs.frame import frame_of
from riskmatch.runs.records import RunRecord
from riskmatch.selection import cases, choose_among, find_rule
from riskmatch.validation import check_option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Table1Rule = Literal["colored-mnist-best", "colored-mnist-last"]
RULES: dict[Table1Rule, str] = {
    "colored-mnist-best": "test-domain validation",
    "colored-mnist-last": "last step",
}
"""Selection rules with their titles."""
STYLES = {
    "erm": LineStyle(GREY, width=2.0),
    "erm-switch": LineStyle(GREY, DASHED),
    "groupdro": LineStyle(ORANGE),
    "iga": LineStyle(ORANGE, DASHED),
    "irm": LineStyle(BLUE),
    "vrex": LineStyle(BLUE, DASHED),
    "eqrm": LineStyle(BLUE, DOTTED),
    "coral": LineStyle(GREEN),
    "mmd": LineStyle(GREEN, DASHED),
    "rdm": LineStyle(VERMILION, width=2.4),
    "rdm-mmd": LineStyle(VERMILION, DASHED, width=2.4),
    "oracle": LineStyle(BLACK, DASHED),
}
"""Line styles; methods of one family share a colour."""
_P = tuple(f"p = {p:g}" for p in TEST_P)
_SMOKE_NOTE = (
    "The budget smoke checks that everything works, with a small network, few digits and few "
    "steps. Do not compare its numbers with the paper's."
)


@dataclass(frozen=True)
class Table1Row:
    """A method with an initialisation, under one selection rule."""

    method: str
    """Key of ``METHODS``."""
    init: Init
    rule: Table1Rule
    value: float | None
    """Selected value of the searched hyper-parameter; None if no run is done."""
    curves: tuple[tuple[float, ...], ...] = ()
    """Test accuracy in per cent at every p of ``TEST_P``, one curve per seed."""

    def at(self, p: float) -> Spread:
        """Accuracy at ``p`` over seeds."""
        return Spread(tuple(curve[TEST_P.index(p)] for curve in self.curves))

    @property
    def worst(self) -> Spread:
        """Lowest accuracy of each seed over all p."""
        return Spread(tuple(min(curve) for curve in self.curves))


def select(
    runs: Sequence[GridRun], records: Mapping[str, RunRecord]
) -> dict[Table1Rule, list[Table1Row]]:
    """Rows of the table under each selection rule.

    Args:
        runs: runs of the table.
        records: records of those that are done, by run id.
    """
    by_id = {run.config.id: run for run in runs}
    searches = {id: f"{run.method} from {run.init}" for id, run in by_id.items()}
    rows = {
        rule: {searches[id]: Table1Row(r.method, r.init, rule, None) for id, r in by_id.items()}
        for rule in RULES
    }
    frame = frame_of(records[id] for id in by_id if id in records)
    if not frame.empty:
        table = cases(frame, plan=[run.config for run in runs])
        table = table[table["test_domain"] == f"{TARGET_P:g}"]
        table = table.assign(variant=table["run"].map(searches))
        evaluations = frame.set_index(["run", "step"])
        for rule in RULES:
            for name, choices in choose_among(table, frame, find_rule(rule), "accuracy").groupby(
                "variant"
            ):
                run = by_id[choices["run"].iloc[0]]  # one value for all seeds
                domains = [domain_name(p, METHODS[run.method].p) for p in TEST_P]
                chosen = evaluations.loc[list(zip(choices["run"], choices["step"], strict=True))]
                accuracies = chosen[[f"accuracy/train/{domain}" for domain in domains]].to_numpy()
                curves = tuple(tuple(100 * curve) for curve in accuracies)
                rows[rule][str(name)] = Table1Row(run.method, run.init, rule, run.value, curves)
    return {rule: list(by_search.values()) for rule, by_search in rows.items()}


def narrowed(
    runs: Sequence[GridRun], records: Mapping[str, RunRecord], search_seeds: Collection[int]
) -> list[GridRun]:
    """Runs with the whole grid on ``search_seeds`` and the values selected there on other seeds."""
    searched = [run for run in runs if run.config.seed in search_seeds]
    selected = {
        (row.method, row.init, row.value)
        for rows in select(searched, records).values()
        for row in rows
    }
    return [
        run
        for run in runs
        if run.config.seed in search_seeds or (run.method, run.init, run.value) in selected
    ]


def _grid(scope: Scope) -> list[GridRun]:
    for method in scope.methods or ():
        check_option("method of Table 1", method, METHODS)
    return grid_runs(scope.budget, scope.methods, scope.seeds, scope.inits, *scope.data)


def _plan(scope: Scope) -> list[GridRun]:
    seeds = scope.search_seeds
    return [run for run in _grid(scope) if seeds is None or run.config.seed in seeds]


def _refine(scope: Scope, records: Mapping[str, RunRecord]) -> list[GridRun]:
    seeds = scope.search_seeds
    return _grid(scope) if seeds is None else narrowed(_grid(scope), records, seeds)


def _write(finished: FinishedRuns) -> Output:
    runs = [run for run in finished.planned if isinstance(run, GridRun)]
    rows = select(runs, finished.records)
    tables = [comparison_table(rows), *map(accuracy_by_p, rows.values())]
    notes = [f"Written by `{finished.command}`.", f"The paper's numbers: {TABLE1_CITATION}."]
    if finished.scope.uses_stand_in:
        notes.append(finished.scope.stand_in_note)
    if finished.scope.budget == "smoke":
        notes.append(_SMOKE_NOTE)
    missing = [run for run in runs if run.config.id not in finished.records]
    if missing:
        lines = [f"- {run.title} (`{run.config.id}`)" for run in missing]
        count = f"{len(missing)} of {len(runs)} planned runs are missing:"
        notes.append("\n".join([count, "", *lines]))
    else:
        notes.append(f"All {len(runs)} planned runs are done.")
    save(figure(rows), finished.file("png"))
    shown = [table.markdown() for table in tables]
    output = finished.write_tables(
        ["# Table 1", *shown, *notes], tables, machine_table(rows), shown[0]
    )
    return replace(output, files=[*output.files, finished.file("png")])


def comparison_table(rows: Mapping[Table1Rule, Sequence[Table1Row]]) -> Table:
    """Our accuracies beside the paper's."""
    lines: list[tuple[Cell, ...]] = []
    for pair in zip(*rows.values(), strict=True):
        method, init = METHODS[pair[0].method], pair[0].init
        cells: list[Cell] = [cell for row in pair for cell in (row.at(TARGET_P), row.worst)]
        for row in pair:
            setting = None if row.value is None else method.setting(row.value)
            cells += [setting, len(row.curves)]
        lines.append((method.label, _init(init), PUBLISHED.get((row.method, init)), *cells))
    lines.append(("Optimum", "either", TABLE1_OPTIMUM, *[None] * 8))
    return Table(
        "ColoredMNIST, accuracy in per cent on MNIST's test digits: mean ± standard deviation over "
        "seeds. p is the probability that colour and label disagree; at 0.9: test domain; worst p: "
        "lowest accuracy of a model over p = 0, 0.1, …, 1. Test-domain validation selects "
        "hyper-parameter and step by the accuracy on the test domain's validation digits; last "
        "step selects the hyper-parameter by that accuracy at the end of training.",
        (
            "method",
            "initialisation",
            "paper",
            "test-domain validation, at 0.9",
            "worst p",
            "last step, at 0.9",
            "worst p",
            "selected by validation",
            "seeds",
            "selected at the last step",
            "seeds",
        ),
        tuple(lines),
    )


def accuracy_by_p(rows: Sequence[Table1Row]) -> Table:
    """Accuracy of every row at every p, under one selection rule."""
    return Table(
        f"Accuracy at every p, and the lowest: {RULES[rows[0].rule]}.",
        ("method", "initialisation", *_P, "worst p"),
        tuple(
            (METHODS[row.method].label, _init(row.init), *map(row.at, TEST_P), row.worst)
            for row in rows
        ),
    )


def machine_table(rows: Mapping[Table1Rule, Sequence[Table1Row]]) -> Table:
    """All numbers, one line per method, initialisation and selection rule."""
    columns = ("method", "initialisation", "selection", "searched", "value", "paper", "paper sd")
    lines: list[tuple[Cell, ...]] = []
    for rule, rule_rows in rows.items():
        for row in rule_rows:
            published = PUBLISHED.get((row.method, row.init), (None, None))
            names = (row.method, row.init, rule, METHODS[row.method].searched, row.value)
            lines.append((*names, *published, *map(row.at, TEST_P), row.worst))
    return Table("Table 1", (*columns, *_P, "worst p"), tuple(lines))


def _init(init: Init) -> str:
    return "ERM" if init == "erm" else init


def figure(rows: Mapping[Table1Rule, Sequence[Table1Row]]) -> Figure:
    """Accuracy of every row against p, a panel for each selection rule and initialisation."""
    panels = {
        f"{RULES[rule]}, from {'ERM' if init == 'erm' else 'random weights'}": [
            _line(row)
            for row in rule_rows
            if row.curves and (row.init == init or METHODS[row.method].inits == ("random",))
        ]
        for rule, rule_rows in rows.items()
        for init in INITS
        if any(row.init == init for row in rule_rows)
    }
    plot = Lines(
        "ColoredMNIST: accuracy against the probability that colour and label disagree",
        "p: probability that colour and label disagree",
        "",
        panels,
        "accuracy, %",
        marks=dict.fromkeys(panels, TARGET_P),
    )
    return plot.draw("page", columns=max(1, len(panels) // len(RULES)))


def _line(row: Table1Row) -> Curve:
    spreads = [row.at(p) for p in TEST_P]
    style = STYLES[row.method]
    sd = [spread.sd or 0.0 for spread in spreads] if style.width > 2 else None
    means = [spread.mean or 0.0 for spread in spreads]
    return Curve(METHODS[row.method].label, TEST_P, means, style, sd)


TABLE1 = Experiment(
    "Table 1",
    "accuracy of every method from both initialisations, beside the paper's",
    ("colored-mnist",),
    _plan,
    _write,
    options=("methods", "seeds", "search_seeds", "init"),
    refine=_refine,
)
