"""A sweep of 24 short runs, and its records without times."""

import json
import shlex

from riskmatch.runs.records import FILE

PLAN = shlex.split(
    "--data colored-digits --data-option samples=120 --methods erm,rdm,vrex --test-domain 0.1 "
    "--test-domain 0.9 --draws 2 --trials 2 --steps 60 --eval-every 20 --option warmup=20 "
    "--option batch_size=24 --model-option widths=[16]"
)


def plan(folder):
    return ["sweep", "plan", str(folder), *PLAN, "--quiet"]


def finished(folder):
    """Count the runs that have ended."""
    return sum('"kind": "end"' in path.read_text() for path in (folder / "runs").glob(f"*/{FILE}"))


def lines(folder):
    """Return the records of every run, by id, without times and memory."""
    lines_by_id = {}
    for path in sorted((folder / "runs").glob(f"*/{FILE}")):
        lines_by_id[path.parent.name] = [json.loads(line) for line in path.read_text().splitlines()]
        for entry in lines_by_id[path.parent.name]:
            for name in ("seconds", "seconds_per_step", "peak_memory"):
                entry.pop(name, None)
    return lines_by_id
