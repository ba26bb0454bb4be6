from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riskmatch.defaults import run_config
from riskmatch.engine.cost import Cost, SweepCost, run_cost, total_cost

SMALL = {"steps": 40, "eval_every": 10, "data_options": {"samples": 60}}


def config(method="rdm", **given):
    own = {"warmup": 10} if method == "rdm" else {}
    return run_config(method, "colored-digits", ["0.1"], given={**SMALL, **own, **given})


def made(**values):
    defaults = {"warmup_step": 1.0, "step": 3.0, "evaluation": 5.0, "memory": 1000}
    return Cost(config(), **{**defaults, "whole_batch": 100, **values})


def test_seconds_add_up_steps_of_both_phases_and_evaluations():
    assert made().seconds == 10 * 1.0 + 30 * 3.0 + 4 * 5.0
    never = replace(made(), config=config(weight=0.0))
    assert never.seconds == 40 * 1.0 + 4 * 5.0
    late = replace(made(), config=config(pretrain=20))
    assert late.seconds == 20 * 3.0 + 2 * 5.0


def test_largest_piece_is_where_the_line_through_the_probes_meets_the_limit():
    found = made(pieces={10: (200, 3.5)}, memory=1100)  # 100 bytes and 10 per sample
    assert [found.largest_piece(limit) for limit in (2000, 1100, 600, 201, 100)] == [
        *(100, 100, 50, 10),
        None,
    ]
    assert "--accumulate 50" in found.text(600)
    assert "whole batch" in found.text(2000)
    assert found.to_json(600)["largest_piece"] == 50


def test_probe_measures_both_phases_and_pieces_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = run_cost(config())
    assert found.whole_batch == 2 * 48  # 80 % of 60 in each of two training domains
    assert sorted(found.pieces) == [12, 48]
    assert min(found.step, found.warmup_step, found.evaluation, found.memory) > 0
    assert list(tmp_path.iterdir()) == []


def test_method_that_cannot_be_divided_says_why():
    found = run_cost(config("coral"))
    assert found.pieces == {}
    assert "CORAL needs features" in found.text()
    assert "smaller batch" in found.text(1.0)


def test_sweep_counts_shared_phases_once_and_scales_with_the_batch():
    runs = [config(pretrain=20, weight=weight) for weight in (1.0, 2.0, 3.0)]
    found = total_cost([*runs, config("erm")])
    assert found.runs == {"rdm": 3, "erm": 1, "ERM phases": 1}
    assert found.seconds.keys() == found.runs.keys()
    assert found.total == pytest.approx(sum(found.seconds.values()))
    assert "GPU hours" in replace(found, cores=0).text()


def test_throughput_scales_all_times_by_one_factor():
    runs = [config(weight=1.0), config("vrex"), config("erm")]
    here, faster = total_cost(runs), total_cost(runs, throughput="1000x")
    assert len(here.durations) == len(faster.durations) == 3
    assert sum(here.durations) == pytest.approx(here.total)
    assert here.throughput == ""
    assert faster.total < here.total / 100  # measured twice
    assert "worker hours" in faster.text()
    assert "at 1000x, as you state" in faster.text()


def test_samples_per_second_are_those_of_the_fastest_steps():
    (run,) = runs = [config("erm", eval_every=40)]
    found = total_cost(runs, throughput=9600)  # 96 samples in a step
    seconds = 40 * 96 / 9600
    assert found.total > seconds  # and an evaluation
    assert total_cost([replace(run, batch_size=24)], throughput=9600).total < found.total
    for wrong in ("fast", "-3", "0x", "inf"):
        with pytest.raises(ValueError, match="throughput must be samples per second, as in 250"):
            total_cost(runs, throughput=wrong)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=30), st.integers(1, 40))
def test_wall_clock_is_within_grahams_bound(durations, workers):
    total = sum(durations)
    cost = SweepCost({"erm": total}, {"erm": len(durations)}, 0, 1, durations)
    least = max(total / workers, *durations, 0.0)
    assert least - 1e-9 <= cost.wall_clock(workers) <= total / workers + max(durations) + 1e-9
    assert cost.wall_clock(1) == pytest.approx(total)


def test_workers_take_embeddings_first_and_must_exist():
    cost = SweepCost({"erm": 6.0, "embeddings": 5.0}, {"erm": 3, "embeddings": 1}, 0, 1, [3, 2, 1])
    assert cost.wall_clock(2) == 5.0 + 3.0
    assert "0.0 days on 2 workers, 69% of their time in use" in cost.text(2)
    with pytest.raises(ValueError, match="workers must be at least 1, got 0"):
        cost.wall_clock(0)
