"""Import of DomainBed's logs: data sets, forks, damaged files."""

import gzip
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from domainbed_tree import line, random_sweep, write
from made_records import choose
from made_sweep import per_domain_table

from riskmatch.data import DATASETS
from riskmatch.objectives import methods
from riskmatch.runs import domainbed, records
from riskmatch.runs.config import acts_from, variant
from riskmatch.runs.domainbed import read_domainbed, write_runs
from riskmatch.runs.domainbed_line import DIGITS, method_of

FLAT = [(0.5, 0.5)] * 4


def only(tree):
    sweep = read_domainbed(tree)
    assert sweep.faults == ()
    (run,) = sweep.runs
    return run


def reasons(tree):
    return [str(fault).replace(f"{tree}{os.sep}", "") for fault in read_domainbed(tree).faults]


def reference(lines, rule):
    """Test accuracies by (test environment, trial), by plain loops over the lines."""
    accuracies = {}
    for test in range(4):
        for trial in (0, 1):
            here = [r for r in lines if r["args"]["trial_seed"] == trial]
            alone = [r for r in here if r["args"]["test_envs"] == [test]]
            best = None
            for r in alone:
                others = [env for env in range(4) if env != test]
                if rule == "train-val":
                    val = np.mean([r[f"env{env}_out_acc"] for env in others])
                elif rule == "test-val":
                    val = r[f"env{test}_out_acc"] if r["step"] == 600 else -1
                else:
                    val = np.mean([
                        p[f"env{env}_in_acc"]
                        for env in others
                        for p in here
                        if p["args"]["test_envs"] == sorted([test, env])
                        and p["args"]["hparams_seed"] == r["args"]["hparams_seed"]
                        and p["step"] == r["step"]
                    ])  # fmt: skip
                if best is None or val > best[0]:
                    best = val, r[f"env{test}_in_acc"]
            accuracies[test, trial] = best[1]
    return accuracies


@pytest.mark.parametrize("rule", ["train-val", "test-val", "leave-one-out"])
def test_selection_agrees_with_plain_loops_over_the_log(tmp_path, rule):
    lines = random_sweep(tmp_path)
    choices = choose(read_domainbed(tmp_path).runs, rule)
    names = DATASETS["pacs"].domains
    accuracies = {(names.index(c.test_domain), c.trial): c.value for c in choices}
    assert accuracies == reference(lines, rule)


def test_line_gives_configuration_and_scores(tmp_path):
    hparams = {"lr": 3e-5, "weight_decay": 1e-6, "resnet_dropout": 0.1, "rdm_lambda": 5.0}
    scores = [(0.1, 0.2), (0.3, 0.4), (0.5, 0.6), (0.7, 0.8)]
    args = {"algorithm": "RDM", "hparams_seed": 3, "trial_seed": 1, "seed": 77}
    write(
        tmp_path,
        [line(0, scores, (2,), hparams, **args), line(5000, scores, (2,), hparams, **args)],
    )
    run = only(tmp_path)
    config = run.config
    assert (config.data, config.test_domains, config.method) == ("pacs", ("photo",), "rdm")
    assert (config.lr, config.weight_decay, config.dropout) == (3e-5, 1e-6, 0.1)
    assert (config.batch_size, config.seed, config.trial) == (32, 77, 1)
    assert (config.model, config.steps, config.eval_every) == ("resnet50", 5001, 300)
    assert (config.hparams["rdm_lambda"], config.hparams["hparams_seed"]) == (5.0, 3)
    last = run.evaluations[-1]
    assert list(last.scores) == ["art_painting", "cartoon", "photo", "sketch"]
    assert (
        last.scores["photo"]["train"].metrics["accuracy"],
        last.scores["photo"]["val"].metrics["accuracy"],
    ) == (
        0.5,
        0.6,
    )
    assert math.isnan(last.scores["photo"]["val"].risk)
    assert (last.loss, last.seconds_per_step, last.peak_memory) == (0.5, 0.25, 2 * 2**30)
    assert last.seconds == pytest.approx(5001 * 0.25)
    assert run.status == "done"


@pytest.mark.parametrize(
    ("logged", "ours"),
    [("DGPM2", "rdm"), ("RDM", "rdm"), ("VREx", "vrex"), ("GroupDRO", "groupdro"),
     ("CausIRL_CORAL", "causirl"), ("CausIRL_MMD", "causirl mmd"), ("SagNet", "sagnet"),
     ("ERMPlusPlus", "erm-plus-plus"), ("Sideways", "Sideways")],
)  # fmt: skip
def test_algorithms_map_to_methods(tmp_path, logged, ours):
    write(tmp_path, [line(0, FLAT, algorithm=logged)])
    assert variant(only(tmp_path).config) == ours


