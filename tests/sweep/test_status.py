import pytest

from riskmatch.runs import records
from riskmatch.runs.lock import lock
from riskmatch.runs.records import Evaluation
from riskmatch.sweep.plan import Protocol
from riskmatch.sweep.status import PHASE, status_of

RUNS = Protocol(
    "colored-digits",
    ("erm", "rdm"),
    (("0.1",),),
    draws=2,
    trials=2,
    choices={"steps": 100, "pretrain": 10, "weight_decay": 0.0, "warmup": 20},
).runs()


def test_every_run_is_counted_in_the_state_it_is_in(tmp_path):
    erm = [run.config for run in RUNS if run.config.method == "erm"]
    (tmp_path / erm[0].id).mkdir()
    for config in erm:
        records.start(tmp_path / config.id, config)
    records.append(tmp_path / erm[0].id, Evaluation(60, {}, 0.0, {}, {}, "a", 100.0, 2.0, 0))
    records.end(tmp_path / erm[1].id, "failed", "no luck")
    with lock(tmp_path / erm[0].id):
        found = status_of(RUNS, tmp_path)
    assert found.counts["erm"] == {"running": 1, "failed": 1}
    assert found.counts["rdm moments"] == {"waiting": 2}
    assert found.counts[PHASE] == {"waiting": 2}
    assert found.failed == {erm[1].id: "no luck"}
    assert found.total["waiting"] == 4
    pace = 100.0 / (60 - 10)
    assert found.seconds_left == pytest.approx(pace * (40 + 2 * 90 + 2 * 10))


def test_a_sweep_that_was_never_begun_waits_and_nobody_knows_how_long(tmp_path):
    found = status_of(RUNS, tmp_path)
    assert found.total == {"waiting": 6}
    assert found.seconds_left is None
