"""Checkpoints of the steps that selection chooses are kept and can be loaded."""

from dataclasses import replace

import pytest
import torch
from tiny_runs import lines, tiny

from riskmatch import selection
from riskmatch.engine import load_run
from riskmatch.engine.run import train
from riskmatch.runs import records
from riskmatch.runs.frame import results
from riskmatch.selection import best_step

RUN = replace(tiny("rdm"), steps=100, eval_every=10, lr=0.03)


def chosen(out, **options):
    return int(selection.choose(results(out), "train-val", **options)["step"].iloc[0])


@pytest.fixture(scope="module")
def all_kept(tmp_path_factory):
    out = tmp_path_factory.mktemp("all")
    train(RUN, out, keep="all")
    return out


@pytest.fixture(scope="module")
def best_kept(tmp_path_factory):
    out = tmp_path_factory.mktemp("best")
    train(RUN, out)
    return out


def test_the_best_steps_are_kept_beside_the_last_two(all_kept, best_kept):
    every, kept = records.checkpoints(all_kept / RUN.id), records.checkpoints(best_kept / RUN.id)
    assert list(every) == list(range(10, 101, 10))
    best, after = chosen(best_kept), chosen(best_kept, after_warmup=True)
    assert best < 20 < after < 90  # the test needs steps that would be removed
    assert kept.keys() == {best, after, 90, 100}
    for step, path in kept.items():
        assert path.read_bytes()[-500:] == every[step].read_bytes()[-500:]
    record = records.read(best_kept / RUN.id)
    assert record.checkpoints == {"last": 100, "train-val": best, "train-val-after-warmup": after}
    assert (best_step(record), best_step(record, after_warmup=True)) == (best, after)


def test_networks_of_chosen_steps_are_loaded(all_kept, best_kept):
    names = {"train-val": {}, "train-val-after-warmup": {"after_warmup": True}}
    one, other = load_run(best_kept / RUN.id), load_run(all_kept / RUN.id)
    for name, options in names.items():
        mine, same = one.model(step=name), other.model(step=chosen(all_kept, **options))
        for a, b in zip(mine.parameters(), same.parameters(), strict=True):
            assert torch.equal(a, b)
    last = one.model(step="last").state_dict()
    assert all(torch.equal(last[name], value) for name, value in one.model().state_dict().items())


def test_error_names_the_steps_on_disk(best_kept):
    run = load_run(best_kept / RUN.id)
    kept = records.checkpoints(run.folder)
    with pytest.raises(FileNotFoundError, match="step 80") as error:
        run.model(step=80)
    assert ", ".join(map(str, kept)) in str(error.value)
    assert "keep='all'" in str(error.value)
    with pytest.raises(ValueError, match="Unknown step 'train_val'"):
        run.model(step="train_val")


def test_interrupted_run_keeps_the_same_best_steps(best_kept, tmp_path):
    def stop(progress):
        if progress.step in (35, 70):
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            train(RUN, tmp_path, resume=True, on_step=stop)
    train(RUN, tmp_path, resume=True)
    assert lines(tmp_path / RUN.id) == lines(best_kept / RUN.id)
    ours, theirs = (records.checkpoints(out / RUN.id) for out in (tmp_path, best_kept))
    assert ours.keys() >= set(records.read(tmp_path / RUN.id).checkpoints.values())
    assert all(load_run(tmp_path / RUN.id).model(step=step) for step in ours if step in theirs)


def test_records_of_earlier_versions_name_no_checkpoints(best_kept, tmp_path):
    record = replace(records.read(best_kept / RUN.id), checkpoints={})
    records.write(tmp_path / RUN.id, record)
    assert '"checkpoints"' not in (tmp_path / RUN.id / records.FILE).read_text()
    assert records.read(tmp_path / RUN.id) == record


def test_unknown_value_of_keep_is_refused(tmp_path):
    with pytest.raises(ValueError, match="keep 'some'"):
        train(RUN, tmp_path, keep="some")
