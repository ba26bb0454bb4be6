"""What a step of every method waits for on a GPU, by counting: `python benchmarks/waits.py`.

A simulated device counts reads of numbers, operations whose result has a size that depends on the
values, copies to the host, and blocking copies to the device, in the third step of each method once
it acts. The numbers of its terms are read with those of other steps, once in ten. `before` are the
counts of the version that read them in every step; they stay as they were recorded.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import measure

from riskmatch.objectives import methods

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
KINDS = "waits", "uploads"


def main() -> None:
    """Count, and write the record and its table."""
    from simulated_device import count_of_a_step

    before = json.loads((measure.RESULTS / "waits.json").read_text("utf-8"))["before"]
    now = {}
    for name in methods():
        counts = zip(KINDS, count_of_a_step(name), strict=True)
        now[name] = {kind: sum(places.values()) for kind, places in counts}
    rows = [
        [name, *(str(counts[name][kind]) for kind in KINDS for counts in (before, now))]
        for name in now
    ]
    heads = [f"{kind} {when}" for kind in KINDS for when in ("before", "now")]
    table = measure.table(["method", *heads], rows)
    measure.save("waits", {"before": before, "now": now}, table)


if __name__ == "__main__":
    main()
