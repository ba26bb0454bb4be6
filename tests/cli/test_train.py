import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from tiny import train

from riskmatch.cli.train import Train
from riskmatch.defaults import resolve, values_of
from riskmatch.engine.loggers import CSV
from riskmatch.runs import records


def only_run(out="runs"):
    (run,) = records.read_all(Path(out))
    return run


def test_train_prints_progress_and_results(riskmatch):
    done = riskmatch(*train("rdm", "--warmup", "10", "--weight", "3"))
    assert done.code == 0
    run = only_run()
    assert run.status == "done"
    assert (run.config.hparams["weight"], run.config.hparams["warmup"]) == (3.0, 10)
    assert [evaluation.step for evaluation in run.evaluations] == [10, 20]
    lines = (
        done.err.splitlines()
    )  # not a terminal: one line per evaluation, the test domain on the part that tables report
    assert [line.split()[1] for line in lines] == ["10/20", "20/20"]
    reported = run.evaluations[0].scores["0.1"]["train"].metrics["accuracy"]
    assert f" 0.1 (test) {reported:.3f} " in lines[0]
    last = run.evaluations[-1].scores["0.8"]["val"]
    assert f"{last.metrics['accuracy']:.3f}" in done.out
    assert f"{last.risk:.4f}" in done.out
    assert "0.1 (test)" in done.out
    for path in ("records.jsonl", "checkpoints/00000020.safetensors"):
        assert str(Path("runs", run.config.id, path)) in done.out


def test_repeated_command_prints_the_finished_run(riskmatch):
    first = riskmatch(*train("erm"))
    (line,) = (line for line in first.out.splitlines() if line.startswith("repeat"))
    again = riskmatch(*shlex.split(line)[2:])
    assert again.err == "This run was done before; this is its record.\n"
    assert again.out == first.out


def test_pretraining_may_be_longer_than_eval_every(riskmatch):
    done = riskmatch(
        *train("rdm", "--pretrain", "15", "--warmup", "15")
    )  # evaluated every 10 steps
    assert done.code == 0
    assert [line.split()[1] for line in done.err.splitlines()] == ["20/20"]


def test_json_and_quiet(riskmatch):
    done = riskmatch(*train("erm", "--json", "--quiet"))
    assert done.err == ""
    values, run = json.loads(done.out), only_run()
    assert (values["status"], values["id"]) == ("done", run.config.id)
    assert values["config"] == run.config.to_json()
    scores = run.evaluations[-1].scores
    assert values["evaluation"]["scores"]["0.1"]["val"]["risk"] == scores["0.1"]["val"].risk
    assert riskmatch(*train("erm", "--quiet")) == (0, "", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupt_prints_the_command_to_continue(riskmatch, number):
    words = train("erm", "--steps", "100000", "--eval-every", "20")
    command = [sys.executable, "-m", "riskmatch.cli", *words]
    before = signal.signal(number, signal.SIG_DFL)  # nohup makes children ignore SIGHUP
    process = subprocess.Popen(command, stdout=-1, stderr=-1, text=True)
    signal.signal(number, before)
    with process:
        first = process.stderr.readline()
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert first.startswith("step 20/")
    assert (process.returncode, out) == (3, "")
    last = err.splitlines()[-1]
    assert last.startswith("riskmatch: Interrupted after step ")
    step = int(last.split("after step ")[1].split(".")[0])
    assert list(Path("runs").glob(f"*/checkpoints/{step:08d}.safetensors"))
    assert shlex.split(last.split("To continue: ")[1])[1:] == [*words, "--resume"]
    refused = riskmatch(*words)
    assert refused.code == 2
    assert "This run was started before. To continue: riskmatch train" in refused.err


def test_resumed_run_equals_an_uninterrupted_one(riskmatch, monkeypatch):
    from riskmatch.cli.progress import RunDisplay

    assert riskmatch(*train("erm", "--out", "whole")).code == 0
    show_step = RunDisplay.step

    def interrupt(display, progress):
        show_step(display, progress)
        if progress.step == 13:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunDisplay, "step", interrupt)
        stopped = riskmatch(*train("erm"))
    assert stopped.code == 3
    assert "Interrupted after step 13." in stopped.err
    assert only_run().status == "unfinished"
    onward = shlex.split(stopped.err.split("To continue: ")[1])[1:]
    resumed = riskmatch(*onward)
    assert resumed.code == 0
    assert resumed.err.startswith("step 20/20")  # earlier evaluations are not repeated
    assert only_run().evaluations[-1].scores == only_run("whole").evaluations[-1].scores


