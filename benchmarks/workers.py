"""Simulate the launchers on the 61,600 runs of the paper's Table 2, with failures.

    python benchmarks/workers.py

writes ``results/bench/workers.json`` and ``.md`` in a few minutes. The plan, the board and the loop
of the launchers (:func:`riskmatch.sweep.launchers.base.supervise`) are the real ones; the engine
that trains has a clock of its own, so that no run is trained. The estimate beside it is that of
``sweep plan --cost --workers N``. What is assumed is in :data:`NOTE`.
"""

from __future__ import annotations

import heapq
import json
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import measure
import numpy as np
from many_runs import table2_plan
from PIL import Image

from riskmatch.data.images.benchmark import BENCHMARKS
from riskmatch.defaults import run_config
from riskmatch.engine.cost import SweepCost, run_cost
from riskmatch.runs.config import RunConfig
from riskmatch.sweep.board import Board, RunOutcome
from riskmatch.sweep.launchers.base import Jobs, supervise

WORKERS = (1, 8, 64, 512)
RATE, FORWARD = 250, 3
"""Images per second that ERM trains at, and evaluates images faster by."""
START, MEAN_HOURS = 60.0, 100.0
"""Seconds before the first step of a run; mean hours of a worker until its process dies."""
RETRIES, ROUNDS = 3, 3
NOTE = """\
14 methods × 22 test domains × 20 draws × 10 trials. The fastest steps take 250 images
per second (`--throughput 250`), which the paper's time of RDM on a V100 comes to; the others take
longer as `--cost` measured here, with one thread, EfficientNet-Lite0 and 3 × 32 images of 64 × 64.
An evaluation takes a third of a step per image. A run starts in 60 s and continues at its last
evaluation; the process of a worker dies every 100 hours on average. *Again at once*: three times,
then the run fails, as with `--launcher ray`; *with retry*: a run whose process dies fails, and
`sweep retry` trains the failed runs until none is left, as with `local`. *Estimate*: `--cost
--workers N`, without failures and starts. Lost machines, queues and slow disks are not in it."""


@dataclass
class Simulated(Jobs):
    """Trains runs on a clock of its own; workers die at random."""

    seconds: dict[str, float]
    """Seconds of training of each run, by id."""
    at_once: bool
    """Whether a run whose process died is offered again, at most ``RETRIES`` times."""
    deaths: random.Random | None
    now: float = 0.0
    lost: int = 0
    """Processes that died."""
    _ends: list[tuple[float, str, bool]] = field(default_factory=list)
    _trained: dict[str, float] = field(default_factory=dict)
    _died: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def submit(self, runs: Sequence[RunConfig]) -> None:
        for run in runs:
            left = self.seconds[run.id] - self._trained.get(run.id, 0.0)
            alive = self.deaths.expovariate(1 / (3600 * MEAN_HOURS)) if self.deaths else 1e18
            dies = alive < START + left
            if dies:
                every = self.seconds[run.id] * run.eval_every / run.steps
                reached = self._trained.get(run.id, 0.0) + max(0.0, alive - START)
                self._trained[run.id] = reached // every * every
            heapq.heappush(self._ends, (self.now + min(alive, START + left), run.id, dies))
            self.submitted[run.id] = run

    def ended(self) -> Iterator[tuple[RunConfig, RunOutcome]]:
        self.now, id, died = heapq.heappop(self._ends)
        run = self.submitted.pop(id)
        self.lost += died
        self._died[id] += died
        again = self.at_once and self._died[id] <= RETRIES
        status = "done" if not died else "locked" if again else "failed"
        yield run, RunOutcome(status)

    def cancel(self) -> None:
        """Nothing is left to cancel."""


