"""Sweeps of DomainBed's forks: links, compressed and missing logs, further arguments."""

import gzip

import pytest
from domainbed_tree import line, write
from made_records import choose

from riskmatch.runs.domainbed import read_domainbed

FLAT = [(0.5, 0.5)] * 4


def read(tree):
    """Runs and faults."""
    sweep = read_domainbed(tree)
    return sweep.runs, [str(fault).replace(f"{tree}/", "") for fault in sweep.faults]


@pytest.mark.parametrize(
    ("logged", "last", "args", "status"),
    [
        ((0, 300, 600), 900, {"steps": 1001}, "done"),  # DomainBed once logged no last step
        ((0, 300), 600, {"steps": 1001}, "unfinished"),
        ((0, 300, 600), 900, {"steps": 1200}, "done"),
        ((0, 300, 600), 900, {"steps": 1201}, "unfinished"),
        ((700, 800), 900, {"steps": 1101}, "unfinished"),  # more often than it says
        ((), 900, {"steps": 1001, "checkpoint_freq": 50}, "unfinished"),
        ((), 0, {"steps": 1}, "done"),
    ],
)
def test_run_is_done_when_no_evaluation_is_due(tmp_path, logged, last, args, status):
    write(tmp_path, [line(step, FLAT, **args) for step in (*logged, last)], done=False)
    ((run,), _) = read(tmp_path)
    assert run.status == status


def test_compressed_log_is_read(tmp_path):
    path = write(tmp_path / "a", [line(0, FLAT), line(300, FLAT)])
    packed = path.with_name("results.jsonl.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    for source in tmp_path, packed:
        ((run,), faults) = read(source)
        assert (len(run.evaluations), run.status, faults) == (2, "done", [])
    packed.write_bytes(packed.read_bytes()[:-20])
    (runs, (faults,)) = read(tmp_path)
    assert runs == ()
    assert faults.startswith("a/results.jsonl.gz: cannot be decompressed: ")


def test_links_are_followed_once(tmp_path):
    tree, elsewhere = tmp_path / "tree", tmp_path / "elsewhere"
    write(elsewhere / "x", [line(0, FLAT, (1,))])
    write(tree / "a", [line(0, FLAT, (0,))])
    (tree / "linked").symlink_to(elsewhere)
    (tree / "again").symlink_to(elsewhere / "x")
    (tree / "a" / "up").symlink_to(tree)
    runs, faults = read(tree)
    assert {run.config.test_domains for run in runs} == {("art_painting",), ("cartoon",)}
    assert faults == []


def test_crashed_run_without_log_is_reported(tmp_path):
    write(tmp_path / "good", [line(0, FLAT)])
    (tmp_path / "good" / "out.txt").touch()
    (tmp_path / "notes").mkdir()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "err.txt").write_text("CUDA out of memory\n")
    runs, faults = read(tmp_path)
    assert len(runs) == 1
    assert faults == ["bad: left out: no results.jsonl; the run crashed or has just begun"]


def test_argument_of_a_fork_makes_another_run(tmp_path):
    for name, value, accuracy in ("a", 0.1, 0.3), ("b", 1.0, 0.7):
        write(tmp_path / name, [line(0, [(accuracy, accuracy)] * 4, my_lambda=value)])
    runs, faults = read(tmp_path)
    assert faults == []
    assert sorted(run.config.hparams["args.my_lambda"] for run in runs) == [0.1, 1.0]
    (choice,) = choose(runs, "train-val")
    assert (choice.value, choice.draws) == (0.7, 2)


@pytest.mark.parametrize(
    "args",
    [
        {"output_dir": "other", "data_dir": "other", "checkpoint_freq": 100},
        {"skip_model_save": True, "save_model_every_checkpoint": True, "save_best": True},
        {"job_id": 7, "hostname": "node7", "wandb_project": "x", "gpu": 3, "log_dir": "x"},
        {"my_lambda": None},
    ],
)
def test_irrelevant_arguments_do_not_make_another_run(tmp_path, args):
    write(tmp_path / "a", [line(0, FLAT), line(300, FLAT)])
    write(tmp_path / "b", [line(0, FLAT, **args)])
    runs, (faults,) = read(tmp_path)
    assert len(runs) == 1
    assert faults.startswith("b/results.jsonl: left out: the same run as in")


def test_pairs_of_a_draw_match_despite_arguments_of_a_fork(tmp_path):
    for number, tests in enumerate([(0,), (0, 1), (0, 2), (0, 3)]):
        write(tmp_path / str(number), [line(0, FLAT, tests, fold=number, seed=number)])
    (choice,) = choose(read(tmp_path)[0], "leave-one-out")
    assert choice.score == 0.5


def test_run_continued_with_more_steps_is_one_run(tmp_path):
    before = [line(step, FLAT, steps=601) for step in (0, 300, 600)]
    after = [line(step, FLAT, steps=1201) for step in (900, 1200)]
    write(tmp_path / "a", before + after, done=False)
    ((run,), faults) = read(tmp_path)
    assert (run.config.steps, len(run.evaluations), run.status) == (1201, 5, "done")
    assert faults == []
    write(tmp_path / "b", before)  # in a folder of its own a shorter run is another
    assert sorted(run.config.steps for run in read(tmp_path)[0]) == [601, 1201]


@pytest.mark.parametrize(
    ("args", "domains"),
    [
        ({"test_envs": [0], "real_test_envs": None}, ("art_painting",)),
        ({"test_envs": ["1"]}, ("cartoon",)),
        ({"test_envs": "1"}, ("cartoon",)),
        ({"test_envs": [[3]]}, ("sketch",)),
        ({"test_envs": [[3, 2.0]]}, ("photo", "sketch")),
    ],
)
def test_test_environments_in_every_notation(tmp_path, args, domains):
    write(tmp_path, [line(0, FLAT) | {"args": {"algorithm": "ERM", "dataset": "PACS", **args}}])
    ((run,), faults) = read(tmp_path)
    assert (run.config.test_domains, faults) == (domains, [])


@pytest.mark.parametrize("envs", [[True], [-1], [0.5], ["inf"], ["photo"], [[]], [None]])
def test_invalid_environment_is_reported(tmp_path, envs):
    write(tmp_path, [line(0, FLAT, envs)])
    assert read(tmp_path) == ((), [f"results.jsonl, line 1: args.test_envs is {envs!r}"])


def test_algorithm_without_training_logs_a_rate_of_zero(tmp_path):
    write(tmp_path / "a", [line(0, FLAT, hparams={"lr": 0.0}, algorithm="ZeroShot")])
    write(tmp_path / "b", [line(0, FLAT, hparams={"lr": 1e-3}, algorithm="ZeroShot")])
    runs, faults = read(tmp_path)
    assert (sorted(run.config.hparams["lr"] for run in runs), faults) == ([0.0, 1e-3], [])
