"""``riskmatch sweep table`` on runs that nobody planned."""

from pathlib import Path

from made_records import evaluation, run

from riskmatch.runs import records
from riskmatch.sweep import plan
from riskmatch.sweep.plan import PlannedRun


def made(test, accuracy, **others):
    scores = {d: (accuracy if d == test else 90, 50) for d in "abc"}
    return run(test, evaluation(20, **scores), **others)


def write(folder, *runs):
    for one in runs:
        records.write(Path(folder) / one.config.id, one)


def test_runs_without_a_plan_have_the_tables_of_a_plan_that_names_them(riskmatch):
    runs = [
        made(d, 60 + 5 * draw, draw=draw, trial=t) for d in "abc" for t in (0, 1) for draw in (0, 1)
    ]
    plan.extend(Path("s"), [PlannedRun(one.config, "") for one in runs], "a test")
    write("s/runs", *runs)
    options = [(), ("--costs",), ("--format", "csv"), ("--select", "test-val", "--json")]
    planned = [riskmatch("sweep", "table", "s", *words).out for words in options]
    for words, table in zip(options, planned, strict=True):
        assert riskmatch("sweep", "table", "s/runs", *words).out == table
    assert "2 draws in each of 2 trials" in planned[0]


def test_seeds_are_trials_and_a_damaged_run_is_named(riskmatch):
    write("runs", *(made("a", 60 + 2 * seed, seed=seed) for seed in range(4)))
    last = Path("runs") / made("a", 66, seed=3).config.id / records.FILE
    last.write_text("{\n")
    found = riskmatch("sweep", "table", "runs")
    assert found.code == 0
    assert "1 draw in each of 3 trials" in found.out
    assert "62.0 ± 0.9" in found.out
    assert f"{last}, line 1, is not JSON" in found.err


def test_a_folder_with_neither_plan_nor_runs_is_refused_in_one_line(riskmatch):
    found = riskmatch("sweep", "table", "no where")
    assert (found.code, found.out) == (2, "")
    assert found.err == (
        "riskmatch: no where holds neither plan.jsonl nor runs. Name a folder of runs, or plan a "
        "sweep with riskmatch sweep plan 'no where' --data NAME.\n"
    )
