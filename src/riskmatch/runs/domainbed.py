"""Import sweeps of DomainBed and its forks as records.

A sweep is a folder with files ``results.jsonl``, possibly gzipped, at any depth: one line per
evaluation, possibly of several runs. Whatever cannot be read is left out and reported as a fault;
the source is never changed. Seconds are those of training steps alone, as nothing else is logged.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import IO, cast

from riskmatch.files import check_regular
from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.domainbed_line import BadLineError, read_line
from riskmatch.runs.lines import Evaluation
from riskmatch.runs.records import RunRecord
from riskmatch.trust import imports_nothing

FILE = "results.jsonl"
_NAMES = (FILE, f"{FILE}.gz")
MAX_LINE = 1 << 24
"""Bytes of a line, thousands of times what a run logs."""
_OUTPUT = ("out.txt", "err.txt")
"""Files that a run writes from its start."""


@dataclass(frozen=True)
class Fault:
    """A problem of a file, of some of its lines, or of the folder of a run."""

    path: Path
    reason: str
    lines: tuple[int, ...] = ()
    """Numbers of the lines, from 1; empty if the problem is that of the whole file."""

    def __str__(self) -> str:
        if not self.lines:
            return f"{self.path}: {self.reason}"
        few = ", ".join(map(str, self.lines[:3])) + " …" * (len(self.lines) > 3)
        return f"{self.path}, line{'s' * (len(self.lines) > 1)} {few}: {self.reason}"


@dataclass(frozen=True)
class ImportedSweep:
    """Runs of a DomainBed sweep."""

    runs: tuple[RunRecord, ...]
    """Runs sorted by id."""
    faults: tuple[Fault, ...]
    files: int
    """Number of files read."""


def read_domainbed(source: Path) -> ImportedSweep:
    """Read the runs of every ``results.jsonl`` below a folder, or of one such file."""
    paths, faults = ([source], []) if source.is_file() else _find_logs(source)
    by_run: dict[str, tuple[RunRecord, Path]] = {}
    for path in paths:
        runs, problems = _read_file(path)
        faults += problems
        for run in runs:
            # The interval of evaluations does not make another run.
            key = _key(run.config, eval_every=1)
            other, other_path = by_run.get(key, (None, path))
            if other is not None:
                more = len(run.evaluations) > len(other.evaluations)
                kept, left_out = (path, other_path) if more else (other_path, path)
                faults.append(Fault(left_out, f"left out: the same run as in {kept}"))
                if not more:
                    continue
            by_run[key] = run, path
    by_id = sorted((run for run, _ in by_run.values()), key=lambda run: run.config.id)
    return ImportedSweep(tuple(by_id), tuple(faults), len(paths))


@imports_nothing
def import_domainbed(
    source: Path, out: Path, on_fault: Callable[[Fault], None] | None = None
) -> tuple[ImportedSweep, int]:
    """Convert a DomainBed sweep to records below ``out``; a second call changes nothing.

    Args:
        source: folder of the sweep, or a ``results.jsonl``; nothing is written there.
        out: folder of the records, one folder per run.
        on_fault: called with each problem of the files.

    Returns:
        The sweep, and the number of records that were written or changed.

    Raises:
        FileNotFoundError: there is no such folder, or it has no ``results.jsonl``.
        ValueError: no file has a run that can be read.
    """
    hint = "Give the folder of a sweep of DomainBed."
    if not source.exists():
        raise FileNotFoundError(f"There is no {source}. {hint}")
    sweep = read_domainbed(source)
    if on_fault is not None:
        for fault in sweep.faults:
            on_fault(fault)
    if not sweep.files:
        raise FileNotFoundError(f"{source} has no {FILE}. {hint}")
    if not sweep.runs:
        raise ValueError(f"No {FILE} in {source} has a run that can be read.")
    return sweep, write_runs(sweep.runs, out)


def _key(config: RunConfig, **others: int) -> str:
    """Id of a run with other values of some fields."""
    return replace(config, **others).with_facts(config.about).id  # type: ignore[arg-type]


def write_runs(runs: Iterable[RunRecord], out: Path) -> int:
    """Write runs below ``out``, each in a folder named by its id; return the number of changes."""
    return sum(records.write(out / run.config.id, run) for run in runs)


def _find_logs(source: Path) -> tuple[list[Path], list[Fault]]:
    """Find every log below a folder, behind links too, and folders of runs without a log."""
    logs: list[Path] = []
    faults: list[Fault] = []
    visited: set[str] = set()
    for name, subfolders, files in os.walk(source, followlinks=True):
        real, folder = os.path.realpath(name), Path(name)
        if real in visited:  # a cycle, or a second link
            subfolders.clear()
            continue
        visited.add(real)
        subfolders.sort()
        here = [folder / log for log in _NAMES if log in files or log in subfolders]
        if not here and not set(_OUTPUT).isdisjoint(files):
            faults.append(Fault(folder, f"left out: no {FILE}; the run crashed or has just begun"))
        logs += here
    return logs, faults


def _read_lines(path: Path) -> Iterator[bytes]:
    """Lines of a log with their ends, one at a time; a longer one than any run writes is cut."""
    check_regular(path)
    with open(path, "rb") as plain:
        file = cast(IO[bytes], gzip.GzipFile(fileobj=plain) if path.suffix == ".gz" else plain)
        try:
            while line := file.readline(MAX_LINE):
                yield line
        except (EOFError, OSError, zlib.error) as error:
            raise OSError(f"cannot be decompressed: {error}") from error


def _read_file(path: Path) -> tuple[list[RunRecord], list[Fault]]:
    problems: dict[str, list[int]] = defaultdict(list)
    configs: dict[str, RunConfig] = {}
    logged: dict[str, dict[int, tuple[int, Evaluation]]] = defaultdict(dict)  # by run and step
    try:
        for number, line in enumerate(_read_lines(path), 1):
            if not line.strip():
                continue
            if len(line) == MAX_LINE:
                return [], [Fault(path, f"line {number} has more than {MAX_LINE:,} bytes")]
            try:
                config, evaluation = read_line(line)
            except BadLineError as error:
                cut = (
                    not line.endswith(b"\n") and line.startswith(b"{") and str(error) == "not JSON"
                )
                reason = "incomplete: the file ends within a line" if cut else str(error)
                problems[reason].append(number)
                continue
            # A run resumed with more steps is the same run.
            run = _key(config, steps=1, eval_every=1)
            configs[run] = max(configs.get(run, config), config, key=lambda known: known.steps)
            if evaluation.step in (steps := logged[run]):
                earlier, _ = steps[evaluation.step]
                problems["ignored: the step is logged again below"].append(earlier)
            steps[evaluation.step] = number, evaluation
    except OSError as error:
        return [], [Fault(path, error.strerror or str(error))]
    if not configs and not problems:
        return [], [Fault(path, "empty")]
    done = len(configs) == 1 and (path.parent / "done").exists()
    read = [_record(config, logged[run], done, problems) for run, config in configs.items()]
    return read, [Fault(path, reason, tuple(sorted(at))) for reason, at in problems.items()]


def _record(
    config: RunConfig,
    steps: Mapping[int, tuple[int, Evaluation]],
    done: bool,
    problems: dict[str, list[int]],
) -> RunRecord:
    """Record of a run from its lines, restricted to the scores that most lines have."""
    usual = Counter(_scored(e) for _, e in steps.values()).most_common(1)[0][0]
    evaluations: list[Evaluation] = []
    seconds, previous = 0.0, -1
    for step, (number, evaluation) in sorted(steps.items()):
        if missing := sorted(usual - _scored(evaluation)):
            problems[f"no accuracy on {', '.join(map(' '.join, missing))}"].append(number)
            continue
        scores = {
            domain: {split: s for split, s in splits.items() if (domain, split) in usual}
            for domain, splits in evaluation.scores.items()
        }
        scores = {domain: splits for domain, splits in scores.items() if splits}
        if any(s.missing for splits in scores.values() for s in splits.values()):
            problems["an accuracy is not a number; selection ignores it"].append(number)
        seconds += evaluation.seconds_per_step * (step - previous)
        previous = step
        evaluations.append(replace(evaluation, scores=scores, seconds=seconds))
    # A run is done where no further evaluation is due; old versions log none after the last step.
    every = min([config.eval_every, *(b - a for a, b in pairwise(sorted(steps)))])
    ended = done or max(steps) + every >= config.steps
    return RunRecord(config, tuple(evaluations), "done" if ended else "unfinished")


def _scored(evaluation: Evaluation) -> frozenset[tuple[str, str]]:
    return frozenset((d, split) for d, splits in evaluation.scores.items() for split in splits)