@pytest.mark.parametrize(
    ("algorithm", "hparams", "expected"),
    [
        ("RDM", {"rdm_lambda": 5.0, "rdm_penalty_anneal_iters": 60}, 59),
        ("VREx", {"vrex_penalty_anneal_iters": 10_000}, None),
        ("EQRM", {"eqrm_burnin_iters": 0}, 0),
        ("Sideways", {"penalty_anneal_iters": "soon"}, 0),
        ("Sideways", {"sag_penalty_anneal_iters": 7}, 6),
    ],
)
def test_methods_act_from_the_warm_up_of_the_log(tmp_path, algorithm, hparams, expected):
    """There an evaluation at step s follows s + 1 updates."""
    write(tmp_path, [line(0, FLAT, algorithm=algorithm, hparams=hparams)])
    run = only(tmp_path)
    assert acts_from(run.config) == expected
    records.write(tmp_path / "runs", run)
    assert acts_from(records.read(tmp_path / "runs").config) == expected


def test_every_method_and_data_set_is_mapped():
    for name, cls in methods().items():
        for algorithm, fixed in cls.domainbed.items() or [(cls.title, {})]:
            assert method_of(algorithm) == (name, fixed)
    assert {name: DATASETS[name].domains for name in DIGITS} == DIGITS


@pytest.mark.parametrize(
    ("dataset", "envs", "data", "domain"),
    [("VLCS", 4, "vlcs", "SUN09"), ("OfficeHome", 4, "officehome", "Product"),
     ("TerraIncognita", 4, "terraincognita", "location_43"), ("DomainNet", 6, "domainnet", "paint"),
     ("ColoredMNIST", 3, "colored-mnist", "0.9"), ("RotatedMNIST", 6, "rotated-mnist", "30"),
     ("SVIRO", 10, "SVIRO", "env2")],
)  # fmt: skip
def test_environments_map_to_domains(tmp_path, dataset, envs, data, domain):
    write(tmp_path, [line(0, [(0.5, 0.5)] * envs, (2,), dataset=dataset)])
    config = only(tmp_path).config
    assert (config.data, config.test_domains) == (data, (domain,))


def test_several_runs_in_one_file(tmp_path):
    lines = [line(s, FLAT, [0], real_test_envs=[t]) for t in range(4) for s in (0, 300)]
    write(tmp_path, lines)
    sweep = read_domainbed(tmp_path)
    assert [len(run.evaluations) for run in sweep.runs] == [2] * 4
    assert len({run.config.test_domains for run in sweep.runs}) == 4


def test_keys_without_suffix_and_a_single_test_environment(tmp_path):
    entry = line(0, FLAT)
    short = {key.removesuffix("_acc"): value for key, value in entry.items()}
    short["args"] = {"algorithm": "ERM", "dataset": "PACS", "test_env": 1}
    write(tmp_path, [short | {"train_out": 0.9, "hparams": None}])
    run = only(tmp_path)
    assert run.config.test_domains == ("cartoon",)
    assert len(run.evaluations[0].scores) == 4


def test_splits_that_a_fork_does_not_evaluate(tmp_path):
    entries = [line(s, FLAT) for s in (0, 300)]
    for entry in entries:
        for env in (1, 2, 3):
            del entry[f"env{env}_in_acc"]
    write(tmp_path, entries)
    assert choose([only(tmp_path)], "train-val")[0].value == 0.5


@pytest.mark.parametrize(
    ("done", "last", "steps", "status"),
    [(True, 300, None, "done"), (False, 300, None, "unfinished"),
     (False, 5000, None, "done"), (False, 300, 301, "done")],
)  # fmt: skip
def test_run_is_done_by_its_marker_or_its_last_step(tmp_path, done, last, steps, status):
    write(tmp_path, [line(last, FLAT, steps=steps)], done)
    assert only(tmp_path).status == status


def damaged(tmp_path, content):
    """A tree with a good run and a damaged file."""
    write(tmp_path / "good", [line(0, FLAT)])
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "results.jsonl").write_bytes(content)
    return tmp_path


def as_bytes(*entries):
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)


def other(step, accuracies=FLAT, **args):
    return line(step, accuracies, **{"seed": 9, **args})


