import multiprocessing
import os
import signal
import time

import pytest

from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.lock import held, lock
from riskmatch.sweep.plan import PlannedRun
from riskmatch.sweep.running import reopen, run_all
from riskmatch.sweep.status import status_of
from riskmatch.sweep.worker import Ended, put_failure_on_file


def tiny(method="erm", seed=0, **changes):
    settings = {"steps": 20, "eval_every": 10, "data_options": {"samples": 40}, **changes}
    return RunConfig(
        "colored-digits", ("0.1",), method, seed=seed, model_options={"widths": [4]}, **settings
    )


def long(seed):
    """Long enough for word to come before the end."""
    return tiny(seed=seed, steps=1500, eval_every=750)


RUNS = [tiny("rdm", pretrain=10, hparams={"warmup": 0}), tiny("vrex", pretrain=10), tiny()]
BAD = tiny("vrex", hparams={"wieght": 1.0})


def test_every_run_and_its_phase_ends_on_file(tmp_path):
    seen = []
    board = run_all(RUNS, tmp_path, jobs=1, on_change=lambda b: seen.append(b.seconds_left))
    assert (len(board.done), board.failed, board.waiting) == (4, {}, [])
    assert [records.read(tmp_path / run.id).status for run in RUNS] == ["done"] * 3
    assert len(list(tmp_path.iterdir())) == 4  # two methods, one phase
    assert seen[0] > 0
    assert seen[-1] == 0
    assert run_all(RUNS, tmp_path, jobs=1).done == board.done


def test_a_failure_is_told_and_the_others_go_on(tmp_path):
    board = run_all([BAD, tiny(), tiny(seed=1)], tmp_path, jobs=1)
    assert len(board.done) == 2
    assert "Unknown hyper-parameter of vrex 'wieght'" in board.failed[BAD.id]


def strike(board):
    if board.steps and not board.interrupted:
        raise KeyboardInterrupt


def test_an_interrupt_leaves_a_checkpoint_and_the_next_call_goes_on(tmp_path):
    runs = [long(0), tiny(seed=1), tiny(seed=2)]
    board = run_all(runs, tmp_path, jobs=1, on_change=strike)
    assert board.interrupted
    assert len(board.waiting) == 3
    assert [path.stem for path in tmp_path.glob("*/checkpoints/*")] == [
        f"{board.steps[runs[0].id]:08d}"
    ]
    assert len(run_all(runs, tmp_path, jobs=1).done) == 3


def test_the_same_in_processes_one_of_which_dies(tmp_path):
    runs = [BAD, long(3), *RUNS, tiny(seed=1)]
    board = run_all(runs, tmp_path, jobs=2, on_change=strike)
    assert board.interrupted
    assert board.waiting
    assert not multiprocessing.active_children()
    killed = []

    def kill(board):
        if BAD.id in board.failed and board.running and not killed:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    board = run_all(runs, tmp_path, jobs=2, on_change=kill)
    died = [why for why in board.failed.values() if "died with exit code -9" in why]
    assert len(died) == 1
    assert "Unknown hyper-parameter" in board.failed[BAD.id]
    board = run_all(runs, tmp_path, jobs=1)
    assert (len(board.done), list(board.failed)) == (6, [BAD.id])


