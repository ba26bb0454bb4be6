import json
import shlex
import sys
from pathlib import Path

import pytest

from riskmatch.runs.records import FILE
from riskmatch.sweep.plan import read

PLAN = shlex.split(
    "sweep plan s --data colored-digits --data-option samples=60 --methods erm,rdm "
    "--test-domain 0.1 --draws 1 --trials 2 --steps 20 --eval-every 10 --option warmup=5 "
    "--model-option widths=[4]"
)


@pytest.fixture
def planned(riskmatch):
    assert riskmatch(*PLAN).code == 0
    return riskmatch


def test_plan_run_status_and_table(riskmatch, tmp_path):
    result = riskmatch(*PLAN)
    assert result.out.startswith("Added 4 runs to s/plan.jsonl. About 0:")
    assert result.out.endswith("riskmatch sweep run s\n")
    result = riskmatch("sweep", "run", "s", "--jobs", "1")
    assert result.code == 0
    assert "4/4  rdm moments on colored-digits without 0.1, draw 0, trial 1: done" in result.err
    assert result.out.startswith("All 4 runs are done.")
    assert result.out.endswith("riskmatch sweep table s\n")
    status = json.loads(riskmatch("sweep", "status", "s", "--json").out)
    assert (status["done"], status["methods"]["rdm moments"]["done"]) == (4, 2)
    assert status["seconds_left"] == 0
    table = riskmatch("sweep", "table", "s")
    assert table.code == 0
    assert "Draws: 1. Trials: 2" in table.out
    assert "ERM" in table.out
    costs = riskmatch("sweep", "table", "s", "--costs", "--json").out
    rows = {row["method"]: row for row in json.loads(costs)[0]["rows"]}
    assert rows.keys() == {"ERM", "RDM (two moments)"}
    assert float(rows["ERM"]["memory (GiB)"]) > 0
    latex = riskmatch("sweep", "table", "s", "--select", "test-val", "--format", "latex").out
    assert r"\begin{tabular}" in latex
    tables = json.loads(riskmatch("sweep", "table", "s", "--select", "test-val", "--json").out)
    assert "oracle" in tables[0]["caption"]


def test_plan_is_extended_by_the_runs_it_lacks(planned):
    result = planned(*PLAN, "--draws", "2")
    assert result.out.startswith("Added 4 runs to s/plan.jsonl (4 were planned already).")
    result = planned(*PLAN, "--draws", "2")
    assert result.out.startswith("Added 0 runs to s/plan.jsonl (8 were")


def test_settings_name_the_preset_that_a_plan_follows(riskmatch, tmp_path):
    settings = riskmatch(*PLAN, "--preset", "authors-code", "--settings")
    assert settings.code == 0
    assert not (tmp_path / "s").exists()
    lines = [line.strip() for line in settings.out.splitlines()]
    assert {"erm", "rdm"} <= {*lines}
    assert [line for line in lines if line.startswith("schedule cosine") and "authors-code" in line]
    riskmatch(*PLAN, "--draws", "2", "--preset", "authors-code")
    header, *lines = map(json.loads, (tmp_path / "s/plan.jsonl").read_text().splitlines())
    assert "--preset authors-code" in header["made by"]
    configs = [line["config"] for line in lines]
    assert all(config["replacement"] and config["augment_validation"] for config in configs)
    schedules = {(config["method"], config["schedule"]) for config in configs}
    assert schedules == {("erm", "constant"), ("rdm", "cosine-after-warmup")}
    assert riskmatch(*PLAN, "--preset", "authors-cod").code == 2


def test_plan_holds_out_every_domain_and_pair_by_default(riskmatch, tmp_path):
    words = [word for word in PLAN if word not in ("--test-domain", "0.1")]
    riskmatch(*words, "--quiet", "--leave-two-out")
    lines = (tmp_path / "s" / "plan.jsonl").read_text().splitlines()[1:]
    tests = {tuple(json.loads(line)["config"]["test_domains"]) for line in lines}
    assert tests == {("0.9",), ("0.8",), ("0.1",), ("0.9", "0.8"), ("0.9", "0.1"), ("0.8", "0.1")}


