"""``riskmatch sweep table`` on runs without a plan."""

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


def test_table_is_the_same_with_and_without_a_plan(riskmatch):
    runs = [
        made(d, 60 + 5 * draw, draw=draw, trial=t) for d in "abc" for t in (0, 1) for draw in (0, 1)
    ]
    plan.extend(Path("s"), [PlannedRun(one.config, "") for one in runs], "a test")
    write("s/runs", *runs)
    options = [(), ("--costs",), ("--format", "csv"), ("--select", "test-val", "--json")]
    planned = [riskmatch("sweep", "table", "s", *words).out for words in options]
    for words, table in zip(options, planned, strict=True):
        assert riskmatch("sweep", "table", "s/runs", *words).out == table
    assert "Draws: 2. Trials: 2" in planned[0]


def test_seeds_count_as_trials_and_damaged_runs_are_named(riskmatch):
    write("runs", *(made("a", 60 + 2 * seed, seed=seed) for seed in range(4)))
    last = Path("runs") / made("a", 66, seed=3).config.id / records.FILE
    last.write_text("{\n")
    result = riskmatch("sweep", "table", "runs")
    assert result.code == 0
    assert "Draws: 1. Trials: 3" in result.out
    assert "62.0 ± 0.9" in result.out
    assert f"{last}, line 1, is not JSON" in result.err


def test_folder_without_plan_or_runs_is_an_error(riskmatch):
    result = riskmatch("sweep", "table", "no where")
    assert (result.code, result.out) == (2, "")
    assert "no where does not exist" in result.err
    Path("empty").mkdir()
    result = riskmatch("sweep", "table", "empty")
    assert (result.code, result.out) == (2, "")
    assert "empty holds no run" in result.err
    assert result.err.count("\n") == 1


def test_table_by_a_rule_of_the_users_own(riskmatch, monkeypatch):
    monkeypatch.syspath_prepend(Path.cwd())
    Path("my_table_rules.py").write_text(
        "from riskmatch.selection import Rule\n"
        'TEST = Rule("on-test", "the test accuracy", domains="test", split="train")\n'
    )
    write("runs", made("a", 60, draw=0), made("a", 70, draw=1))
    result = riskmatch("sweep", "table", "runs", "--select", "my_table_rules:TEST")
    assert "Selection: on-test, highest test accuracy" in result.out
    assert "70.0" in result.out
    unknown = riskmatch("sweep", "table", "runs", "--select", "my_table_rules:BEST")
    assert (unknown.code, unknown.out) == (2, "")
    assert "my_table_rules:BEST" in unknown.err
