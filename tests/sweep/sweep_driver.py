"""Kill and share sweeps: `sweep_driver.py OUT` prints one JSON object.

Each process that runs a sweep is forked, so that torch is imported once, and ended with SIGKILL,
which it cannot handle.
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
from riskmatch.sweep.launchers import Local
from riskmatch.sweep.plan import FILE
from riskmatch.sweep.run import run_sweep

KILLS = {3: 1, 7: 1, 11: 1, 15: 2, 19: 1}
"""Number of jobs, by the number of finished runs after which the process is killed."""


def start(function):
    """Fork a process that calls the function and exits with what that returns."""
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


def kill_repeatedly(folder, rng):
    """Return the exit codes of the processes of a sweep, of which only the last is not killed."""
    codes = []
    for enough, jobs in KILLS.items():
        pid = start(lambda jobs=jobs: riskmatch(["sweep", "run", str(folder), "--jobs", str(jobs)]))
        while finished(folder) < enough:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.05))
        os.kill(pid, signal.SIGKILL)
        codes.append(exit_code(pid))
    pid = start(lambda: riskmatch(["sweep", "run", str(folder), "--jobs", "1"]))
    return [*codes, exit_code(pid)]


def share(folder):
    """Count the runs that each of two simultaneous processes trained."""
    together = multiprocessing.get_context("fork").Barrier(2)

    def work(number):
        started = []

        def on_change(board):
            if not started:
                started.append(together.wait())

        board = run_sweep(folder, Local(jobs=1), on_change=on_change)
        own = len(board.done) - len(board.finished_elsewhere)
        (folder / f"{number}.json").write_text(json.dumps({"done": len(board.done), "own": own}))
        return 0

    pids = [start(lambda number=number: work(number)) for number in range(2)]
    assert [exit_code(pid) for pid in pids] == [0, 0]
    return [json.loads((folder / f"{number}.json").read_text()) for number in range(2)]


def main(out):
    folders = {name: out / name for name in ("whole", "killed", "shared")}
    assert exit_code(start(lambda: riskmatch(plan(folders["whole"])))) == 0
    for name in ("killed", "shared"):
        folders[name].mkdir()
        shutil.copy(folders["whole"] / FILE, folders[name])
    whole = ["sweep", "run", str(folders["whole"]), "--jobs", "1", "--quiet"]
    assert exit_code(start(lambda: riskmatch(whole))) == 0
    codes = kill_repeatedly(folders["killed"], random.Random(0))
    print(json.dumps({"codes": codes, "shared": share(folders["shared"])}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
