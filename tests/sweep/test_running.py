import multiprocessing
import os
import signal

from riskmatch import records
from riskmatch.config import RunConfig
from riskmatch.sweep.running import run_all


def tiny(method="erm", seed=0, **changes):
    return RunConfig(
        "colored-digits",
        ("0.1",),
        method,
        steps=20,
        eval_every=10,
        seed=seed,
        model_options={"widths": [4]},
        data_options={"samples": 40},
        **changes,
    )


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
    if any(step >= 5 for step in board.steps.values()) and not board.interrupted:
        raise KeyboardInterrupt


def test_an_interrupt_leaves_a_checkpoint_and_the_next_call_goes_on(tmp_path):
    runs = [tiny(seed=k) for k in range(3)]
    board = run_all(runs, tmp_path, jobs=1, on_change=strike)
    assert board.interrupted
    assert len(board.waiting) == 3
    assert [path.stem for path in tmp_path.glob("*/checkpoints/*")] == ["00000005"]
    assert len(run_all(runs, tmp_path, jobs=1).done) == 3


def test_the_same_in_processes_one_of_which_dies(tmp_path):
    runs = [BAD, *RUNS, *(tiny(seed=k) for k in (1, 2))]
    board = run_all(runs, tmp_path, jobs=2, on_change=strike)
    assert board.interrupted
    assert board.waiting
    assert not multiprocessing.active_children()
    killed = []

    def kill(board):
        if board.running and not killed:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    board = run_all(runs, tmp_path, jobs=2, on_change=kill)
    died = [why for why in board.failed.values() if "died with exit code -9" in why]
    assert len(died) == 1
    assert "Unknown hyper-parameter" in board.failed[BAD.id]
    board = run_all(runs, tmp_path, jobs=1)
    assert (len(board.done), list(board.failed)) == (6, [BAD.id])
