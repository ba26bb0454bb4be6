import multiprocessing
import os
import signal
import threading
import time
from multiprocessing import forkserver

import numpy as np
import pytest

from riskmatch.objectives import VREx
from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.records import is_locked, lock
from riskmatch.sweep.board import RunOutcome, status_of
from riskmatch.sweep.launchers import Local, reopen, run_all
from riskmatch.sweep.plan import PlannedRun, extend
from riskmatch.sweep.run import plan_sweep, run_sweep, sweep_status
from riskmatch.sweep.worker import record_failure


def tiny(method="erm", seed=0, **changes):
    settings = {"steps": 20, "eval_every": 10, "data_options": {"samples": 40}, **changes}
    return RunConfig(
        "colored-digits", ("0.1",), method, seed=seed, model_options={"widths": [4]}, **settings
    )


def long(seed):
    """A run that takes long enough to report steps before its end."""
    return tiny(seed=seed, steps=1500, eval_every=750)


RUNS = [tiny("rdm", pretrain=10, hparams={"warmup": 0}), tiny("vrex", pretrain=10), tiny()]
BAD = tiny("vrex", hparams={"wieght": 1.0})
ONE, TWO = Local(jobs=1), Local(jobs=2)


def interrupt(board):
    if board.steps and not board.interrupted:
        raise KeyboardInterrupt


def kill_workers():
    for process in multiprocessing.active_children():
        os.kill(process.pid, signal.SIGKILL)


def test_all_runs_and_erm_phases_are_trained_once(tmp_path):
    seen = []
    board = run_all(RUNS, tmp_path, ONE, on_change=lambda b: seen.append(b.seconds_left))
    assert (len(board.done), board.failed, board.waiting) == (4, {}, [])
    assert [records.read(tmp_path / run.id).status for run in RUNS] == ["done"] * 3
    assert len(list(tmp_path.iterdir())) == 4  # two methods share an ERM phase
    assert seen[0] > 0
    assert seen[-1] == 0
    assert run_all(RUNS, tmp_path, ONE).done == board.done


def test_failure_does_not_stop_other_runs(tmp_path):
    board = run_all([BAD, tiny(), tiny(seed=1)], tmp_path, ONE)
    assert len(board.done) == 2
    assert "'wieght'" in board.failed[BAD.id]


def test_interrupt_writes_a_checkpoint_and_the_next_call_resumes(tmp_path):
    runs = [long(0), tiny(seed=1), tiny(seed=2)]
    board = run_all(runs, tmp_path, ONE, on_change=interrupt)
    assert board.interrupted
    assert len(board.waiting) == 3
    assert [path.stem for path in tmp_path.glob("*/checkpoints/*")] == [
        f"{board.steps[runs[0].id]:08d}"
    ]
    assert len(run_all(runs, tmp_path, ONE).done) == 3


def test_worker_processes_are_interrupted_killed_and_replaced(tmp_path):
    runs = [BAD, long(3), *RUNS, tiny(seed=1)]
    board = run_all(runs, tmp_path, TWO, on_change=interrupt)
    assert board.interrupted
    assert board.waiting
    assert not multiprocessing.active_children()
    killed = []

    def kill(board):
        if BAD.id in board.failed and board.running and not killed:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    board = run_all(runs, tmp_path, TWO, on_change=kill)
    died = [cause for cause in board.failed.values() if "exit code -9" in cause]
    assert len(died) == 1
    assert "'wieght'" in board.failed[BAD.id]
    board = run_all(runs, tmp_path, ONE)
    assert (len(board.done), list(board.failed)) == (6, [BAD.id])


@pytest.mark.parametrize("when", ["before the first record", "between steps"])
def test_run_of_a_dead_worker_is_recorded_as_failed_until_it_is_retried(tmp_path, when):
    runs, killed = [long(0), long(1)], []

    def kill(board):
        started = board.running if when == "before the first record" else board.steps
        if started and not killed:
            killed.append(list(tmp_path.glob(f"*/{records.FILE}")))
            kill_workers()

    board = run_all(runs, tmp_path, TWO, on_change=kill)
    assert bool(killed[0]) == (when == "between steps")
    assert board.failed
    assert all("exit code -9; if memory ran out" in cause for cause in board.failed.values())
    status = status_of([PlannedRun(run, "") for run in runs], tmp_path)
    assert (status.failed, status.total["waiting"]) == (board.failed, 0)
    assert run_all(runs, tmp_path, TWO, retry=False).failed == board.failed
    assert len(run_all(runs, tmp_path, TWO, retry=True).done) == 2


def test_run_of_a_dead_worker_is_left_to_a_process_that_locked_it(tmp_path):
    runs, taken, status = [long(0), tiny(seed=1)], [], []
    other = lock(tmp_path / runs[0].id)

    def take(board):
        if runs[0].id in board.steps and not taken:
            kill_workers()
            while is_locked(tmp_path / runs[0].id):
                time.sleep(0.01)
            taken.append(other.__enter__())
        elif runs[0].id in board.external and not status:
            status.append(records.read(tmp_path / runs[0].id).status)
            other.__exit__(None, None, None)

    board = run_all(runs, tmp_path, TWO, on_change=take)
    assert status == ["unfinished"]
    assert runs[0] in board.done


