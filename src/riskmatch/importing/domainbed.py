"""Sweeps of DomainBed and its forks, as records of ours.

A sweep is a tree with files ``results.jsonl``, a line per evaluation; a file may hold several runs.
What cannot be read is left out, with its reason, and the source is never touched. Seconds are those
of training steps alone, for nothing else is logged.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from riskmatch import records
from riskmatch.config import RunConfig
from riskmatch.importing.domainbed_line import BadLineError, read_line
from riskmatch.records import Evaluation, RunRecord

FILE = "results.jsonl"


@dataclass(frozen=True)
class Fault:
    """What is wrong with a file, or with some of its lines."""

    path: Path
    reason: str
    lines: tuple[int, ...] = ()
    """From 1; none where it is about the whole file."""

    def __str__(self) -> str:
        if not self.lines:
            return f"{self.path}: {self.reason}"
        few = ", ".join(map(str, self.lines[:3])) + " …" * (len(self.lines) > 3)
        return f"{self.path}, line{'s' * (len(self.lines) > 1)} {few}: {self.reason}"


@dataclass(frozen=True)
class Sweep:
    """What a tree holds."""

    runs: tuple[RunRecord, ...]
    """By id."""
    faults: tuple[Fault, ...]
    files: int
    """How many files there were."""


def read_domainbed(source: Path) -> Sweep:
    """The runs of every ``results.jsonl`` below a folder, or of one such file."""
    paths = [source] if source.is_file() else sorted(source.rglob(FILE))
    found: dict[str, tuple[RunRecord, Path]] = {}
    faults: list[Fault] = []
    for path in paths:
        runs, wrong = _read_file(path)
        faults += wrong
        for run in runs:
            other, home = found.get(run.config.id, (None, path))
            if other is not None:
                more = len(run.evaluations) > len(other.evaluations)
                kept, left = (path, home) if more else (home, path)
                faults.append(Fault(left, f"the same run as in {kept}, which counts"))
                if not more:
                    continue
            found[run.config.id] = run, path
    return Sweep(tuple(run for _, (run, _) in sorted(found.items())), tuple(faults), len(paths))


def write_runs(runs: Iterable[RunRecord], out: Path) -> int:
    """Write runs below ``out``, each in a folder of its id; returns how many files that changed."""
    return sum(records.write(out / run.config.id, run) for run in runs)


def _read_file(path: Path) -> tuple[list[RunRecord], list[Fault]]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        return [], [Fault(path, error.strerror or str(error))]
    if not any(line.strip() for line in lines):
        return [], [Fault(path, "empty")]
    wrong: dict[str, list[int]] = defaultdict(list)
    runs: dict[str, tuple[RunConfig, dict[int, tuple[int, Evaluation]]]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            config, evaluation = read_line(line)
        except BadLineError as error:
            torn = number == len(lines) and line.startswith(b"{") and str(error) == "not JSON"
            wrong["torn: the file ends within a line" if torn else str(error)].append(number)
            continue
        _, steps = runs.setdefault(config.id, (config, {}))
        if evaluation.step in steps:
            wrong["the step comes again below, which counts"].append(steps[evaluation.step][0])
        steps[evaluation.step] = number, evaluation
    done = len(runs) == 1 and (path.parent / "done").exists()
    found = [_run(config, steps, done, wrong) for config, steps in runs.values()]
    return found, [Fault(path, reason, tuple(sorted(at))) for reason, at in wrong.items()]


def _run(
    config: RunConfig,
    steps: Mapping[int, tuple[int, Evaluation]],
    done: bool,
    wrong: dict[str, list[int]],
) -> RunRecord:
    """A run from its lines: those that score what most of them score."""
    usual = Counter(_scored(e) for _, e in steps.values()).most_common(1)[0][0]
    evaluations: list[Evaluation] = []
    seconds, before = 0.0, -1
    for step, (number, evaluation) in sorted(steps.items()):
        if lacking := sorted(usual - _scored(evaluation)):
            wrong[f"no accuracy on {', '.join(map(' '.join, lacking))}"].append(number)
            continue
        scores = {
            domain: {split: s for split, s in splits.items() if (domain, split) in usual}
            for domain, splits in evaluation.scores.items()
        }
        scores = {domain: splits for domain, splits in scores.items() if splits}
        if any(math.isnan(s.accuracy) for splits in scores.values() for s in splits.values()):
            wrong["an accuracy is not a number; nothing is chosen by it"].append(number)
        seconds += evaluation.seconds_per_step * (step - before)
        before = step
        evaluations.append(replace(evaluation, scores=scores, seconds=seconds))
    ended = done or max(steps) >= config.steps - 1
    return RunRecord(config, tuple(evaluations), "done" if ended else "unfinished")


def _scored(evaluation: Evaluation) -> frozenset[tuple[str, str]]:
    return frozenset((d, split) for d, splits in evaluation.scores.items() for split in splits)
