"""What can be reproduced, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from riskmatch.experiments import fig2, table1, table1_report
from riskmatch.experiments.ablations import ABLATIONS
from riskmatch.experiments.choosing import narrow
from riskmatch.experiments.experiment import Experiment, Request
from riskmatch.experiments.image_tables import IMAGE_TABLES
from riskmatch.experiments.risk_figures import RISK_FIGURES
from riskmatch.experiments.rows import METHODS
from riskmatch.experiments.training_figures import TRAINING_FIGURES
from riskmatch.runs.records import RunRecord
from riskmatch.validation import check_option


def _table1(request: Request) -> list[table1.Planned]:
    for method in request.methods or ():
        check_option("method of the table", method, METHODS)
    return table1.plan(request.budget, request.methods, request.seeds, request.inits)


def _searched(request: Request) -> list[table1.Planned]:
    search = request.search_seeds
    return [run for run in _table1(request) if search is None or run.config.seed in search]


def _narrowed(request: Request, found: Mapping[str, RunRecord]) -> list[table1.Planned]:
    search = request.search_seeds
    return _table1(request) if search is None else narrow(_table1(request), found, search)


EXPERIMENTS: dict[str, Experiment[Any]] = {
    "table1": Experiment(
        "Table 1",
        "every method from both initialisations, beside the paper's numbers",
        ("colored-mnist",),
        _searched,
        table1_report.write,
        options=("methods", "seeds", "search_seeds", "init"),
        refine=_narrowed,
        draws=True,
    ),
    "fig2": Experiment(
        "Figure 2",
        "the distributions of the risks of ERM and of RDM on four domains",
        ("colored-mnist",),
        fig2.plan,
        fig2.write,
        options=("seeds",),
        partial=False,
        draws=True,
    ),
    **IMAGE_TABLES,
    **RISK_FIGURES,
    **TRAINING_FIGURES,
    **ABLATIONS,
}
"""In the order of a list."""

NUMBERS = {experiment.alias: name for name, experiment in EXPERIMENTS.items()}
"""The names by the paper's numbers, as in table7."""
