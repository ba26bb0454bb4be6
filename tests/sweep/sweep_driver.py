"""Sweeps that are killed and shared: `sweep_driver.py OUT`, one JSON object on standard output.

Every life of a sweep is a process of its own, forked so that torch is imported once, and ended by
SIGKILL, which no process can answer.
"""

import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

# Imported before the forks: the first optimiser and the data would do it in every process.
import sklearn.datasets  # noqa: F401
import torch._dynamo  # noqa: F401
from sweeps import finished, plan

from riskmatch.cli import main as riskmatch
from riskmatch.sweep.plan import FILE, RUNS, read
from riskmatch.sweep.running import run_all

KILLS = {3: 1, 7: 1, 11: 1, 15: 2, 19: 1}
"""After how many finished runs a life ends, and how many runs it has at a time."""


def live(function):
    """Start a process that calls the function; its exit code is what that returns."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os._exit(function())
    except BaseException:
        traceback.print_exc()
        os._exit(99)


def exit_code(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed_again_and_again(folder, rng):
    """The exit codes of the lives of a sweep, the last of which comes to its end."""
    codes = []
    for enough, jobs in KILLS.items():
        pid = live(lambda jobs=jobs: riskmatch(["sweep", "run", str(folder), "--jobs", str(jobs)]))
        while finished(folder) < enough:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.05))
        os.kill(pid, signal.SIGKILL)
        codes.append(exit_code(pid))
    pid = live(lambda: riskmatch(["sweep", "run", str(folder), "--jobs", "1"]))
    return [*codes, exit_code(pid)]


def shared(folder):
    """How many runs each of two processes trained, who began at the same time."""
    together = multiprocessing.get_context("fork").Barrier(2)

    def work(number):
        begun = []

        def on_change(board):
            if not begun:
                begun.append(together.wait())

        board = run_all(
            [run.config for run in read(folder)], folder / RUNS, jobs=1, on_change=on_change
        )
        told = {"done": len(board.done), "own": len(board.done) - len(board.others)}
        (folder / f"{number}.json").write_text(json.dumps(told))
        return 0

    pids = [live(lambda number=number: work(number)) for number in range(2)]
    assert [exit_code(pid) for pid in pids] == [0, 0]
    return [json.loads((folder / f"{number}.json").read_text()) for number in range(2)]


def main(out):
    folders = {name: out / name for name in ("whole", "killed", "shared")}
    assert exit_code(live(lambda: riskmatch(plan(folders["whole"])))) == 0
    for name in ("killed", "shared"):
        folders[name].mkdir()
        shutil.copy(folders["whole"] / FILE, folders[name])
    whole = ["sweep", "run", str(folders["whole"]), "--jobs", "1", "--quiet"]
    assert exit_code(live(lambda: riskmatch(whole))) == 0
    codes = killed_again_and_again(folders["killed"], random.Random(0))
    print(json.dumps({"codes": codes, "shared": shared(folders["shared"])}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
