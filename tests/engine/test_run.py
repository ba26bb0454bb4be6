import errno
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_runs import assert_same_run, final_state, last_checkpoint, lines, tiny

from riskmatch import BusyError, DivergedError, UnfinishedError
from riskmatch.data import DATASETS
from riskmatch.engine.load import final_predictions, load_run
from riskmatch.engine.run import NoCheckpointError, train
from riskmatch.models.mlp import ReLUDropout
from riskmatch.runs import predictions, records
from riskmatch.runs.records import lock


def stop_at(step):
    def on_step(progress):
        if progress.step == step:
            raise KeyboardInterrupt

    return on_step


def interrupted_at(step, config, out):
    """Run, interrupt, resume; return the folder of the run."""
    with pytest.raises(KeyboardInterrupt):
        train(config, out, on_step=stop_at(step))
    train(config, out, resume=True)
    return out / config.id


def test_record_of_a_run(tmp_path):
    config, seen = tiny("rdm", eval_every=25), []
    run = train(config, tmp_path, on_step=seen.append)
    assert (run.status, run.config) == ("done", config)
    assert [entry.step for entry in run.evaluations] == [25, 50, 60]
    last = run.evaluations[-1]
    assert {name: set(splits) for name, splits in last.scores.items()} == {
        name: {"train", "val"} for name in ("0.9", "0.8", "0.1")
    }
    assert last.loss == pytest.approx(sum(last.terms.values()))
    assert set(last.raw) == {"matching"}
    assert last.worst_domain in ("0.9", "0.8")
    assert last.seconds > run.evaluations[0].seconds > 0
    assert last.peak_memory > 1e6
    assert [progress.step for progress in seen] == list(range(1, 61))
    assert min(progress.seconds_left for progress in seen) > 0  # the last evaluation is due
    assert {progress.worst_domain for progress in seen} <= {"0.9", "0.8"}
    assert last.scores["0.9"]["val"].metrics["accuracy"] > 0.8


def test_finished_run_is_returned_at_once(tmp_path):
    config = tiny(steps=5)
    first = train(config, tmp_path)
    before = (tmp_path / config.id / records.FILE).read_bytes()
    assert train(config, tmp_path, on_step=lambda _: pytest.fail("a step")) == first
    assert (tmp_path / config.id / records.FILE).read_bytes() == before


def test_seed_fixes_all_bits_whatever_the_global_stream(tmp_path):
    config = tiny(steps=20)
    torch.manual_seed(1)
    train(config, tmp_path / "a")
    before = torch.manual_seed(2).get_state()
    train(config, tmp_path / "b")
    assert torch.equal(torch.get_rng_state(), before)
    assert_same_run(tmp_path / "a" / config.id, tmp_path / "b" / config.id)
    other = replace(config, seed=1)
    train(other, tmp_path)
    assert final_state(tmp_path / other.id) != final_state(tmp_path / "a" / config.id)


def test_unfinished_run_raises_with_the_cure(tmp_path):
    config = tiny()
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path, on_step=stop_at(33))
    with pytest.raises(
        UnfinishedError, match=r"is unfinished; .* step 20 of 60. Continue it with resume"
    ):
        train(config, tmp_path)
    assert last_checkpoint(tmp_path / config.id).name == "00000033.safetensors"


@pytest.mark.parametrize("step", [1, 20, 33, 60])
def test_interrupted_run_equals_an_uninterrupted_one(tmp_path, step):
    config = tiny("rdm")
    train(config, tmp_path / "whole")
    folder = interrupted_at(step, config, tmp_path / "parts")
    assert_same_run(folder, tmp_path / "whole" / config.id)


def test_interrupt_during_the_last_evaluation_is_not_dropped(tmp_path):
    config = tiny(steps=20)

    def interrupt(config, evaluation):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "cut", on_evaluation=interrupt)
    assert records.read(tmp_path / "cut" / config.id).status == "unfinished"
    train(config, tmp_path / "cut", resume=True, on_step=lambda _: pytest.fail("a step"))
    train(config, tmp_path / "whole")
    assert_same_run(tmp_path / "cut" / config.id, tmp_path / "whole" / config.id)


def test_predictions_agree_with_the_scores_and_survive_interruption(tmp_path):
    config = tiny("rdm")
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path, predictions=True, on_step=stop_at(33))
    predictions.write(tmp_path / config.id, 50, {})  # as if killed between it and its record
    run = train(config, tmp_path, predictions=True, resume=True)
    assert predictions.steps(tmp_path / config.id) == (20, 40, 60)
    for entry in run.evaluations:
        read = predictions.read(tmp_path / config.id, entry.step)
        for domain, splits in entry.scores.items():
            for split, score in splits.items():
                values = read[domain][split]
                assert score.risk == pytest.approx(values.risk.mean())
                assert score.metrics["accuracy"] == (values.label == values.predicted).mean()
                assert (values.confidence >= 1 / 2).all()
                right = values.label == values.predicted
                risk = -np.log(values.confidence[right])
                assert risk == pytest.approx(values.risk[right], abs=1e-5)
    again = final_predictions(load_run(tmp_path / config.id))
    for domain, splits in again.items():
        for split, values in splits.items():
            assert np.array_equal(values.risk, read[domain][split].risk)
    train(config, tmp_path / "without")
    assert not predictions.steps(tmp_path / "without" / config.id)
    assert_same_run(tmp_path / config.id, tmp_path / "without" / config.id)


