"""Evaluations on a part of the samples, early stopping, and the estimate of the time left."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from tiny_runs import assert_same_run, tiny

from riskmatch import train as train_by_name
from riskmatch.cli.train import Train
from riskmatch.data import load
from riskmatch.defaults import resolve
from riskmatch.engine import load_run
from riskmatch.engine.assemble import split_all
from riskmatch.engine.evaluate import parts_of
from riskmatch.engine.loop import EVALUATING
from riskmatch.engine.run import train
from riskmatch.report.details import train_command
from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.frame import results
from riskmatch.sweep import plan_sweep

FLAT = replace(tiny("rdm"), steps=400, eval_every=10, lr=1e-9, hparams={
    "weight": 1.0, "warmup": 30, "lr_after": 1e-9,
})  # fmt: skip
"""A run that learns nothing."""


def test_evaluations_use_a_fixed_part_of_every_split(tmp_path):
    whole = tiny(eval_every=30)
    part = replace(whole, eval_fraction=0.25)
    calls = []
    for config in (whole, part):
        train(config, tmp_path, predictions=True, on_progress=lambda *call: calls.append(call))
    ours, full = (load_run(tmp_path / config.id).predictions for config in (part, whole))
    samples = ours[(ours["step"] == 60) & (ours["domain"] == "0.9") & (ours["split"] == "train")]
    every = full[(full["step"] == 60) & (full["domain"] == "0.9") & (full["split"] == "train")]
    assert len(samples) == -(-len(every) // 4)
    assert calls[-1] == (EVALUATING, len(ours) // 2, len(ours) // 2)
    # The same samples at every step, with the labels that they have among all samples.
    before = ours[(ours["step"] == 30) & (ours["domain"] == "0.9") & (ours["split"] == "train")]
    assert before["index"].tolist() == samples["index"].tolist()
    labels = every.set_index("index")["label"]
    assert samples["label"].tolist() == labels[samples["index"]].tolist()
    # Training is the same, so that risks of the same samples are.
    risks = every.set_index("index")["risk"]
    assert samples["risk"].to_numpy() == pytest.approx(risks[samples["index"]].to_numpy(), rel=1e-4)


def test_part_follows_from_the_seed_and_has_at_least_one_sample():
    domains = load("colored-digits", {"samples": 60})
    splits = split_all(domains, RunConfig("colored-digits", (), "erm"))
    one, same, other = (
        [part.rows.tolist() for part in parts_of(splits, 0.5, seed)] for seed in (0, 0, 1)
    )
    assert one == same
    assert all(ours != theirs for ours, theirs in zip(one, other, strict=True))
    assert {len(part) for part in parts_of(splits, 1e-9)} == {1}
    total = sum(len(domain) for parts in splits.values() for domain in parts.values())
    assert sum(map(len, parts_of(splits))) == total


def test_run_stops_when_the_validation_risk_is_flat(tmp_path):
    record = train(replace(FLAT, patience=3), tmp_path)
    assert (record.status, record.stopped_early) == ("done", True)
    # The first evaluation after the warm-up is at step 40; three more are no lower.
    assert [e.step for e in record.evaluations][-1] == record.checkpoints["last"] == 70
    assert load_run(tmp_path / record.config.id).model() is not None
    assert set(results(tmp_path)["status"]) == {"done"}
    whole = train(replace(FLAT, steps=60), tmp_path)
    assert not whole.stopped_early


def test_run_that_improves_does_not_stop(tmp_path):
    record = train(
        replace(tiny(), patience=1, eval_every=5, steps=30, lr=1e-3, dropout=0.0), tmp_path
    )
    risks = [np.mean([e.scores[d]["val"].risk for d in ("0.9", "0.8")]) for e in record.evaluations]
    assert all(after < 0.999 * before for before, after in pairwise(risks))
    assert (record.evaluations[-1].step, record.stopped_early) == (30, False)


def test_interrupted_run_stops_at_the_same_step(tmp_path):
    config = replace(FLAT, patience=3)
    train(config, tmp_path / "whole")

    def stop(progress):
        if progress.step in (45, 70):
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            train(config, tmp_path / "stopped", resume=True, on_step=stop)
    train(config, tmp_path / "stopped", resume=True)
    assert_same_run(tmp_path / "stopped" / config.id, tmp_path / "whole" / config.id)
    assert records.read(tmp_path / "stopped" / config.id).stopped_early


def test_only_a_single_run_of_a_head_is_patient_by_default():
    def patience(single, **given):
        return resolve("erm", "pacs", single=single, given=given)["patience"].value

    frozen = {"model_options": {"frozen": True}}
    assert patience(True, **frozen) > 0
    assert patience(False, **frozen) == patience(True, lr=1.0) == 0
    assert patience(True, steps=10, **frozen) == patience(True, patience=0, **frozen) == 0


def test_head_on_a_file_of_features_stops_early_unless_steps_are_given(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "f.npz",
        features=rng.normal(size=(60, 4)).astype(np.float32),
        domain=np.repeat(["a", "b", "c"], 20),
        label=np.tile([0, 1], 30),
    )
    data = tmp_path / "f.npz"
    run = train_by_name(data, "erm", "a", out=tmp_path, eval_every=2, lr=1e-9)
    assert run.record.stopped_early
    assert run.record.evaluations[-1].step == 12
    assert f"--patience {run.config.patience}" in train_command(run.config)
    other = train_by_name(data, "erm", "a", out=tmp_path, eval_every=2, lr=1e-9, steps=20)
    assert other.record.evaluations[-1].step == 20
    words = [str(data), "--method", "erm", "--test-domain", "a"]
    assert Train.parse("train", words).config.patience == run.config.patience > 0
    assert plan_sweep(tmp_path / "s", str(data), ["erm"], draws=1).runs[0].config.patience == 0


@pytest.mark.parametrize("patience", [0, 5, 7])
def test_command_of_a_frozen_run_states_its_patience(patience):
    config = RunConfig(
        "pacs", ("photo",), "erm", model="lite0", model_options={"frozen": True}, patience=patience
    )
    assert f"--patience {patience}" in train_command(config)


def test_later_fields_do_not_change_ids():
    assert tiny().id == replace(tiny(), patience=0, eval_fraction=1.0).id
    assert len({tiny().id, tiny(patience=1).id, tiny(eval_fraction=0.5).id}) == 3
    assert tiny(pretrain=20, patience=3).erm_phase() == tiny(pretrain=20).erm_phase()


@pytest.mark.parametrize(("name", "value"), [("patience", -1), ("eval_fraction", 0.0)])
def test_values_out_of_range_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be"):
        tiny(**{name: value})


def test_time_left_counts_evaluations(tmp_path):
    left = []
    train_by_name(
        "colored-digits", "erm", "0.1", out=tmp_path, steps=20, eval_every=5,
        data_options={"samples": 3000}, batch_size=4, model_options={"widths": [4]},
        on_step=lambda progress: left.append(progress.seconds_left),
    )  # fmt: skip
    record = records.read_all(tmp_path)[0]
    steps = sum(e.seconds_per_step * 5 for e in record.evaluations)
    assert left[-1] > 0  # the last evaluation is still due
    assert record.evaluation_share == pytest.approx(1 - steps / record.evaluations[-1].seconds)
