import csv
import io

import pytest

from riskmatch.experiments.colored_mnist import METHODS, TEST_P, domain_name, grid_runs
from riskmatch.experiments.table1 import (
    RULES,
    accuracy_by_p,
    comparison_table,
    machine_table,
    narrowed,
    select,
)
from riskmatch.runs.lines import Evaluation, Score
from riskmatch.runs.records import RunRecord

BEST, LAST = RULES
RUNS = grid_runs("paper", ["rdm"], [0, 1], ["erm"])
BY_VALUE = {(run.value, run.config.seed): run for run in RUNS}


def score(accuracy):
    return Score({"accuracy": accuracy}, 0.0, ())


def evaluation(run, step, val, test):
    """Accuracies at p = 0.9 on validation and test digits; on test digits elsewhere 0.5 + p/10."""
    scores = {
        domain_name(p, METHODS[run.method].p): {
            "val": score(val if p == 0.9 else 1.0),
            "train": score(test if p == 0.9 else 0.5 + p / 10),
        }
        for p in TEST_P
    }
    return Evaluation(step, scores, 0.0, {}, {}, "0.1", 0.0, 0.0, 0)


def record(run, *steps):
    steps = tuple(evaluation(run, 50 * (k + 1), *step) for k, step in enumerate(steps))
    return RunRecord(run.config, steps, "done")


def records(**steps):
    """Records by run id of runs named like ``v500_0``: value and seed."""
    result = {}
    for name, evaluations in steps.items():
        value, seed = name[1:].split("_")
        run = BY_VALUE[float(value), int(seed)]
        result[run.config.id] = record(run, *evaluations)
    return result


GIVEN = records(
    v500_0=[(0.6, 0.61), (0.7, 0.40), (0.5, 0.51)],
    v500_1=[(0.6, 0.63), (0.4, 0.41)],
    v1000_0=[(0.2, 0.2), (0.62, 0.70)],
    v1000_1=[(0.2, 0.2), (0.62, 0.72)],
)


def test_best_step_then_best_mean_over_seeds():
    (row,) = select(RUNS, GIVEN)[BEST]
    assert row.value == 500  # 0.7 and 0.6 against 0.62 twice
    assert row.at(0.9).values == pytest.approx((40, 63))  # on test digits
    assert row.worst.values == pytest.approx((40, 50))  # the second seed's at p = 0
    assert row.at(0.3).values == pytest.approx((53, 53))


def test_last_step():
    (row,) = select(RUNS, GIVEN)[LAST]
    assert row.value == 1000  # 0.62 twice against 0.5 and 0.4
    assert row.at(0.9).mean == pytest.approx(71)
    assert row.at(0.9).sd == pytest.approx(2**0.5)


def test_values_are_compared_on_the_seeds_they_share():
    searched = records(v500_0=[(0.7, 0.7)], v1000_0=[(0.6, 0.6)], v500_1=[(0.1, 0.1)])
    (row,) = select(RUNS, searched)[LAST]
    assert row.value == 500  # better on seed 0; seed 1 has no other value
    assert row.at(0.9).values == pytest.approx((70, 10))


def test_other_seeds_run_the_values_selected_on_the_search_seeds():
    searched = records(v500_0=[(0.9, 0.5), (0.2, 0.5)], v1000_0=[(0.3, 0.5), (0.3, 0.5)])
    left = narrowed(RUNS, searched, search_seeds=[0])
    assert [run.value for run in left if run.config.seed == 0] == list(METHODS["rdm"].grid)
    assert [run.value for run in left if run.config.seed == 1] == [500, 1000]
    assert [run.config.seed for run in narrowed(RUNS, {}, search_seeds=[1])] == [1] * 5


def test_row_without_finished_runs():
    (row,) = select(RUNS, {})[LAST]
    assert (row.value, row.curves, str(row.worst)) == (None, (), "—")


def test_tables():
    rows = select(RUNS, GIVEN)
    row, optimum = comparison_table(rows).rows
    assert [str(cell) for cell in row] == [
        "RDM, two moments",
        "ERM",
        "72.4 ± 1.0",
        "51.5 ± 16.3",
        "45.0 ± 7.1",
        "71.0 ± 1.4",
        "50.0",
        "λ = 500",
        "2",
        "λ = 1000",
        "2",
    ]
    assert optimum[:3] == ("Optimum", "either", 75.0)
    assert str(accuracy_by_p(rows[LAST]).rows[0][2]) == "50.0"
    lines = list(csv.DictReader(io.StringIO(machine_table(rows).csv())))
    assert [(line["selection"], line["value"]) for line in lines] == [
        (BEST, "500.0"),
        (LAST, "1000.0"),
    ]
    assert lines[1]["p = 0.9 mean"] == "71.0"
    assert lines[1]["worst p n"] == "2"
    assert lines[1]["paper"] == "72.4"


def test_test_domains_of_the_oracle():
    runs = grid_runs("laptop", ["oracle"], [0])
    (row,) = select(runs, {runs[0].config.id: record(runs[0], (0.7, 0.72))})[LAST]
    assert row.at(0.5).values == pytest.approx((55,))