def test_failures_are_listed_left_alone_and_retried(planned, tmp_path):
    plan = tmp_path / "s" / "plan.jsonl"
    plan.write_text(plan.read_text().replace('"warmup": 5', '"wramup": 5', 1))
    result = planned("sweep", "run", "s", "--jobs", "1", "--quiet")
    assert result.code == 3
    assert "1 of 4 runs failed; the first: rdm moments on colored-digits" in result.err
    assert "riskmatch sweep status s." in result.err
    assert "riskmatch sweep retry s" in result.err
    assert "'wramup'. Did you mean 'warmup'?" in planned("sweep", "status", "s").out
    again = planned("sweep", "run", "s", "--jobs", "1")
    assert again.err.startswith("4 runs (3 done, 1 failed before)")
    retried = planned("sweep", "retry", "s", "--jobs", "1")
    assert retried.err.startswith("1 run (0 done before)")
    missing = planned("sweep", "table", "s").out
    assert "Missing: RDM (two moments) on 0.1 1 of 2 runs" in missing


def test_table_warns_of_damaged_records_and_uses_the_others(planned, tmp_path):
    planned("sweep", "run", "s", "--jobs", "1", "--quiet")
    path = min((tmp_path / "s" / "runs").glob(f"*/{FILE}"))
    path.write_text("{\n")
    result = planned("sweep", "table", "s")
    assert result.code == 0
    assert f"{path.relative_to(tmp_path)}, line 1, is not JSON" in result.err
    assert "Missing" in result.out


def test_helper_that_is_killed_again_and_again_is_named(planned, monkeypatch):
    def start(process):
        raise EOFError

    monkeypatch.setattr("multiprocessing.context.ForkServerProcess.start", start)
    result = planned("sweep", "run", "s", "--jobs", "2", "--quiet")
    assert (result.code, result.err.count("\n")) == (3, 1)
    for fact in ("forkserver", "killed", "fewer jobs", "repeat the command"):
        assert fact in result.err


def test_retry_without_failures(planned):
    assert planned("sweep", "retry", "s").out == "No run has failed.\n"


def test_cost_counts_the_runs_that_the_command_would_train(planned, tmp_path):
    assert planned("sweep", "retry", "s", "--cost").out == "No run has failed.\n"
    planned("sweep", "run", "s", "--jobs", "1", "--quiet")
    record = min((tmp_path / "s" / "runs").glob(f"*/{FILE}"))
    record.write_text(record.read_text().replace('"status": "done"', '"status": "failed"'))
    assert planned("sweep", "run", "s", "--cost").out == "No run is left to train.\n"
    total = planned("sweep", "retry", "s", "--cost").out.splitlines()[-3]
    assert total.split()[:2] == ["total", "1"]


def test_cost_is_that_of_workers_with_a_stated_speed(planned):
    lines = planned("sweep", "run", "s", "--cost", "--workers", "3", "--throughput", "1e4").out
    assert "worker hours" in lines
    assert " days on 3 workers, " in lines
    assert "at 10,000 samples per second, as you state" in lines
    for words, message in (
        (["--workers", "3"], "--workers is an option of --cost."),
        (["--throughput", "9x"], "--throughput is an option of --cost."),
        (["--cost", "--workers", "0"], "--workers must be at least 1, got 0."),
        (["--cost", "--throughput", "fast"], "throughput must be samples per second"),
    ):
        refused = planned("sweep", "run", "s", *words)
        assert (refused.code, message in refused.err) == (2, True), refused.err


def test_cost_takes_the_device_of_the_launcher(planned):
    refused = planned("sweep", "run", "s", "--cost", "--device", "cuda:9")
    assert (refused.code, "cuda:9" in refused.err) == (2, True)


def test_usage_names_positional_arguments_that_are_given(riskmatch):
    help = riskmatch("sweep", "run", "s", "--launcher", "slurm", "--help").out
    assert help.splitlines()[0].endswith("DIR")


def test_help_lists_the_options_of_the_launcher(riskmatch):
    help = riskmatch("sweep", "run", "--help").out
    assert all(option in help for option in ("DIR", "--launcher", "--jobs", "--device"))