def test_interrupt_waits_for_the_end_of_the_step(tmp_path):
    config, steps = tiny(), []

    class Signalling(ReLUDropout):
        def forward(self, x):
            if len(steps) == 12:
                os.kill(os.getpid(), signal.SIGINT)
            return super().forward(x)

    before = signal.getsignal(signal.SIGINT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("riskmatch.models.mlp.ReLUDropout", Signalling)
        with pytest.raises(KeyboardInterrupt):
            train(config, tmp_path / "parts", on_step=steps.append)
    assert signal.getsignal(signal.SIGINT) is before
    assert last_checkpoint(tmp_path / "parts" / config.id).name == "00000013.safetensors"
    train(config, tmp_path / "parts", resume=True)
    train(config, tmp_path / "whole")
    assert_same_run(tmp_path / "parts" / config.id, tmp_path / "whole" / config.id)


def test_seconds_accumulate_over_resumes(tmp_path):
    config = tiny(steps=4, eval_every=1)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path, on_step=stop_at(2))
    seconds = [entry.seconds for entry in train(config, tmp_path, resume=True).evaluations]
    assert seconds == sorted(seconds)


def test_lock_excludes_other_processes_and_ends_with_its_holder(tmp_path):
    config = tiny(steps=3)
    (tmp_path / config.id).mkdir()
    code = (
        "import pathlib, sys, time\n"
        "from riskmatch.runs.records import lock\n"
        "with lock(pathlib.Path(sys.argv[1])):\n"
        "    print('locked', flush=True); time.sleep(60)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / config.id)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(BusyError, match="Another process is training"):
            train(config, tmp_path)
        holder.kill()
    assert train(config, tmp_path).status == "done"


def test_lock_is_released_after_an_error(tmp_path):
    with pytest.raises(RuntimeError), lock(tmp_path):
        raise RuntimeError
    with lock(tmp_path):
        pass


def poisoned(*, samples, seed=0):
    """Coloured digits with NaN in the domain 0.8."""
    from riskmatch.data.colored_digits import colored_digits

    data = colored_digits(samples=samples, seed=seed)
    data.domains[1].x[:] = math.nan
    return data


def test_divergence_is_recorded_and_raised(tmp_path, monkeypatch):
    source = replace(DATASETS["colored-digits"], load=poisoned)
    monkeypatch.setitem(DATASETS, "colored-digits", source)
    config = tiny("groupdro")
    with pytest.raises(DivergedError, match=r"in domain '0.8'") as caught:
        train(config, tmp_path)
    assert (caught.value.step, caught.value.term, caught.value.domain) == (
        0,
        "weighted risk",
        "0.8",
    )
    run = records.read(tmp_path / config.id)
    assert run.status == "failed"
    assert run.error == "DivergedError: Step 0: weighted risk is not finite in domain '0.8'."
    with pytest.raises(UnfinishedError, match="DivergedError: Step 0"):
        train(config, tmp_path)


def test_failed_run_keeps_its_last_checkpoint(tmp_path):
    config = tiny(steps=60, eval_every=10)

    def spoil(progress):
        if progress.step == 25 and not spoilt:
            spoilt.append(True)
            raise FloatingPointError("injected")

    spoilt = []
    with pytest.raises(FloatingPointError):
        train(config, tmp_path / "parts", on_step=spoil)
    folder = tmp_path / "parts" / config.id
    assert records.read(folder).error == "FloatingPointError: injected"
    assert last_checkpoint(folder).name == "00000020.safetensors"
    train(config, tmp_path / "parts", resume=True, on_step=spoil)
    train(config, tmp_path / "whole")
    assert_same_run(folder, tmp_path / "whole" / config.id)


def test_non_finite_weights_are_not_saved(tmp_path):
    config = tiny(lr=1e30, steps=9, eval_every=5, clip=None)
    with pytest.raises(DivergedError):
        train(config, tmp_path, checkpoint_every=1)
    for path in (tmp_path / config.id / "checkpoints").glob("*.safetensors"):
        from safetensors.torch import load_file

        weights = load_file(path)
        assert all(v.isfinite().all() for name, v in weights.items() if name.startswith("model/"))


def test_damaged_checkpoint_warns_and_the_previous_one_is_used(tmp_path):
    config = tiny()
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "parts", on_step=stop_at(33))
    folder = tmp_path / "parts" / config.id
    path = last_checkpoint(folder)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.warns(UserWarning, match=r"00000033.* truncated .* Continuing from step 20"):
        train(config, tmp_path / "parts", resume=True)
    train(config, tmp_path / "whole")
    assert_same_run(folder, tmp_path / "whole" / config.id)