def kill_workers():
    for process in multiprocessing.active_children():
        os.kill(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("when", ["before the first record", "between steps"])
def test_a_run_whose_process_dies_is_on_file_as_failed_until_it_is_tried_again(tmp_path, when):
    runs, killed = [long(0), long(1)], []

    def kill(board):
        begun = board.running if when == "before the first record" else board.steps
        if begun and not killed:
            killed.append(list(tmp_path.glob(f"*/{records.FILE}")))
            kill_workers()

    board = run_all(runs, tmp_path, jobs=2, on_change=kill)
    assert bool(killed[0]) == (when == "between steps")
    assert board.failed
    assert all(
        "died with exit code -9, as when memory runs out" in w for w in board.failed.values()
    )
    status = status_of([PlannedRun(run, "") for run in runs], tmp_path)
    assert (status.failed, status.total["waiting"]) == (board.failed, 0)
    assert run_all(runs, tmp_path, jobs=2, retry=False).failed == board.failed
    assert len(run_all(runs, tmp_path, jobs=2, retry=True).done) == 2


def test_a_run_whose_process_dies_is_left_to_another_that_took_it_meanwhile(tmp_path):
    runs, taken, left = [long(0), tiny(seed=1)], [], []
    other = lock(tmp_path / runs[0].id)

    def take(board):
        if runs[0].id in board.steps and not taken:
            kill_workers()
            while held(tmp_path / runs[0].id):
                time.sleep(0.01)
            taken.append(other.__enter__())
        elif runs[0].id in board.elsewhere and not left:
            left.append(records.read(tmp_path / runs[0].id).status)
            other.__exit__(None, None, None)

    board = run_all(runs, tmp_path, jobs=2, on_change=take)
    assert left == ["unfinished"]
    assert runs[0] in board.done


def test_a_failure_is_put_on_file_after_what_is_whole_there(tmp_path):
    run = tiny()
    records.start(tmp_path / run.id, run)
    with (tmp_path / run.id / records.FILE).open("a") as file:
        file.write('{"kind": "evalu')
    assert put_failure_on_file(tmp_path, run, "no luck") == Ended("failed", "no luck")
    found = records.read(tmp_path / run.id)
    assert (found.status, found.error) == ("failed", "no luck")
    assert put_failure_on_file(tmp_path, run, "again") == Ended("failed", "no luck")


def test_a_failure_is_none_where_another_brought_the_run_to_its_end(tmp_path):
    run = tiny()
    records.start(tmp_path / run.id, run)
    records.end(tmp_path / run.id, "done")
    assert put_failure_on_file(tmp_path, run, "no luck") == Ended("done")
    assert records.read(tmp_path / run.id).status == "done"


def test_a_failure_that_cannot_be_put_on_file_is_told_all_the_same(tmp_path):
    (tmp_path / "out").write_text("no folder")
    found = put_failure_on_file(tmp_path / "out", tiny(), "no luck")
    assert found == Ended("failed", "no luck")


def test_a_failure_stays_on_file_until_it_is_to_be_tried_again(tmp_path):
    board = run_all([BAD, tiny()], tmp_path, jobs=1)
    why = records.read(tmp_path / BAD.id).error
    assert why == board.failed[BAD.id]
    seen = []
    board = run_all([BAD, tiny()], tmp_path, jobs=1, retry=False, on_change=seen.append)
    assert board.failed == {BAD.id: why}
    assert len(seen) == 2  # before and after nothing
    reopen([BAD], tmp_path)
    assert records.read(tmp_path / BAD.id).status == "unfinished"


def test_a_run_that_another_process_holds_is_left_to_it_and_noted_when_it_ends(tmp_path):
    theirs, ours = tiny(seed=1), tiny(seed=2)
    (tmp_path / theirs.id).mkdir()
    freed = []

    def end(board):
        if not freed and ours in board.done:
            records.start(tmp_path / theirs.id, theirs)
            records.end(tmp_path / theirs.id, "done")
            freed.append(other.__exit__(None, None, None))

    other = lock(tmp_path / theirs.id)
    other.__enter__()
    board = run_all([theirs, ours], tmp_path, jobs=1, on_change=end)
    assert board.done == [ours, theirs]
    assert board.others == {theirs.id}
    assert not records.read(tmp_path / theirs.id).evaluations


def test_a_run_that_another_process_leaves_unfinished_is_taken_over(tmp_path):
    run = tiny()
    (tmp_path / run.id).mkdir()
    other = lock(tmp_path / run.id)
    other.__enter__()

    def die(board):
        if board.elsewhere:
            other.__exit__(None, None, None)

    board = run_all([run], tmp_path, jobs=1, on_change=die)
    assert (board.done, board.others) == ([run], set())
    assert records.read(tmp_path / run.id).status == "done"