@pytest.mark.parametrize(
    ("launcher", "options"),
    [
        ("ray", "--address --cores --memory --gpus --jobs --retries --copy-back"),
        ("slurm", "--time-limit --partition --cores --memory --gpus --jobs --sbatch --cluster"),
    ],
)
def test_help_lists_the_options_of_other_launchers(riskmatch, launcher, options):
    for verb in ("run", "retry"):
        help = riskmatch("sweep", verb, "--launcher", launcher, "--help").out
        assert all(option in help for option in options.split())
        assert "--device" not in help  # an option of the local launcher


@pytest.mark.parametrize(("launcher", "package"), [("ray", "ray"), ("slurm", "submitit")])
def test_launcher_without_its_package_names_the_extra(planned, monkeypatch, launcher, package):
    monkeypatch.setitem(sys.modules, package, None)
    result = planned("sweep", "run", "s", "--launcher", launcher)
    assert result.code == 2
    assert f"pip install 'riskmatch[{launcher}]'" in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "sweep run nowhere",
            "nowhere has no plan.jsonl. Plan a sweep with riskmatch sweep plan nowhere",
        ),
        ("sweep run", "needs DIR"),
        ("sweep run s --jobs 0", "jobs must be at least 1, got 0"),
        ("sweep run s --launcher ray --cores 0", "cores must be at least 1, got 0"),
        ("sweep run s --launcher ray --gpus -0.5", "gpus must be at least 0, got -0.5"),
        ("sweep run s --launcher ray --gpus half", "--gpus must be a number, got 'half'"),
        ("sweep run s --launcher slurm --cluster lcal", "Did you mean 'local'?"),
        ("sweep run s --launcher slurm --sbatch lab", "--sbatch must be KEY=VALUE, got 'lab'"),
        ("sweep run s --launcher lcal", "Unknown launcher 'lcal'. Did you mean 'local'?"),
        ("sweep run s --launcher json:loads", "json:loads is not a launcher"),
        ("sweep plan s", "needs --data"),
        ("sweep plan s --data colored-digtis", "Did you mean 'colored-digits'?"),
        ("sweep plan s --data colored-digits --methods rmd", "Did you mean 'rdm'?"),
        (
            "sweep plan s --data colored-digits --test-domain 0.7",
            "Unknown domain of colored-digits",
        ),
        ("sweep plan s --data colored-digits --option wieght=1", "Did you mean 'weight'?"),
        (
            "sweep plan s --data colored-digits --option schedule=cosin",
            "Unknown schedule 'cosin'. Did you mean 'cosine'? Valid: 'constant', 'cosine', 'cosine",
        ),
        (
            "sweep plan s --data colored-digits --option lr=abc",
            "lr must be a number, got 'abc'.",
        ),
        (
            "sweep plan s --data colored-digits --option steps=abc",
            "steps must be an integer, got 'abc'.",
        ),
        (
            "sweep plan s --data colored-digits --methods rdm --option warmup=abc",
            "warmup of rdm must be an integer, got 'abc'.",
        ),
        (
            "sweep plan s --data colored-digits --methods vrex --option weight=abc",
            "weight of vrex must be a number, got 'abc'.",
        ),
        (
            "sweep plan s --data colored-digits --methods rdm --option divergence=mdm",
            "divergence 'mdm'. Did you mean 'mmd'?",
        ),
        ("sweep plan s --data colored-digits --steps 100", "(150 steps)"),
        ("sweep table s --select best", "Valid: 'train-val', 'test-val', 'leave-one-out'"),
    ],
)
def test_mistakes_are_reported_in_one_line(riskmatch, words, message):
    result = riskmatch(*shlex.split(words))
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") == 1


def test_plan_with_equal_batches_and_domains_left_out_together(riskmatch):
    words = shlex.split(
        "sweep plan s --data colored-digits --methods erm,rdm --draws 3 --trials 1 --steps 400 "
        "--data-option samples=40 --model-option widths=[4] --quiet"
    )
    assert riskmatch(*words, "--leave-out-together", "0.8+0.9", "--equal-batches").code == 0
    runs = read(Path("s"))
    assert len({run.config.batch_size for run in runs}) == 1
    assert {run.config.test_domains for run in runs} == {("0.9", "0.8"), ("0.1",)}
    refused = riskmatch(*words, "--leave-out-together", "0.8+0.7")
    assert refused.code == 2
    assert "'0.7'" in refused.err
