"""What can be reproduced, by name."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riskmatch.experiments import fig2, table1, table1_report
from riskmatch.experiments.table1 import Budget, Planned


@dataclass(frozen=True)
class Result:
    """What an experiment has to show."""

    files: list[Path]
    text: str
    """For the terminal."""
    values: Any
    """As plain JSON."""


@dataclass(frozen=True)
class Experiment:
    """A table or a figure of the paper."""

    summary: str
    plan: Callable[..., list[Planned]]
    """From budget, methods, seeds and initialisations to runs, as :func:`table1.plan`."""
    write: Callable[[list[Planned], Path, Budget, str, Path | None], Result]
    """From runs, the folder, the budget, the command and the folder of the data to files."""
    partial: bool
    """Whether it can be shown before every run is done."""


def _write_table1(
    planned: list[Planned], out: Path, budget: Budget, command: str, data_dir: Path | None
) -> Result:
    files, table = table1_report.write(planned, out, budget, command)
    lines = csv.DictReader(io.StringIO((out / "table1.csv").read_text("utf-8")))
    return Result(files, table.markdown(), [dict(line) for line in lines])


def _write_fig2(
    planned: list[Planned], out: Path, budget: Budget, command: str, data_dir: Path | None
) -> Result:
    files, means = fig2.write(planned, out, data_dir)
    lines = [
        f"{model}: " + ", ".join(f"p = {p}: {mean:.3f}" for p, mean in named.items())
        for model, named in means.items()
    ]
    return Result(files, "\n".join(["Mean risks:", *lines]), means)


EXPERIMENTS = {
    "table1": Experiment(
        "ColoredMNIST: every method from both initialisations, beside the paper's numbers",
        table1.plan,
        _write_table1,
        partial=True,
    ),
    "fig2": Experiment(
        "ColoredMNIST: the distributions of the risks of ERM and of RDM on four domains",
        fig2.plan,
        _write_fig2,
        partial=False,
    ),
}