@pytest.mark.parametrize(("step", "resumable"), [(3, False), (13, True)])
def test_failure_names_the_command_to_continue(riskmatch, monkeypatch, step, resumable):
    from riskmatch.cli.progress import RunDisplay

    def fail(display, progress):
        display.last_step = progress.step
        if progress.step == step:
            raise MemoryError("too large")

    monkeypatch.setattr(RunDisplay, "step", fail)
    failed = riskmatch(*train("erm"))
    assert failed.code == 3
    assert "riskmatch: MemoryError: too large" in failed.err
    assert ("To continue from the last checkpoint: riskmatch train" in failed.err) is resumable


def test_command_line_wins_over_toml_file(riskmatch):
    Path("run.toml").write_text(
        'data = "colored-digits"\nmethod = "rdm"\ntest-domain = ["0.1"]\nlr_after = 1e-4\n'
        "weight = 2\nsteps = 20\nrescale = true\n[data-option]\nsamples = 100\n"
    )
    config = Train.parse("train", ["--config", "run.toml", "--weight", "7", "--steps=10"]).config
    assert (config.data, config.method, config.test_domains) == ("colored-digits", "rdm", ("0.1",))
    assert (config.hparams["weight"], config.hparams["lr_after"]) == (7.0, 1e-4)
    assert config.hparams["rescale"] is True
    assert (config.steps, config.data_options) == (10, {"samples": 100})
    words = ["--config", "run.toml", "--test-domain", "0.9", "--no-rescale"]
    other = Train.parse("train", words).config
    assert other.test_domains == ("0.9",)
    assert other.hparams["rescale"] is False


def test_options_win_over_preset_and_preset_over_defaults():
    words = ["domainnet", "--test-domain", "sketch", "--method", "rdm", "--preset", "paper"]
    config = Train.parse("train", words).config
    assert (config.hparams["kernel"], config.schedule) == ("paper", "constant")
    assert config.hparams["warmup"] == 2400  # the data set's, which no preset touches
    config = Train.parse("train", [*words, "--kernel", "authors-code"]).config
    assert config.hparams["kernel"] == "authors-code"


def test_defaults_apply_without_options():
    words = ["colored-digits", "--test-domain", "0.1", "--method", "rdm"]
    config = Train.parse("train", words).config
    usual = values_of(resolve("rdm", "colored-digits"))
    assert dict(config.hparams) == {name: usual[name] for name in config.hparams}
    assert (config.batch_size, config.lr, config.steps) == (0, 1e-3, 350)


def test_backbone_is_an_alias_of_model():
    words = ["colored-mnist", "--test-domain", "0.9", "--method", "erm"]
    plain = Train.parse("train", words).config
    config = Train.parse("train", [*words, "--backbone", "lite0", "--frozen"]).config
    assert config.model == "lite0"
    assert config.model_options == {"frozen": True}  # without those of the multi-layer perceptron
    assert "frozen" not in plain.model_options
    with pytest.raises(ValueError, match="frozen needs a backbone, such as lite0"):
        Train.parse("train", [*words, "--frozen"])


def test_tensorboard_events_contain_every_evaluation(riskmatch):
    pytest.importorskip("tensorboard", reason="needs the extra riskmatch[tensorboard]")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert riskmatch(*train("rdm", "--warmup", "10", "--log", "tensorboard")).code == 0
    run = only_run()
    events = EventAccumulator(str(Path("runs", run.config.id, "tensorboard"))).Reload()
    written = [(event.step, event.value) for event in events.Scalars("accuracy/0.1/val")]
    assert written == [
        (evaluation.step, pytest.approx(evaluation.scores["0.1"]["val"].metrics["accuracy"]))
        for evaluation in run.evaluations
    ]
    assert {"loss", "term/risk", "raw/matching", "risk/0.9/train"} <= set(events.Tags()["scalars"])


