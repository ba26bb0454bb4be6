import csv
import io

import pytest

from riskmatch.experiments.choosing import choose, missing, narrow
from riskmatch.experiments.rows import METHODS
from riskmatch.experiments.table1 import TEST_P, domain, plan
from riskmatch.experiments.table1_report import at_every_p, beside_the_paper, choices, everything
from riskmatch.runs.records import Evaluation, RunRecord, Score


def score(accuracy):
    return Score(accuracy, 0.0, ())


def evaluation(run, step, val, test):
    """``val`` at 0.9 on validation digits; on test digits ``test`` there, elsewhere 0.5 + p/10."""
    scores = {
        domain(p, METHODS[run.method].p): {
            "val": score(val if p == 0.9 else 1.0),
            "train": score(test if p == 0.9 else 0.5 + p / 10),
        }
        for p in TEST_P
    }
    return Evaluation(step, scores, 0.0, {}, {}, "0.1", 0.0, 0.0, 0)


def record(run, *steps):
    steps = tuple(evaluation(run, 50 * (k + 1), *step) for k, step in enumerate(steps))
    return RunRecord(run.config, steps, "done")


RUNS = plan("paper", ["rdm"], [0, 1], ["erm"])
BY_VALUE = {(run.value, run.config.seed): run for run in RUNS}


def records(**steps):
    """Runs named like ``v500_0``: the value and the seed."""
    found = {}
    for name, evaluations in steps.items():
        value, seed = name[1:].split("_")
        run = BY_VALUE[float(value), int(seed)]
        found[run.config.id] = record(run, *evaluations)
    return found


GIVEN = records(
    v500_0=[(0.6, 0.61), (0.7, 0.40), (0.5, 0.51)],
    v500_1=[(0.6, 0.63), (0.4, 0.41)],
    v1000_0=[(0.2, 0.2), (0.62, 0.70)],
    v1000_1=[(0.2, 0.2), (0.62, 0.72)],
)


def test_validation_takes_the_best_step_and_then_the_best_mean():
    (row,) = choose(RUNS, GIVEN, "test-val")
    assert row.value == 500  # 0.7 and 0.6 against 0.62 twice
    assert row.at(0.9).values == pytest.approx((40, 63))  # on the test digits, which chose nothing
    assert row.worst.values == pytest.approx((40, 50))  # of the second, at p = 0
    assert row.at(0.3).values == pytest.approx((53, 53))


def test_the_last_step_chooses_among_last_steps():
    (row,) = choose(RUNS, GIVEN, "last")
    assert row.value == 1000  # 0.62 twice against 0.5 and 0.4
    assert row.at(0.9).mean == pytest.approx(71)
    assert row.at(0.9).sd == pytest.approx(2**0.5)


def test_values_are_compared_on_the_seeds_that_all_of_them_have():
    searched = records(v500_0=[(0.7, 0.7)], v1000_0=[(0.6, 0.6)], v500_1=[(0.1, 0.1)])
    (row,) = choose(RUNS, searched, "last")
    assert row.value == 500  # which is better on seed 0, and on seed 1 the only one
    assert row.at(0.9).values == pytest.approx((70, 10))


def test_other_seeds_run_only_what_a_selection_chose_on_the_searched_ones():
    searched = records(v500_0=[(0.9, 0.5), (0.2, 0.5)], v1000_0=[(0.3, 0.5), (0.3, 0.5)])
    left = narrow(RUNS, searched, search=[0])
    assert [run.value for run in left if run.config.seed == 0] == list(METHODS["rdm"].grid)
    assert [run.value for run in left if run.config.seed == 1] == [500, 1000]
    assert [run.config.seed for run in narrow(RUNS, {}, search=[1])] == [1] * 5


def test_the_first_of_equals_wins():
    tied = records(v1000_0=[(0.5, 0.1), (0.5, 0.2)], v500_0=[(0.5, 0.3), (0.5, 0.4)])
    (row,) = choose(RUNS, tied, "test-val")
    assert row.value == 500
    assert row.at(0.9).values == pytest.approx((30,))


def test_a_row_without_runs_is_there_and_what_is_missing_is_named():
    (row,) = choose(RUNS, {}, "last")
    assert (row.value, row.curves, str(row.worst)) == (None, (), "—")
    left = missing(RUNS, GIVEN)
    assert len(left) == 6
    assert left[0].title == "RDM, two moments from ERM, λ = 2500, seed 0"


def test_the_tables_say_so():
    chosen = choices(RUNS, GIVEN)
    row, optimum = beside_the_paper(chosen).rows
    assert [str(cell) for cell in row] == [
        "RDM, two moments",
        "ERM",
        "72.4 ± 1.0",
        "51.5 ± 16.3",
        "45.0 ± 7.1",
        "71.0 ± 1.4",
        "50.0 ± 0.0",
        "λ = 500",
        "2",
        "λ = 1000",
        "2",
    ]
    assert optimum[:3] == ("Optimum", "either", 75.0)
    assert str(at_every_p(chosen["last"]).rows[0][2]) == "50.0 ± 0.0"
    lines = list(csv.DictReader(io.StringIO(everything(chosen).csv())))
    assert [(line["selection"], line["value"]) for line in lines] == [
        ("test-val", "500.0"),
        ("last", "1000.0"),
    ]
    assert lines[1]["p = 0.9 mean"] == "71.0"
    assert lines[1]["worst p n"] == "2"
    assert lines[1]["paper"] == "72.4"


def test_the_oracles_test_domains_have_names_of_their_own():
    runs = plan("laptop", ["oracle"], [0])
    (row,) = choose(runs, {runs[0].config.id: record(runs[0], (0.7, 0.72))}, "last")
    assert row.at(0.5).values == pytest.approx((55,))
