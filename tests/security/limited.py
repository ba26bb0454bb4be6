"""Run commands of riskmatch in one process that may take 1 GB, and print what each took as JSON.

python limited.py '[["predict", "model", "photos", "-o", "p.csv"], …]'
"""

import contextlib
import io
import json
import resource
import sys
import time
from pathlib import Path

from riskmatch.cli import main

MEMORY = 10**9


def outcome(words):
    """Exit code, messages, peak memory and processor time of a command."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    out, err, start = io.StringIO(), io.StringIO(), time.process_time()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    lines = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    return {
        "code": code,
        "out": out.getvalue(),
        "err": err.getvalue(),
        "peak": peak,
        "seconds": time.process_time() - start,
    }


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    print(json.dumps([outcome(words) for words in json.loads(sys.argv[1])]))
