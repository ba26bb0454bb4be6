"""Table 1 from records: beside the paper's numbers, and at every p."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from riskmatch.experiments.choosing import SELECTIONS, Chosen, Selection, choose, missing
from riskmatch.experiments.experiment import Finished, Result
from riskmatch.experiments.rows import INITS, METHODS, Init
from riskmatch.experiments.table1 import TARGET_P, TEST_P, Planned
from riskmatch.files import write_whole
from riskmatch.report.figures import Curve, curves
from riskmatch.report.published.colored_mnist import CITATION, OPTIMUM, TABLE1
from riskmatch.report.style import (
    BLACK,
    BLUE,
    DASHED,
    DOTTED,
    GREEN,
    GREY,
    ORANGE,
    VERMILION,
    Look,
)
from riskmatch.report.tables import Cell, Table
from riskmatch.runs.records import RunRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOOKS = {
    "erm": Look(GREY, width=2.0),
    "groupdro": Look(ORANGE),
    "iga": Look(ORANGE, DASHED),
    "irm": Look(BLUE),
    "vrex": Look(BLUE, DASHED),
    "eqrm": Look(BLUE, DOTTED),
    "coral": Look(GREEN),
    "mmd": Look(GREEN, DASHED),
    "rdm": Look(VERMILION, width=2.4),
    "rdm-mmd": Look(VERMILION, DASHED, width=2.4),
    "oracle": Look(BLACK, DASHED),
}
"""One colour per kind of method: robust, causal, of features, of risks."""

_P = tuple(f"p = {p:g}" for p in TEST_P)
_SMOKE = (
    "The budget smoke shows that everything works, with a small network, few digits and few "
    "steps: its numbers are not to be compared with the paper's."
)


def choices(
    planned: Sequence[Planned], runs: Mapping[str, RunRecord]
) -> dict[Selection, list[Chosen]]:
    """The rows of the table under each selection."""
    return {selection: choose(planned, runs, selection) for selection in SELECTIONS}


def beside_the_paper(chosen: Mapping[Selection, Sequence[Chosen]]) -> Table:
    """The table of the paper with ours beside it."""
    rows: list[tuple[Cell, ...]] = []
    for val, last in zip(chosen["test-val"], chosen["last"], strict=True):
        cells = [cell for row in (val, last) for cell in (row.at(TARGET_P), row.worst)]
        names = (METHODS[val.method].label, start(val.init), _paper(val))
        chose = (cell for row in (val, last) for cell in (_setting(row), len(row.curves)))
        rows.append((*names, *cells, *chose))
    rows.append(("Optimum", "either", OPTIMUM, *[None] * 8))
    return Table(
        "ColoredMNIST, accuracy in per cent on MNIST's test digits: mean ± standard deviation "
        "over the seeds. At 0.9: the test domain; worst p: the smallest "
        "accuracy of a model at p = 0, 0.1 … 1, with p how often the colour disagrees with the "
        "label. The hyper-parameter and, under test-domain validation, the step are those of the "
        "best accuracy on the test domain's validation digits; last step: the hyper-parameter "
        "of the best validation accuracy at the end of training.",
        (
            "method",
            "initialisation",
            "paper",
            "test-domain validation, at 0.9",
            "worst p",
            "last step, at 0.9",
            "worst p",
            "chosen by validation",
            "seeds",
            "chosen at the last step",
            "seeds",
        ),
        tuple(rows),
    )


def at_every_p(rows: Sequence[Chosen]) -> Table:
    """The accuracy of every row at every p, under one selection."""
    return Table(
        f"Accuracy at every p, and the worst: {SELECTIONS[rows[0].selection]}.",
        ("method", "initialisation", *_P, "worst p"),
        tuple(
            (
                METHODS[row.method].label,
                start(row.init),
                *map(row.at, TEST_P),
                row.worst,
            )
            for row in rows
        ),
    )


def everything(chosen: Mapping[Selection, Sequence[Chosen]]) -> Table:
    """One row for every method, initialisation and selection, for programs."""
    columns = ("method", "initialisation", "selection", "searched", "value", "paper", "paper sd")
    rows: list[tuple[Cell, ...]] = []
    for selection, found in chosen.items():
        for row in found:
            paper = TABLE1.get((row.method, row.init), (None, None))
            names = (row.method, row.init, selection, METHODS[row.method].searched, row.value)
            rows.append((*names, *paper, *map(row.at, TEST_P), row.worst))
    return Table("Table 1", (*columns, *_P, "worst p"), tuple(rows))


def start(init: Init) -> str:
    """The initialisation of a row, in a word."""
    return "ERM" if init == "erm" else init


def _setting(row: Chosen) -> str | None:
    return None if row.value is None else METHODS[row.method].setting(row.value)


def _paper(row: Chosen) -> str | None:
    found = TABLE1.get((row.method, row.init))
    return found and f"{found.mean:.1f} ± {found.sd:.1f}"


def figure(chosen: Mapping[Selection, Sequence[Chosen]]) -> Figure:
    """The accuracy of every row at every p: a panel for each selection and initialisation."""
    panels = {
        f"{SELECTIONS[selection]}, from {'ERM' if init == 'erm' else 'random weights'}": [
            _curve(row)
            for row in rows
            if row.curves and (row.init == init or METHODS[row.method].inits == ("random",))
        ]
        for selection, rows in chosen.items()
        for init in INITS
        if any(row.init == init for row in rows)
    }
    return curves(
        panels,
        columns=max(1, len(panels) // len(SELECTIONS)),
        title="ColoredMNIST: accuracy as the colour turns against the label",
        xlabel="p: how often the colour disagrees",
        ylabel="accuracy, %",
        mark=TARGET_P,
    )


def _curve(row: Chosen) -> Curve:
    spreads = [row.at(p) for p in TEST_P]
    look = LOOKS[row.method]
    sd = [spread.sd or 0.0 for spread in spreads] if look.width > 2 else None
    label = METHODS[row.method].label
    return Curve(label, TEST_P, [spread.mean or 0.0 for spread in spreads], look, sd)


def write(finished: Finished[Planned]) -> Result:
    """The tables in three formats, and the figure."""
    planned, runs = finished.planned, finished.records
    chosen = choices(planned, runs)
    tables = [beside_the_paper(chosen), *map(at_every_p, chosen.values())]
    notes = [f"Written by `{finished.command}`.", f"The paper's numbers: {CITATION}."]
    notes += [_SMOKE] * (finished.request.budget == "smoke") + _absent(planned, runs)
    texts = {
        "md": "\n\n".join(["# Table 1", *(table.markdown() for table in tables), *notes]) + "\n",
        "tex": "\n\n".join(table.latex() for table in tables) + "\n",
        "csv": everything(chosen).csv(),
    }
    for suffix, text in texts.items():
        write_whole(finished.file(suffix), text.encode())
    figure(chosen).savefig(finished.file("png"))
    files = [finished.file(suffix) for suffix in (*texts, "png")]
    return Result(files, tables[0].markdown(), list(csv.DictReader(texts["csv"].splitlines())))


def _absent(planned: Sequence[Planned], runs: Mapping[str, RunRecord]) -> list[str]:
    left = missing(planned, runs)
    if not left:
        return [f"All {len(planned)} runs of the plan are in."]
    lines = [f"- {run.title} (`{run.config.id}`)" for run in left]
    head = f"{len(left)} of the {len(planned)} runs of the plan are missing:"
    return ["\n".join([head, "", *lines])]