def shares(methods: Iterable[str]) -> dict[str, float]:
    """Seconds of a step of each method, of the fastest one's, by ``--cost``."""
    given = {"model": "lite0", "model_options": {"pretrained": False, "size": 64}, "batch_size": 32}
    given |= {"data_options": {"image_size": 64}, "eval_fraction": 0.01}
    with tempfile.TemporaryDirectory() as root:
        rng = np.random.default_rng(0)
        for domain, label in product("abcd", "xy"):
            folder = Path(root, domain, label)
            folder.mkdir(parents=True)
            for number in range(25):
                pixels = rng.integers(0, 256, (64, 64, 3), np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.png")
        seconds: dict[str, float] = {}
        for method in [*methods] * ROUNDS:  # the least of several, as other programs run too
            config = run_config(method, root, ["d"], given=given)
            step = run_cost(config, pieces=False).step
            seconds[method] = min(seconds.get(method, step), step)
            print(method, f"{step:.2f} s", flush=True)
    return {method: value / min(seconds.values()) for method, value in seconds.items()}


def seconds_of(configs: Sequence[RunConfig], share: Mapping[str, float]) -> dict[str, float]:
    """Seconds of each run by id, under the assumptions of :data:`NOTE`."""
    totals = {}
    for config in configs:
        benchmark = BENCHMARKS[config.data]
        batch = config.batch_size * (len(benchmark.domains) - len(config.test_domains))
        evaluations = -(-config.steps // config.eval_every)
        trained = config.steps * batch * share[config.method] / RATE
        totals[config.id] = trained + evaluations * benchmark.images / RATE / FORWARD
    return totals


def simulate(
    configs: Sequence[RunConfig], seconds: dict[str, float], workers: int, at_once: bool, die: bool
) -> dict[str, float]:
    """Days until all runs are done, processes that died, and seconds that the loop took here."""
    jobs = Simulated(seconds, at_once, random.Random(0) if die else None)
    begun, waiting, rounds = time.process_time(), list(configs), 0
    while waiting:
        board = Board(waiting)
        supervise(board, jobs, lambda: workers, lambda board: None)
        waiting, rounds = [config for config in configs if config.id in board.failed], rounds + 1
    return {
        "days": jobs.now / 86400,
        "died": jobs.lost,
        "rounds": rounds,
        "loop": time.process_time() - begun,
    }


def main() -> None:
    configs = [run.config for run in table2_plan()]
    record = measure.measured("workers")
    if "shares" not in record:
        record["shares"] = shares(sorted({config.method for config in configs}))
    seconds = seconds_of(configs, record["shares"])
    durations = [seconds[config.id] for config in configs]
    cost = SweepCost({"all": sum(durations)}, {"all": len(configs)}, 0, 0, durations)
    record |= {"runs": len(configs), "hours": cost.total / 3600, "measured": {}}
    for workers in WORKERS:
        row = {"estimate": cost.wall_clock(workers) / 86400}
        for name, at_once, die in (
            ("without failures", True, False),
            ("again at once", True, True),
            ("with retry", False, True),
        ):
            row[name] = simulate(configs, seconds, workers, at_once, die)
            print(workers, name, json.dumps(row[name]), flush=True)
        record["measured"][str(workers)] = row
    measure.save("workers", record, table_of(record))


def table_of(record: dict[str, object]) -> str:
    """A row for each number of workers."""
    head = ["workers", "estimate, days", "without failures", "again at once", "with retry"]
    head += ["processes that died", "loop, ms per run"]
    rows = []
    for workers, row in record["measured"].items():  # type: ignore[attr-defined]
        again = row["again at once"]
        rows.append(
            [
                *(workers, f"{row['estimate']:,.1f}"),
                *(f"{row[name]['days'] / row['estimate'] - 1:+.1%}" for name in head[2:5]),
                *(f"{again['died']:,.0f}", f"{1e3 * again['loop'] / record['runs']:.1f}"),
            ]
        )
    hours = f"{record['runs']:,} runs, {record['hours']:,.0f} GPU hours"
    return f"{measure.table(head, rows)}\n{hours}. {NOTE}\n"


if __name__ == "__main__":
    main()