def lacking(*path):
    """A line without the key at ``path``."""
    entry = inner = other(300)
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return entry


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", ": empty"),
        (b"\n \n", ": empty"),
        (bytes(range(256)) * 8, "not JSON"),
        (b"[1, 2]\n", ", line 1: not a JSON object"),
        (b'{"step": 1}\n', ", line 1: no args"),
        (b"[" * 100_000, ", line 1: not JSON"),
        (as_bytes(lacking("args", "dataset")), ", line 1: no args.dataset"),
        (as_bytes(lacking("args", "test_envs")), ", line 1: args.test_envs is None"),
        (as_bytes(other(0, test_envs=[])), ", line 1: args.test_envs is []"),
        (as_bytes(other(0, test_envs=[7])), ", line 1: no accuracy on the test domain env7"),
        (as_bytes(lacking("step")), ", line 1: no step"),
        (as_bytes(other(-3)), ", line 1: step is -3"),
        (as_bytes(other(0, [])), ", line 1: no accuracies"),
        (as_bytes(other(0, [(88.4, 0.5)])), ", line 1: env0_in_acc is 88.4, not in [0, 1]"),
        (as_bytes(other(0, hparams={"lr": -1.0})), ", line 1: lr must be positive, got -1.0."),
        (as_bytes(other(0, hparams={"lr": math.inf})), ", line 1: lr is inf"),
        (as_bytes(other(0, hparams={"lr": "fast"})), ", line 1: lr is 'fast'"),
        (as_bytes(other(0, seed=1.5)), ", line 1: seed is 1.5"),
    ],
)
def test_file_without_a_valid_line_is_reported(tmp_path, content, reason):
    tree = damaged(tmp_path, content)
    (fault,) = reasons(tree)
    assert fault.startswith("bad/results.jsonl")
    assert fault.endswith(reason)
    assert [run.config.seed for run in read_domainbed(tree).runs] == [0]


def test_incomplete_last_line_is_skipped(tmp_path):
    whole = as_bytes(other(0), other(300), other(600))
    tree = damaged(tmp_path, whole[:-40])
    assert reasons(tree) == ["bad/results.jsonl, line 3: incomplete: the file ends within a line"]
    assert sorted(len(run.evaluations) for run in read_domainbed(tree).runs) == [1, 2]
    (tree / "bad" / "results.jsonl").write_bytes(whole[:-1])  # only the newline is missing
    assert reasons(tree) == []


def test_damaged_lines_are_skipped(tmp_path):
    tree = damaged(tmp_path, as_bytes(other(0)) + b"\x00\xff\n" * 5 + as_bytes(other(300)))
    assert reasons(tree) == ["bad/results.jsonl, lines 2, 3, 4 …: not JSON"]
    assert sorted(len(run.evaluations) for run in read_domainbed(tree).runs) == [1, 2]


def test_line_without_an_accuracy_is_skipped(tmp_path):
    entries = [other(0), lacking("env2_out_acc"), other(600)]
    tree = damaged(tmp_path, as_bytes(*entries))
    assert reasons(tree) == ["bad/results.jsonl, line 2: no accuracy on photo val"]
    strange = other(300) | {"env9_in_acc": 0.9}
    (tree / "bad" / "results.jsonl").write_bytes(as_bytes(other(0), strange, other(600)))
    assert reasons(tree) == []
    assert len(choose(read_domainbed(tree).runs, "train-val")) == 2  # of two seeds


def test_nan_accuracies_are_kept_and_never_chosen(tmp_path):
    nan = [(math.nan, math.nan)] * 4
    write(tmp_path, [line(0, FLAT), line(300, nan)])
    sweep = read_domainbed(tmp_path)
    assert "line 2: an accuracy is not a number" in str(sweep.faults[0])
    (choice,) = choose(sweep.runs, "train-val")
    assert choice.step == 0
    assert choose(sweep.runs, "test-val") == []


def test_repeated_step_uses_the_later_line(tmp_path):
    write(tmp_path, [line(0, FLAT), line(300, FLAT), line(0, [(0.9, 0.9)] * 4)])
    sweep = read_domainbed(tmp_path)
    assert "line 1: ignored: the step is logged again below" in str(sweep.faults[0])
    assert [e.scores["photo"]["val"].metrics["accuracy"] for e in sweep.runs[0].evaluations] == [
        0.9,
        0.5,
    ]


def test_repeated_run_uses_the_longer_log(tmp_path):
    write(tmp_path / "a", [line(0, FLAT)])
    write(tmp_path / "b", [line(0, FLAT), line(300, FLAT)])
    write(tmp_path / "c", [line(0, FLAT), line(300, FLAT)])
    (run,) = read_domainbed(tmp_path).runs
    assert len(run.evaluations) == 2
    faults = reasons(tmp_path)
    assert [text.split(":")[0] for text in faults] == ["a/results.jsonl", "c/results.jsonl"]
    assert all(text.endswith(f"b{os.sep}results.jsonl") for text in faults)


def test_unreadable_file_is_reported(tmp_path):
    write(tmp_path / "good", [line(0, FLAT)])
    (tmp_path / "bad" / "results.jsonl").mkdir(parents=True)
    assert reasons(tmp_path) == ["bad/results.jsonl: Is a directory"]


