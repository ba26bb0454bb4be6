"""Time and memory of the commands that read a sweep of 20,000 runs.

    python benchmarks/many_runs.py FOLDER [LABEL]

writes the sweep to FOLDER unless it is there (700 MB), runs every command on it, and adds a row per
command under LABEL to ``results/bench/many_runs.json``. Memory is the peak of the process.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import measure

from riskmatch.files import to_json
from riskmatch.runs.records import FILE, LEVELS, Evaluation, Score
from riskmatch.sweep.plan import Protocol, extend

DOMAINS = ("art_painting", "cartoon", "photo", "sketch")
METHODS = ("erm", "rdm", "vrex", "irm", "groupdro", "coral", "mixup", "mldg", "eqrm", "fishr")
DRAWS, TRIALS = 20, 25
"""With four test domains and ten methods: 20,000 runs."""
STEPS, EVERY = 5_000, 300
COMMANDS = ("sweep table", "sweep status", "report", "show")


def evaluations(rng: random.Random) -> list[str]:
    """Lines of a run: accuracies that rise, and quantiles of risks as a run has them."""
    lines, ability = [], rng.uniform(0.6, 0.9)
    for step in [*range(EVERY, STEPS, EVERY), STEPS]:
        scores = {}
        for domain in DOMAINS:
            accuracy = ability * (1 - 0.5 ** (step / 800)) + rng.uniform(0, 0.05)
            risk = -2 * (accuracy - 1)
            quantiles = tuple(risk * level * rng.random() for level in LEVELS)
            score = Score(accuracy, risk, quantiles)
            scores[domain] = {"train": score, "val": score}
        evaluation = Evaluation(
            *(step, scores, 0.4, {"risk": 0.3, "penalty": 0.1}, {"penalty": 0.05}, "sketch"),
            *(step * 0.1, 0.1, 2**30),
        )
        lines.append(to_json({"kind": "evaluation", **asdict(evaluation)}))
    return lines


def write(folder: Path) -> None:
    """Write the plan and the records of a sweep, without training."""
    tests = tuple((domain,) for domain in DOMAINS)
    planned = Protocol("pacs", METHODS, tests, DRAWS, TRIALS).runs()
    rng = random.Random(0)
    variety = [evaluations(rng) for _ in range(500)]
    end = to_json({"kind": "end", "status": "done", "error": None})
    for number, run in enumerate(planned):
        out = folder / "runs" / run.config.id
        out.mkdir(parents=True)
        head = {"kind": "config", "id": run.config.id, "config": run.config.to_json()}
        lines = [to_json(head), *variety[number % len(variety)], end]
        (out / FILE).write_text("\n".join(lines) + "\n")
    extend(folder, planned, "benchmarks/many_runs.py")


def measured(command: str, folder: Path) -> dict[str, float]:
    """Seconds and megabytes of a command."""
    words = [sys.executable, "-m", "riskmatch.cli", *command.split(), str(folder)]
    if command == "report":
        words += ["--out", str(folder / "report.html")]
    start = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{command} ended with {process.returncode}"
    return {
        "seconds": time.perf_counter() - start,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "megabytes": usage.ru_maxrss / 2**10,
    }


def main() -> None:
    folder, label = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "now"
    if not folder.exists():
        write(folder)
    file = measure.RESULTS / "many_runs.json"
    record = json.loads(file.read_text()) if file.exists() else {"measured": {}}
    record |= {"machine": measure.machine(), "runs": len(list((folder / "runs").iterdir()))}
    record["measured"][label] = {command: measured(command, folder) for command in COMMANDS}
    rows = [
        [name, command, *(f"{value[key]:.0f}" for key in value)]
        for name, commands in record["measured"].items()
        for command, value in commands.items()
    ]
    head = ["version", "command", "seconds", "processor seconds", "MB"]
    measure.save("many_runs", record, measure.table(head, rows))


if __name__ == "__main__":
    main()
