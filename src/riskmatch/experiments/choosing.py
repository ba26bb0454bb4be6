"""From the records of the runs of Table 1 to its cells: which step, which value, which spread.

Both selections look at the validation digits of the test domain, p = 0.9, as the paper does;
accuracy is then reported on the 10,000 digits of MNIST's test set, which no choice has seen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from riskmatch.experiments.rows import METHODS, Init
from riskmatch.experiments.table1 import TARGET_P, TEST_P, Planned, domain
from riskmatch.report.tables import Spread
from riskmatch.runs.records import Evaluation, RunRecord

Selection = Literal["test-val", "last"]
SELECTIONS: Mapping[Selection, str] = {
    "test-val": "test-domain validation",
    "last": "last step",
}


@dataclass(frozen=True)
class Chosen:
    """One row of the table under one selection."""

    method: str
    init: Init
    selection: Selection
    value: float | None
    """Of the searched hyper-parameter; None where no run is there to choose from."""
    curves: tuple[tuple[float, ...], ...] = ()
    """Per seed, the accuracy in per cent at every p of ``TEST_P``."""

    def at(self, p: float) -> Spread:
        """The accuracy at ``p``."""
        return Spread(tuple(curve[TEST_P.index(p)] for curve in self.curves))

    @property
    def worst(self) -> Spread:
        """The accuracy at the p where a seed's model is worst: what invariance means here."""
        return Spread(tuple(min(curve) for curve in self.curves))


def choose(
    planned: Sequence[Planned], runs: Mapping[str, RunRecord], selection: Selection
) -> list[Chosen]:
    """Every row of the plan: the value with the best mean validation accuracy, on all its seeds.

    Values are compared on the seeds that every one of them has, so that a search on the first seed
    stays one. The first of equally good values and steps wins.

    Args:
        planned: the runs of the table.
        runs: those that are done, by id.
        selection: ``test-val`` takes the best step of each run, ``last`` its last.
    """
    found: dict[tuple[str, Init], dict[float, dict[int, Evaluation]]] = {}
    for run in planned:
        values = found.setdefault((run.method, run.init), {})
        if record := runs.get(run.config.id):
            step = chosen_step(record, run.method, selection)
            values.setdefault(run.value, {})[run.config.seed] = step
    rows = []
    for (method, init), values in found.items():
        if not values:
            rows.append(Chosen(method, init, selection, None))
            continue
        best = _best(values, method)
        curves = tuple(curve(step, method) for step in values[best].values())
        rows.append(Chosen(method, init, selection, best, curves))
    return rows


def _best(values: Mapping[float, Mapping[int, Evaluation]], method: str) -> float:
    shared = set.intersection(*(set(seeds) for seeds in values.values()))

    def mean(value: float) -> float:
        seeds = values[value]
        return fmean(validation(seeds[seed], method) for seed in (shared or seeds))

    return max(values, key=mean)


def narrow(
    planned: Sequence[Planned], runs: Mapping[str, RunRecord], search: Collection[int]
) -> list[Planned]:
    """The plan with whole grids on the seeds ``search`` only, and on the others what those chose.

    Args:
        planned: the runs of the table, with every value on every seed.
        runs: those that are done, by id.
        search: the seeds on which values are compared.
    """
    searched = [run for run in planned if run.config.seed in search]
    chosen = {
        (row.method, row.init, row.value)
        for selection in SELECTIONS
        for row in choose(searched, runs, selection)
    }
    return [
        run
        for run in planned
        if run.config.seed in search or (run.method, run.init, run.value) in chosen
    ]


def chosen_step(run: RunRecord, method: str, selection: Selection) -> Evaluation:
    """The evaluation of a run that counts."""
    if selection == "last":
        return run.evaluations[-1]
    return max(run.evaluations, key=lambda step: validation(step, method))


def validation(step: Evaluation, method: str) -> float:
    """The accuracy on the validation digits of the test domain; between 0 and 1."""
    return step.scores[domain(TARGET_P, METHODS[method].p)]["val"].accuracy


def curve(step: Evaluation, method: str) -> tuple[float, ...]:
    """The accuracy on MNIST's test digits at every p, in per cent."""
    training = METHODS[method].p
    return tuple(100 * step.scores[domain(p, training)]["train"].accuracy for p in TEST_P)


def missing(planned: Sequence[Planned], runs: Mapping[str, RunRecord]) -> list[Planned]:
    """The runs of the plan that are not done."""
    return [run for run in planned if run.config.id not in runs]