def test_records_round_trip_and_are_written_once(tmp_path):
    random_sweep(tmp_path / "sweep", trials=1, draws=1)
    before = {p: p.read_bytes() for p in (tmp_path / "sweep").rglob("*") if p.is_file()}
    runs = read_domainbed(tmp_path / "sweep").runs
    assert write_runs(runs, tmp_path / "runs") == len(runs) == 10
    assert write_runs(runs, tmp_path / "runs") == 0
    back = records.read_all(tmp_path / "runs")
    assert per_domain_table(back, "pacs") == per_domain_table(runs, "pacs")
    assert [run.config for run in back] == [run.config for run in runs]
    assert {p.name for p in (tmp_path / "runs").iterdir()} == {run.config.id for run in runs}
    after = {p: p.read_bytes() for p in (tmp_path / "sweep").rglob("*") if p.is_file()}
    assert after == before


def test_continued_sweep_is_updated(tmp_path):
    write(tmp_path / "sweep", [line(0, FLAT)], done=False)
    write_runs(read_domainbed(tmp_path / "sweep").runs, tmp_path / "runs")
    write(tmp_path / "sweep", [line(0, FLAT), line(300, FLAT)])
    assert write_runs(read_domainbed(tmp_path / "sweep").runs, tmp_path / "runs") == 1
    (run,) = records.read_all(tmp_path / "runs")
    assert (len(run.evaluations), run.status) == (2, "done")


AUTHORS = {
    "art_painting": "88.4 ± 0.2",
    "cartoon": "81.3 ± 1.6",
    "photo": "97.1 ± 0.1",
    "sketch": "81.8 ± 1.1",
}


def authors_logs():
    root = Path(os.environ.get("RISKMATCH_DATA", "")) / "authors-logs" / "PACS"
    if "RISKMATCH_DATA" not in os.environ or not root.exists():
        pytest.skip("authors-logs is not there: set RISKMATCH_DATA")
    return root


@pytest.mark.needs_data
def test_authors_logs_give_the_row_of_the_paper(tmp_path):
    sweep = read_domainbed(authors_logs())
    assert (len(sweep.runs), sweep.faults) == (40, ())
    table = per_domain_table(sweep.runs, "pacs")
    (row,) = (row for row in table.rows if row[0] == "RDM")
    assert dict(zip(table.columns[1:5], map(str, row[1:5]), strict=True)) == AUTHORS
    assert f"{row[5]:.1f}" == "87.2"
    assert "Draws: 5. Trials: 2, each with hyper-parameters drawn anew" in table.caption


@pytest.mark.needs_data
def test_missing_run_of_the_authors_logs_is_named(tmp_path):
    first = next(p for p in sorted(authors_logs().rglob("results.jsonl")))
    shutil.copytree(authors_logs(), tmp_path / "logs", copy_function=shutil.copyfile)
    gone = only(first.parent).config
    (tmp_path / "logs" / first.relative_to(authors_logs())).unlink()
    caption = per_domain_table(read_domainbed(tmp_path / "logs").runs, "pacs").caption
    assert f"RDM on {gone.test_domains[0]} 1 of 10 runs (trial {gone.trial})" in caption


@pytest.mark.parametrize(
    "change",
    [
        lambda values: {**values, "mem_gb": 1e308},
        lambda values: {**values, "args": {**values["args"], "dataset": "\ud800"}},
        lambda values: {**values, "args": {**values["args"], "test_envs": nested(900)}},
        lambda values: {**values, "hparams": {"deep": nested(900)}},
        lambda values: {**values, "step": 10**400},
        lambda values: {**values, "step": 10**30},
        lambda values: {**values, "args": {**values["args"], "steps": 10**30}},
        lambda values: {**values, "\udc80": 1.0},
    ],
)
def test_line_with_values_that_no_run_logs_is_left_out(tmp_path, change):
    good = line(0, FLAT)
    write(tmp_path / "a", [good, change(line(300, FLAT)), line(600, FLAT)])
    (run,) = read_domainbed(tmp_path).runs
    assert [evaluation.step for evaluation in run.evaluations] == [0, 600]
    assert "line 2" in str(read_domainbed(tmp_path).faults[0])
    assert write_runs([run], tmp_path / "out") == 1


def nested(depth):
    value = 0
    for _ in range(depth):
        value = [value]
    return value


def test_line_without_end_is_not_read_into_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(domainbed, "MAX_LINE", 10_000)
    (tmp_path / "results.jsonl.gz").write_bytes(gzip.compress(bytes(20_000)))
    assert "more than 10,000 bytes" in str(read_domainbed(tmp_path).faults[0])


def test_sweeps_are_converted_and_tabled_without_torch(tmp_path):
    random_sweep(tmp_path / "sweep", trials=1, draws=1)
    code = (
        "import sys, riskmatch.cli.app as app; code = app.main(sys.argv[1:]);"
        "sys.exit(code or 9 * ('torch' in sys.modules))"
    )
    words = [sys.executable, "-c", code, "import", "domainbed", "sweep", "--out", "runs"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "PACS" in done.stdout
