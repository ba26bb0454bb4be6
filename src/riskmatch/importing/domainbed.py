"""Sweeps of DomainBed and its forks, as records of ours.

A sweep is a tree with files ``results.jsonl``, also gzipped, a line per evaluation; a file may hold
several runs. What cannot be read is left out, with its reason, and the source is never touched.
Seconds are those of training steps alone, for nothing else is logged.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from riskmatch.importing.domainbed_files import Fault, find_logs, read_log
from riskmatch.importing.domainbed_line import BadLineError, read_line
from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.records import Evaluation, RunRecord


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
    paths, faults = ([source], []) if source.is_file() else find_logs(source)
    found: dict[str, tuple[RunRecord, Path]] = {}
    for path in paths:
        runs, wrong = _read_file(path)
        faults += wrong
        for run in runs:
            # How often a run was evaluated makes no other run of it.
            same = replace(run.config, eval_every=1).id
            other, home = found.get(same, (None, path))
            if other is not None:
                more = len(run.evaluations) > len(other.evaluations)
                kept, left = (path, home) if more else (home, path)
                faults.append(Fault(left, f"the same run as in {kept}, which counts"))
                if not more:
                    continue
            found[same] = run, path
    by_id = sorted((run for run, _ in found.values()), key=lambda run: run.config.id)
    return Sweep(tuple(by_id), tuple(faults), len(paths))


def write_runs(runs: Iterable[RunRecord], out: Path) -> int:
    """Write runs below ``out``, each in a folder of its id; returns how many files that changed."""
    return sum(records.write(out / run.config.id, run) for run in runs)


@dataclass
class _Lines:
    """What a file says of one run."""

    config: RunConfig
    steps: dict[int, tuple[int, Evaluation]] = field(default_factory=dict)
    """By step, the number of the line and what it says."""


def _read_file(path: Path) -> tuple[list[RunRecord], list[Fault]]:
    try:
        lines = read_log(path).split(b"\n")
    except OSError as error:
        return [], [Fault(path, error.strerror or str(error))]
    if not any(line.strip() for line in lines):
        return [], [Fault(path, "empty")]
    wrong: dict[str, list[int]] = defaultdict(list)
    runs: dict[str, _Lines] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            config, evaluation = read_line(line)
        except BadLineError as error:
            torn = number == len(lines) and line.startswith(b"{") and str(error) == "not JSON"
            wrong["torn: the file ends within a line" if torn else str(error)].append(number)
            continue
        # Resumed with more steps, a run is still the same.
        run = runs.setdefault(replace(config, steps=1, eval_every=1).id, _Lines(config))
        run.config = max(run.config, config, key=lambda known: known.steps)
        if evaluation.step in run.steps:
            wrong["the step comes again below, which counts"].append(run.steps[evaluation.step][0])
        run.steps[evaluation.step] = number, evaluation
    done = len(runs) == 1 and (path.parent / "done").exists()
    found = [_run(run.config, run.steps, done, wrong) for run in runs.values()]
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
    ended = done or _last(config, sorted(steps))
    return RunRecord(config, tuple(evaluations), "done" if ended else "unfinished")


def _last(config: RunConfig, steps: Sequence[int]) -> bool:
    """Whether no evaluation was to come: old versions log none after the last step."""
    every = min([config.eval_every, *(b - a for a, b in pairwise(steps))])
    return steps[-1] + every >= config.steps


def _scored(evaluation: Evaluation) -> frozenset[tuple[str, str]]:
    return frozenset((d, split) for d, splits in evaluation.scores.items() for split in splits)
