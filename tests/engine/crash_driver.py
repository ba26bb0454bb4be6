"""Kill runs and let them go on: `crash_driver.py OUT KILLS`, one JSON object on standard output.

Every life of a run is a process of its own. It is forked, so that torch is imported once, and ends
by SIGKILL, which no process can answer. This process takes no step itself: what it has in memory
when it forks is what a fresh process has after its imports.
"""

import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

# Imported before the forks: the first optimiser and the data would do it in every process.
import sklearn.datasets  # noqa: F401
import torch._dynamo  # noqa: F401
from tiny_runs import HPARAMS, tiny

from riskmatch import files
from riskmatch.engine import train


def live(config, out, fatal_sync=None):
    """Start a process that goes on with the run; it may kill itself at its n-th fsync."""
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
    """Wait for the end of a process; whether it was killed."""
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        sys.exit("a run failed")
    return os.WIFSIGNALED(status)


def at_random_moments(config, out, kills, rng):
    """Kill a run so often, then let it end; should it end sooner, begin another one."""
    begun = time.monotonic()
    assert not killed(live(config, out / "whole"))
    duration = time.monotonic() - begun
    lives = 0
    while kills:
        lives += 1
        ended = False
        while not ended:
            pid = live(config, out / f"life {lives}")
            if kills:
                time.sleep(rng.uniform(0, duration))
                os.kill(pid, signal.SIGKILL)
            ended = not killed(pid)
            kills -= not ended
    return lives


def at_every_sync(config, out):
    """Kill a run at its first fsync, another at its second, and so on; each then goes on."""
    number = 1
    while killed(live(config, out / f"sync {number}", number)):
        assert not killed(live(config, out / f"sync {number}"))
        number += 1
    return number - 1


def main(out, kills):
    rng = random.Random(0)
    lives = {
        method: at_random_moments(tiny(method), out / method, kills, rng) for method in HPARAMS
    }
    short = tiny(steps=12, eval_every=4)
    assert not killed(live(short, out / "short" / "whole"))
    print(json.dumps({"lives": lives, "syncs": at_every_sync(short, out / "short")}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