def test_run_without_valid_checkpoint_starts_again_only_on_request(tmp_path):
    config = tiny()
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "parts", on_step=stop_at(33))
    folder = tmp_path / "parts" / config.id
    for path in (folder / "checkpoints").iterdir():
        path.write_bytes(b"")
    before = lines(folder)
    for _ in range(2):  # damaged, then none at all
        with pytest.raises(NoCheckpointError, match=r"up to step 20 .* restart=True"):
            train(config, tmp_path / "parts", resume=True)
        assert lines(folder) == before
    train(config, tmp_path / "parts", restart=True)
    train(config, tmp_path / "whole")
    assert_same_run(folder, tmp_path / "whole" / config.id)


def test_run_killed_before_its_first_checkpoint_starts_again(tmp_path):
    config = tiny()
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path, on_step=stop_at(7))
    for path in (tmp_path / config.id / "checkpoints").iterdir():
        path.unlink()
    assert train(config, tmp_path, resume=True).status == "done"


@pytest.mark.parametrize("obstacle", ["folder", "dangling link", "permission", "disk"])
def test_checkpoint_that_cannot_be_read_stops_the_run_and_stays(tmp_path, monkeypatch, obstacle):
    config = tiny()
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path, on_step=stop_at(33))
    folder = tmp_path / config.id
    newest = last_checkpoint(folder)

    def fail(*_, **__):
        raise OSError(errno.EIO, "Input/output error", str(newest))

    def refuse(path, mode):  # as chmod 000 does, unless the user is root
        return path != newest

    obstruct = {
        "folder": lambda: (newest.unlink(), newest.mkdir()),
        "dangling link": lambda: (newest.unlink(), newest.symlink_to(tmp_path / "absent")),
        "permission": lambda: monkeypatch.setattr("riskmatch.files.os.access", refuse),
        "disk": lambda: monkeypatch.setattr("riskmatch.engine.checkpoint.safe_open", fail),
    }
    obstruct[obstacle]()
    before, names = lines(folder), sorted((folder / "checkpoints").iterdir())
    with pytest.raises(OSError, match=newest.name):
        train(config, tmp_path, resume=True)
    assert lines(folder) == before
    assert sorted((folder / "checkpoints").iterdir()) == names


def test_an_evaluation_on_disk_has_a_checkpoint(tmp_path, monkeypatch):
    config = tiny()

    def killed(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(records, "append", killed)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "parts")
    monkeypatch.undo()
    assert last_checkpoint(tmp_path / "parts" / config.id).name == "00000020.safetensors"
    train(config, tmp_path / "parts", resume=True)
    train(config, tmp_path / "whole")
    assert_same_run(tmp_path / "parts" / config.id, tmp_path / "whole" / config.id)


def test_checkpoints_without_a_record_are_ignored(tmp_path):
    config = tiny()
    train(config, tmp_path)
    before = lines(tmp_path / config.id)
    (tmp_path / config.id / records.FILE).unlink()
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path, on_step=stop_at(5))
    assert last_checkpoint(tmp_path / config.id).name == "00000005.safetensors"
    train(config, tmp_path, resume=True)
    assert lines(tmp_path / config.id) == before


@pytest.mark.parametrize(
    "changes",
    [
        {"schedule": "cosine"},
        {"schedule": "cosine-after-warmup"},
        {"clip": 0.05},
        {"amp": True},
        {"batch_size": 0},
        {"replacement": True},
        {"replacement": True, "batch_size": 0},
        {"dropout": 0.0},
        {"weight_decay": 0.1},
        {"trial": 1},
        {"model": "cnn", "model_options": {"widths": [8]}},
    ],
    ids=lambda changes: next(iter(changes)) + "=" + str(next(iter(changes.values()))),
)
def test_every_setting_has_an_effect_and_resumes(tmp_path, changes):
    plain = tiny("rdm", steps=40)
    config = replace(plain, **changes)
    train(plain, tmp_path / "plain")
    train(config, tmp_path / "whole")
    whole = tmp_path / "whole" / config.id
    assert final_state(whole) != final_state(tmp_path / "plain" / plain.id)
    assert_same_run(interrupted_at(27, config, tmp_path / "parts"), whole)


def test_invalid_configurations_raise_before_anything_is_written(tmp_path):
    for changes, message in [
        ({"method": "rmd"}, "Unknown method 'rmd'. Did you mean 'rdm'"),
        ({"hparams": {"waight": 1}}, "Unknown hyper-parameter of rdm 'waight'. Did you mean 'wei"),
        ({"data": "colored"}, "Unknown data set 'colored'"),
        ({"model": "mlpp"}, "Unknown network 'mlpp'"),
        ({"test_domains": ("0.2",)}, "Unknown domain of 'colored-digits' '0.2'"),
    ]:
        with pytest.raises(ValueError, match=message):
            train(replace(tiny("rdm"), **changes), tmp_path / "out")
    assert not (tmp_path / "out").exists()
