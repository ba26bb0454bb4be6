"""Time and memory of commands on a sweep of 20,000 runs and on 200,000 images.

    python benchmarks/many_runs.py FOLDER [LABEL [COMMAND …]]
    python benchmarks/many_runs.py FOLDER --table2 [COMMAND …]

writes the sweep and the images to FOLDER unless they are there (1.6 GB), runs every COMMAND, or all
of them, and adds a row per command under LABEL to ``results/bench/many_runs.json``: of several
calls, the one with the least processor time. Commands on the sweep are measured without an index of
the records and, where the first one wrote it, with it. Memory is the peak of the process.

The second form does so for the runs of the paper's Table 2 at its budget, 61,600 on five data sets
(2 GB), and also plans them; only the first command is measured without an index.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path

import measure
import numpy as np
from PIL import Image

from riskmatch.data.images.benchmark import BENCHMARKS
from riskmatch.experiments import EXPERIMENTS
from riskmatch.experiments.experiment import Scope
from riskmatch.experiments.images import IMAGE_DATA
from riskmatch.files import to_json
from riskmatch.metrics import METRICS
from riskmatch.runs.lines import LEVELS, Evaluation, Score
from riskmatch.runs.records import FILE
from riskmatch.runs.task import TaskFacts
from riskmatch.sweep.plan import PlannedRun, Protocol, extend

DOMAINS = ("art_painting", "cartoon", "photo", "sketch")
METHODS = ("erm", "rdm", "vrex", "irm", "groupdro", "coral", "mixup", "mldg", "eqrm", "fishr")
DRAWS, TRIALS = 20, 25
"""With four test domains and ten methods: 20,000 runs."""
STEPS, EVERY = 5_000, 300
IMAGES, CLASSES, SIDE = 200_000, 10, 32
EIGHT = ("accuracy", "balanced-accuracy", "macro-f1", "auroc", "average-precision")
EIGHT += ("log-loss", "brier", "ece")
"""Metrics of a second sweep."""
ON_RUNS = ("sweep table", "sweep status", "report", "show")
PLAN = "plan"
TABLE2 = "Table 2, 61,600 runs"
ON_IMAGES = ("data doctor", "load_data")
MEASURED = ("seconds", "processor_seconds", "megabytes")
ORIGINALLY = {
    "sweep table": {"seconds": 78, "megabytes": 2200},
    "report": {"seconds": 108, "megabytes": 2400},
    "show": {"seconds": 103},
    "data doctor": {"seconds": 205, "megabytes": 644},
    "load_data": {"seconds": 123},
}
"""What was measured by hand before this benchmark, when tables read records one by one."""

NOTE = """\
20,000 runs and 200,000 images. Rows of *now* were measured with other programs stopped; elsewhere
seconds depend on what else ran, so compare processor seconds. *Originally*: measured by hand,
records read one by one. *Earlier*, *before*: one data frame of all columns; *before*, `sweep
status` read every line of the records too. *Now*: runs and evaluations apart; the first command
parses all records and writes the index that the next ones read. *Table 2*: the runs of the paper's
Table 2 at its budget, on a machine that others used at the same time."""


def evaluations(
    rng: random.Random, metrics: Iterable[str], domains: Sequence[str], every: int
) -> list[str]:
    """Lines of a run: accuracies that rise, and quantiles of risks as a run has them."""
    lines, ability = [], rng.uniform(0.6, 0.9)
    for step in [*range(every, STEPS, every), STEPS]:
        scores = {}
        for domain in domains:
            accuracy = ability * (1 - 0.5 ** (step / 800)) + rng.uniform(0, 0.05)
            risk = -2 * (accuracy - 1)
            quantiles = tuple(risk * level * rng.random() for level in LEVELS)
            score = Score(dict.fromkeys(metrics, accuracy), risk, quantiles)
            scores[domain] = {"train": score, "val": score}
        evaluation = Evaluation(
            *(step, scores, 0.4, {"risk": 0.3, "penalty": 0.1}, {"penalty": 0.05}, domains[-1]),
            *(step * 0.1, 0.1, 2**30),
        )
        lines.append(to_json({"kind": "evaluation", **evaluation.to_json()}))
    return lines


def small_plan() -> list[PlannedRun]:
    """20,000 runs on PACS."""
    tests = tuple((domain,) for domain in DOMAINS)
    return Protocol("pacs", METHODS, tests, DRAWS, TRIALS).runs()


def table2_plan() -> list[PlannedRun]:
    """14 methods × 22 test domains of five data sets × 20 draws × 10 trials."""
    return EXPERIMENTS["table2"].plan(Scope("paper", IMAGE_DATA))


def write_plan(folder: Path) -> None:
    """Plan the runs of Table 2."""
    extend(folder, table2_plan(), "benchmarks/many_runs.py")


def write(
    folder: Path, planned: Sequence[PlannedRun], metrics: Sequence[str] = ("accuracy",)
) -> None:
    """Write the plan and the records of a sweep, without training."""
    rng = random.Random(0)
    domains = {data: BENCHMARKS[data].domains for data in {run.config.data for run in planned}}
    every = {run.config.data: run.config.eval_every for run in planned}
    variety = {
        data: [evaluations(rng, metrics, names, every[data]) for _ in range(500 // len(domains))]
        for data, names in domains.items()
    }
    facts = TaskFacts.of("classification", metrics[0], {name: METRICS[name] for name in metrics})
    end = to_json({"kind": "end", "status": "done", "error": None})
    for number, run in enumerate(planned):
        out = folder / "runs" / run.config.id
        out.mkdir(parents=True)
        head = {"kind": "config", "id": run.config.id, "config": run.config.to_json()}
        head |= {"method": run.config.about.to_json(), "task": facts.to_json()}
        varied = variety[run.config.data]
        lines = [to_json(head), *varied[number % len(varied)], end]
        (out / FILE).write_text("\n".join(lines) + "\n")
    extend(folder, planned, "benchmarks/many_runs.py")


def write_images(root: Path) -> None:
    """Write random images, 32 × 32, of four domains and ten classes."""
    rng = np.random.default_rng(0)
    for domain, name in product(DOMAINS, range(CLASSES)):
        folder = root / domain / f"class {name}"
        folder.mkdir(parents=True)
        for number in range(IMAGES // len(DOMAINS) // CLASSES):
            image = Image.fromarray(rng.integers(0, 256, (SIDE, SIDE, 3), np.uint8))
            image.save(folder / f"{number}.png", compress_level=1)


def measured(command: str, folder: Path) -> dict[str, float]:
    """Seconds and megabytes of a command."""
    words = [sys.executable, "-m", "riskmatch.cli", *command.split(), str(folder)]
    if command == "report":
        words += ["--out", str(folder / "report.html")]
    if command == PLAN:
        plan = "import sys, many_runs, pathlib; many_runs.write_plan(pathlib.Path(sys.argv[1]))"
        words = [sys.executable, "-c", plan, str(folder.with_name("planned"))]
    if command == "load_data":
        load = "import sys, riskmatch; riskmatch.load_data(sys.argv[1])"
        words = [sys.executable, "-c", load, str(folder)]
    with tempfile.TemporaryDirectory(dir=folder.parent) as cache:
        places = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        code, *seconds, kibibytes = measure.process(words, XDG_CACHE_HOME=cache, PYTHONPATH=places)
    assert code == 0, f"{command} ended with {code}"
    return dict(zip(MEASURED, (*seconds, kibibytes / 2**10), strict=True))


def main() -> None:
    folder, (label, *commands) = Path(sys.argv[1]), sys.argv[2:] or ["now"]
    record = measure.measured("many_runs") | {"images": IMAGES}
    record["runs"] = DRAWS * TRIALS * len(METHODS) * len(DOMAINS)
    folder.mkdir(parents=True, exist_ok=True)
    by_label = record["measured"] = {"originally": ORIGINALLY, **record["measured"]}

    def add(label: str, command: str, folder: Path) -> None:
        value, known = measured(command, folder), by_label.setdefault(label, {})
        least = min(known.get(command, value), value, key=lambda one: one["processor_seconds"])
        known[command] = least
        measure.save("many_runs", record, table_of(by_label))

    sweeps = {label: folder, f"{label}, eight metrics": folder / "eight-metrics"}
    chosen: Sequence[str] = commands or (*ON_RUNS, *ON_IMAGES)
    if label == "--table2":
        sweeps = {TABLE2: folder / "table2"}
        chosen = commands or (PLAN, *ON_RUNS)
        if PLAN in chosen:
            shutil.rmtree(folder / "planned", ignore_errors=True)
            add(TABLE2, PLAN, folder / "table2")
    for place, (name, sweep) in enumerate(sweeps.items()):
        if not (sweep / "runs").exists():
            write(
                sweep,
                (table2_plan if name == TABLE2 else small_plan)(),
                (EIGHT if place else EIGHT[:1]),
            )
    for command in (command for command in ON_RUNS if command in chosen):
        for version, sweep in sweeps.items():
            index = sweep / "runs" / "index.bin"
            if version != TABLE2 or command == ON_RUNS[0]:
                index.unlink(missing_ok=True)
                add(version, command, sweep)
            if index.exists():
                add(f"{version}, with index", command, sweep)
    images = folder / "images"
    for command in (command for command in ON_IMAGES if command in chosen):
        if not images.exists():
            write_images(images)
        add(label, command, images)


def table_of(by_label: dict[str, dict[str, dict[str, float]]]) -> str:
    """The versions of each command below each other."""
    rows = [
        [command, label, *(f"{value[key]:.0f}" if key in value else "" for key in MEASURED)]
        for command in (PLAN, *ON_RUNS, *ON_IMAGES)
        for label, commands in by_label.items()
        if (value := commands.get(command))
    ]
    head = ["command", "version", "seconds", "processor seconds", "MB"]
    return f"{measure.table(head, rows)}\n{NOTE}\n"


if __name__ == "__main__":
    main()
