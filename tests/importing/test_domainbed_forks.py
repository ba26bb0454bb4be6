"""What trees of DomainBed's forks hold: links, packed and missing logs, arguments of their own."""

import gzip

import pytest
from domainbed_tree import line, write
from made_records import choose

from riskmatch.importing.domainbed import read_domainbed

FLAT = [(0.5, 0.5)] * 4


def read(tree):
    """The runs, and what was said besides."""
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
def test_a_run_is_done_when_it_would_not_be_evaluated_again(tmp_path, logged, last, args, status):
    write(tmp_path, [line(step, FLAT, **args) for step in (*logged, last)], done=False)
    ((run,), _) = read(tmp_path)
    assert run.status == status


def test_a_packed_log_is_read(tmp_path):
    path = write(tmp_path / "a", [line(0, FLAT), line(300, FLAT)])
    packed = path.with_name("results.jsonl.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    for source in tmp_path, packed:
        ((run,), told) = read(source)
        assert (len(run.evaluations), run.status, told) == (2, "done", [])
    packed.write_bytes(packed.read_bytes()[:-20])
    (runs, (told,)) = read(tmp_path)
    assert runs == ()
    assert told.startswith("a/results.jsonl.gz: cannot be unpacked: ")


def test_links_are_followed_once(tmp_path):
    tree, elsewhere = tmp_path / "tree", tmp_path / "elsewhere"
    write(elsewhere / "x", [line(0, FLAT, (1,))])
    write(tree / "a", [line(0, FLAT, (0,))])
    (tree / "linked").symlink_to(elsewhere)
    (tree / "again").symlink_to(elsewhere / "x")
    (tree / "a" / "up").symlink_to(tree)
    runs, told = read(tree)
    assert {run.config.test_domains for run in runs} == {("art_painting",), ("cartoon",)}
    assert told == []


def test_a_run_that_crashed_at_once_is_named(tmp_path):
    write(tmp_path / "good", [line(0, FLAT)])
    (tmp_path / "good" / "out.txt").touch()
    (tmp_path / "notes").mkdir()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "err.txt").write_text("CUDA out of memory\n")
    runs, told = read(tmp_path)
    assert len(runs) == 1
    assert told == ["bad: left out: no results.jsonl; the run crashed, or has just begun"]


def test_runs_that_differ_in_an_argument_of_a_fork_are_two(tmp_path):
    for name, value, accuracy in ("a", 0.1, 0.3), ("b", 1.0, 0.7):
        write(tmp_path / name, [line(0, [(accuracy, accuracy)] * 4, my_lambda=value)])
    runs, told = read(tmp_path)
    assert told == []
    assert sorted(run.config.hparams["args.my_lambda"] for run in runs) == [0.1, 1.0]
    (choice,) = choose(runs, "train-val")
    assert (choice.accuracy, choice.draws) == (0.7, 2)


@pytest.mark.parametrize(
    "args",
    [
        {"output_dir": "other", "data_dir": "other", "checkpoint_freq": 100},
        {"skip_model_save": True, "save_model_every_checkpoint": True, "save_best": True},
        {"job_id": 7, "hostname": "node7", "wandb_project": "x", "gpu": 3, "log_dir": "x"},
        {"my_lambda": None},
    ],
)
def test_where_and_how_files_are_written_makes_no_other_run(tmp_path, args):
    write(tmp_path / "a", [line(0, FLAT), line(300, FLAT)])
    write(tmp_path / "b", [line(0, FLAT, **args)])
    runs, (told,) = read(tmp_path)
    assert len(runs) == 1
    assert told.startswith("b/results.jsonl: the same run as in")


def test_pairs_of_a_draw_are_found_whatever_arguments_a_fork_adds(tmp_path):
    for number, tests in enumerate([(0,), (0, 1), (0, 2), (0, 3)]):
        write(tmp_path / str(number), [line(0, FLAT, tests, fold=number, seed=number)])
    (choice,) = choose(read(tmp_path)[0], "leave-one-out")
    assert choice.score == 0.5


def test_a_run_that_went_on_for_more_steps_is_one(tmp_path):
    before = [line(step, FLAT, steps=601) for step in (0, 300, 600)]
    after = [line(step, FLAT, steps=1201) for step in (900, 1200)]
    write(tmp_path / "a", before + after, done=False)
    ((run,), told) = read(tmp_path)
    assert (run.config.steps, len(run.evaluations), run.status) == (1201, 5, "done")
    assert told == []
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
def test_test_environments_are_read_however_they_are_written(tmp_path, args, domains):
    write(tmp_path, [line(0, FLAT) | {"args": {"algorithm": "ERM", "dataset": "PACS", **args}}])
    ((run,), told) = read(tmp_path)
    assert (run.config.test_domains, told) == (domains, [])


@pytest.mark.parametrize("said", [[True], [-1], [0.5], ["inf"], ["photo"], [[]], [None]])
def test_what_is_no_environment_is_refused(tmp_path, said):
    write(tmp_path, [line(0, FLAT, said)])
    assert read(tmp_path) == ((), [f"results.jsonl, line 1: args.test_envs is {said!r}"])


def test_what_never_trains_has_a_rate_of_zero(tmp_path):
    write(tmp_path / "a", [line(0, FLAT, hparams={"lr": 0.0}, algorithm="ZeroShot")])
    write(tmp_path / "b", [line(0, FLAT, hparams={"lr": 1e-3}, algorithm="ZeroShot")])
    runs, told = read(tmp_path)
    assert (sorted(run.config.hparams["lr"] for run in runs), told) == ([0.0, 1e-3], [])
