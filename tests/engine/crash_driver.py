"""Kill runs and continue them: `crash_driver.py OUT KILLS` prints one JSON object.

Each attempt is a process of its own, forked so that torch is imported once, and ended by SIGKILL.
This process takes no training step itself, so that a fork starts like a fresh process after its
imports.
"""

import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

# Imported before the forks, or every process would import them.
import sklearn.datasets  # noqa: F401
import torch._dynamo  # noqa: F401
from tiny_runs import HPARAMS, tiny

from riskmatch import files
from riskmatch.engine.run import train


def attempt(config, out, fatal_sync=None):
    """Start a process that continues the run; it may kill itself at its n-th fsync."""
    pid = os.fork()
    if pid:
        return pid
    try:
        if fatal_sync is not None:
            die_at_sync(fatal_sync)
        train(config, out, resume=True, checkpoint_every=7)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def die_at_sync(number):
    syncs = iter(range(1, 1 << 30))
    sync = os.fsync

    def fsync(file):
        if next(syncs) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        sync(file)

    files.os.fsync = fsync


def killed(pid):
    """Wait for the end of a process; return whether it was killed."""
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        sys.exit("a run failed")
    return os.WIFSIGNALED(status)


def at_random_moments(config, out, kills, rng):
    """Kill a run this often, then let it end; if it ends sooner, start another one."""
    begun = time.monotonic()
    assert not killed(attempt(config, out / "whole"))
    duration = time.monotonic() - begun
    attempts = 0
    while kills:
        attempts += 1
        ended = False
        while not ended:
            pid = attempt(config, out / f"run {attempts}")
            if kills:
                time.sleep(rng.uniform(0, duration))
                os.kill(pid, signal.SIGKILL)
            ended = not killed(pid)
            kills -= not ended
    return attempts


def at_every_sync(config, out):
    """Kill a run at its first fsync, another at its second, and so on; then continue each."""
    number = 1
    while killed(attempt(config, out / f"sync {number}", number)):
        assert not killed(attempt(config, out / f"sync {number}"))
        number += 1
    return number - 1


def main(out, kills):
    rng = random.Random(0)
    attempts = {
        method: at_random_moments(tiny(method), out / method, kills, rng) for method in HPARAMS
    }
    short = tiny(steps=12, eval_every=4)
    assert not killed(attempt(short, out / "short" / "whole"))
    print(json.dumps({"runs": attempts, "syncs": at_every_sync(short, out / "short")}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
