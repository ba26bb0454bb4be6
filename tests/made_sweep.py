"""A small sweep of two methods on two domains, with invented accuracies."""

import math

import numpy as np
from made_records import evaluation, run
from scipy import stats

from riskmatch.report import comparison
from riskmatch.report.selected import select
from riskmatch.runs.frame import results_of

ERM = {("a", 0): 60.0, ("a", 1): 61.5, ("b", 0): 70.0, ("b", 1): 73.0}
RDM = {("a", 0): 62.0, ("a", 1): 62.5, ("b", 0): 70.5, ("b", 1): 76.0}
DRAWS = (1, 2)


def sweep(method, accuracies, fixed=False, data="toy", **others):
    """Make two draws per case; the first has the better validation and the given accuracy."""
    return [
        run(
            domain,
            evaluation(10, **{d: (a if d == domain else 1, 50 - draw) for d in "ab"}),
            evaluation(20, **dict.fromkeys("ab", (0, 10))),
            data=data, method=method, trial=trial, draw=draw if fixed else (draw, trial), **others,
        )
        for (domain, trial), a in accuracies.items()
        for draw in DRAWS
    ]  # fmt: skip


RUNS = sweep("erm", ERM) + sweep("rdm", RDM)


def cells(table, label):
    """The texts in the row of a table that begins with ``label``."""
    (row,) = (row for row in table.rows if row[0] == label)
    return [str(cell) for cell in row[1:]]


def runs_of(method, domain, trial):
    """The runs of a case."""
    return [
        r
        for r in RUNS
        if (r.config.method, r.config.test_domains, r.config.trial) == (method, (domain,), trial)
    ]


def without(*missing):
    """All runs but the ones that are missing."""
    ids = {r.config.id for r in missing}
    return [r for r in RUNS if r.config.id not in ids]


def left_out(*domains, method="erm", **others):
    """Make a run for each test domain of a data set with the domains a, b and c."""
    return [
        run(domain, evaluation(1, **dict.fromkeys("abc", (60, 50))), method=method, **others)
        for domain in domains
    ]


def per_domain_table(runs, data, rule="train-val", plan=(), unit="domains"):
    return comparison.per_domain_table(select(results_of(runs, plan), rule)[data], unit=unit)


def overview_table(runs, rule="train-val", plan=(), unit="domains"):
    return comparison.overview_table(list(select(results_of(runs, plan), rule).values()), unit=unit)


def half_of_these_domains(differences):
    """Half of the 95 % t-interval of a mean over domains, trials being drawn within each."""
    rows = [np.asarray(row, float) for row in differences]
    df = sum(len(row) - 1 for row in rows)
    pooled = sum(((row - row.mean()) ** 2).sum() for row in rows) / df
    return stats.t.ppf(0.975, df) * math.sqrt(pooled * sum(1 / len(r) for r in rows)) / len(rows)


def efficiency_table(runs, data, rule="train-val", plan=()):
    return comparison.efficiency_table(select(results_of(runs, plan), rule)[data])