def test_recorded_failure_replaces_an_incomplete_line(tmp_path):
    run = tiny()
    records.start(tmp_path / run.id, run)
    with (tmp_path / run.id / records.FILE).open("a") as file:
        file.write('{"kind": "evalu')
    failed = RunOutcome("failed", "no memory")
    assert record_failure(tmp_path, run, "no memory") == failed
    record = records.read(tmp_path / run.id)
    assert (record.status, record.error) == ("failed", "no memory")
    assert record_failure(tmp_path, run, "again") == failed


def test_failure_is_not_recorded_for_a_run_that_is_done(tmp_path):
    run = tiny()
    records.start(tmp_path / run.id, run)
    records.end(tmp_path / run.id, "done")
    assert record_failure(tmp_path, run, "no memory") == RunOutcome("done")
    assert records.read(tmp_path / run.id).status == "done"


def test_failure_that_cannot_be_recorded_is_returned(tmp_path):
    (tmp_path / "out").write_text("not a folder")
    outcome = record_failure(tmp_path / "out", tiny(), "no memory")
    assert outcome == RunOutcome("failed", "no memory")


def test_failed_run_is_left_alone_until_it_is_reopened(tmp_path):
    board = run_all([BAD, tiny()], tmp_path, ONE)
    cause = records.read(tmp_path / BAD.id).error
    assert cause == board.failed[BAD.id]
    seen = []
    board = run_all([BAD, tiny()], tmp_path, ONE, retry=False, on_change=seen.append)
    assert board.failed == {BAD.id: cause}
    assert len(seen) == 2  # before and after nothing
    reopen([BAD], tmp_path)
    assert records.read(tmp_path / BAD.id).status == "unfinished"


def test_locked_run_is_left_to_its_process_and_counted_when_it_ends(tmp_path):
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
    board = run_all([theirs, ours], tmp_path, ONE, on_change=end)
    assert board.done == [ours, theirs]
    assert board.finished_elsewhere == {theirs.id}
    assert not records.read(tmp_path / theirs.id).evaluations


def test_run_that_another_process_leaves_unfinished_is_resumed(tmp_path):
    run = tiny()
    (tmp_path / run.id).mkdir()
    other = lock(tmp_path / run.id)
    other.__enter__()

    def release(board):
        if board.external:
            other.__exit__(None, None, None)

    board = run_all([run], tmp_path, ONE, on_change=release)
    assert (board.done, board.finished_elsewhere) == ([run], set())
    assert records.read(tmp_path / run.id).status == "done"


@pytest.mark.parametrize("test", ["0.1", 0.1, ["0.1"], [0.1]])
def test_plan_takes_one_method_and_one_domain(tmp_path, test):
    choices = {
        "steps": 5,
        "data_options": {"samples": np.int64(40)},
        "model_options": {"widths": [4]},
    }
    options = {"test_domains": test, "draws": 1, "trials": 1, "choices": choices}
    (run,) = plan_sweep(tmp_path, "colored-digits", "erm", **options).runs
    assert (run.config.method, run.config.test_domains) == ("erm", ("0.1",))


@pytest.mark.parametrize(
    ("data", "methods", "facts"),
    [
        ("colored-digits", VREx(), r"VREx\(.*'package.module:Class'"),
        ("colored-digits", ["erm", VREx()], r"VREx\(.*'package.module:Class'"),
        ({"A": None}, "erm", "data must be a name or a path.*got dict.*'package.module:function'"),
    ],
)
def test_plan_refuses_objects(tmp_path, data, methods, facts):
    with pytest.raises(TypeError, match=facts):
        plan_sweep(tmp_path, data, methods)


def test_sweep_is_run_inspected_and_retried_from_its_folder(tmp_path):
    extend(tmp_path, [PlannedRun(run, run.method) for run in (BAD, tiny())], "a test")
    assert run_sweep(tmp_path, ONE, retry=True).total == 0
    board = run_sweep(tmp_path, ONE)
    assert (board.done, list(board.failed)) == ([tiny()], [BAD.id])
    assert sweep_status(tmp_path).total == {"done": 1, "failed": 1}
    assert run_sweep(tmp_path, ONE).failed == board.failed
    assert run_sweep(tmp_path, ONE, retry=True).total == 1


def test_killed_helper_of_the_workers_is_replaced(tmp_path):
    """The helper is stopped before a worker is asked for, and killed while it is waited for."""
    killers = []

    def kill_helper(board):
        if not killers:
            helper = forkserver._forkserver._forkserver_pid
            os.kill(helper, signal.SIGSTOP)
            killers.append(threading.Timer(0.5, os.kill, (helper, signal.SIGKILL)))
            killers[0].start()

    board = run_all([tiny(), tiny(seed=1)], tmp_path, TWO, on_change=kill_helper)
    assert (len(board.done), board.failed) == (2, {})


def test_worker_that_dies_while_the_sweep_is_interrupted_does_not_fail_its_run(tmp_path):
    def interrupt(board):
        if board.running:
            for process in multiprocessing.active_children():
                os.kill(process.pid, signal.SIGKILL)
            raise KeyboardInterrupt

    board = run_all([tiny(), tiny(seed=1)], tmp_path, TWO, on_change=interrupt)
    assert (board.interrupted, len(board.waiting), board.failed) == (True, 2, {})