def test_csv_log_has_a_row_per_evaluation_also_after_a_restart(riskmatch):
    words = train("rdm", "--warmup", "10", "--log", "csv")
    assert riskmatch(*words).code == 0
    run = only_run()
    path = Path("runs", run.config.id, "evaluations.csv")
    logged, first = pd.read_csv(path), path.read_bytes()
    assert logged["step"].tolist() == [evaluation.step for evaluation in run.evaluations]
    scores = [evaluation.scores["0.1"]["val"].risk for evaluation in run.evaluations]
    assert logged["risk/0.1/val"].tolist() == pytest.approx(scores, rel=1e-15)
    assert logged["raw/matching"].isna().tolist() == [
        evaluation.step <= 10 for evaluation in run.evaluations
    ]
    logger = CSV(Path("runs"))
    for evaluation in run.evaluations[1:]:  # a resumed run logs its last evaluations again
        logger(run.config, evaluation)
    assert path.read_bytes() == first


def test_a_logger_of_the_users_own_is_closed(riskmatch):
    Path("own_logger.py").write_text(
        "from pathlib import Path\n"
        "class Steps:\n"
        "    def __init__(self, out):\n"
        "        self.steps = []\n"
        "    def __call__(self, config, evaluation):\n"
        "        self.steps.append(evaluation.step)\n"
        "    def close(self):\n"
        "        Path('steps.txt').write_text(str(self.steps))\n"
        "class Nothing:\n"
        "    def __init__(self, out): ...\n"
    )
    assert riskmatch(*train("erm", "--log", "own_logger:Steps", "--log", "csv")).code == 0
    steps = [evaluation.step for evaluation in only_run().evaluations]
    assert Path("steps.txt").read_text() == str(steps)
    done = riskmatch(*train("erm", "--seed", "1", "--log", "own_logger:Nothing"))
    assert done.code == 2
    assert "own_logger:Nothing" in done.err
    assert "close()" in done.err
    done = riskmatch(*train("erm", "--seed", "1", "--log", "tensorbord"))
    assert done.code == 2
    assert "Did you mean 'tensorboard'?" in done.err


def test_cost_estimates_and_trains_nothing(riskmatch, tmp_path):
    words = ["train", "colored-digits", "--method", "rdm", "--test-domain", "0.1"]
    words += ["--steps", "200", "--data-option", "samples=60"]
    done = riskmatch(*words, "--cost", "--memory", "100")
    assert done.code == 0
    assert "200 of 96 samples" in done.out
    assert "before step 150" in done.out
    assert "fits in 100 GB" in done.out
    values = json.loads(riskmatch(*words, "--cost", "--json").out)
    assert values["steps"] == 200
    assert values["seconds"] > 0
    assert list(tmp_path.iterdir()) == []
    refused = riskmatch(*words, "--memory", "4")
    assert (refused.code, "--cost" in refused.err) == (2, True)
    small = ["--draws", "1", "--trials", "1", "--steps", "4", "--data-option", "samples=60"]
    plan = ["sweep", "plan", "s", "--data", "colored-digits", "--methods", "erm", *small]
    done = riskmatch(*plan, "--cost")
    assert (done.code, "core hours" in done.out) == (0, True)
    done = riskmatch("sweep", "run", "s", "--cost")
    assert "core hours" in done.out
    assert not (tmp_path / "s" / "runs").exists()


def test_the_summary_has_the_chosen_step_first_and_what_is_held_out(riskmatch):
    words = train("erm", "--steps", "60", "--lr", "0.1", "--seed", "1")
    out = riskmatch(*words).out
    run = only_run()
    chosen = run.checkpoints["train-val"]
    assert chosen < 60  # else the last step is shown alone
    title, first, *lines = out.splitlines()
    assert title == "erm on colored-digits, network: mlp"
    assert first == f"step {chosen} of 60, chosen by train-val"
    assert "step 60 of 60, the last" in lines
    assert "accuracy, held out" in lines[0]
    assert "part" not in out
    scores = next(e for e in run.evaluations if e.step == chosen).scores
    rows = {line.split()[0]: line.split() for line in lines[2:5]}
    for name, row in rows.items():
        held_out = scores[name]["train" if name == "0.1" else "val"]
        assert f"{held_out.metrics['accuracy']:.3f}" == row[2 if name == "0.1" else 1]
        assert f"{held_out.risk:.4f}" in row
    assert rows["0.1"].count("—") == 2  # nothing of it is trained on
