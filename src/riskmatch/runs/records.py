"""Records of runs: one append-only file of JSON lines in a folder named by the id of the run.

The first line holds the configuration in full, what is known about method and task, the identity of
the data and the origin of parts that are not built in; then follows one line per evaluation, and at
the end the status. A line counts once its newline is written. Numbers that are not finite are
written as null and read as NaN.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import msgspec

from riskmatch.files import append_line, make_folder, read_file, to_json, try_lock, write_whole
from riskmatch.runs.config import RunConfig
from riskmatch.runs.lines import FILE as FILE
from riskmatch.runs.lines import (
    DataIdentity,
    Evaluation,
    EvaluationLine,
    RecordLines,
    Score,
    Split,
    numbered,
    read_lines,
)
from riskmatch.runs.lines import RecordError as RecordError
from riskmatch.runs.method import MethodFacts
from riskmatch.runs.task import ACCURACY_ALONE, TaskFacts

LOCK = "lock"
"""The file in the folder of a run whose lock the process that trains it holds."""
PLAN, CHECKPOINTS = "plan.jsonl", "checkpoints"
"""The plan in the folder of a sweep, and the checkpoints in the folder of a run."""
SUFFIXES = (".json", ".jsonl", ".npz", ".safetensors")
"""Those of the files in the folders of runs, sweeps and models."""
PREPROCESSING = "preprocessing.json"
"""The fitted preprocessing in the folder of a run on a table."""
_PATIENCE = 0.2
"""Seconds to wait for a process that only checks a lock."""
_Result = TypeVar("_Result")
Status = Literal["unfinished", "done", "failed"]


@dataclass(frozen=True)
class RunRecord:
    """Record of a run."""

    config: RunConfig
    evaluations: tuple[Evaluation, ...] = ()
    status: Status = "unfinished"
    error: str | None = None
    """Error that ended the run."""
    data: DataIdentity | None = None
    """Identity of the data; None if the file does not state it."""
    task: TaskFacts = ACCURACY_ALONE
    """How the run is judged."""
    parts: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    """Origin of each part that is not built in (name, distribution, version, sha256), by kind."""

    checkpoints: Mapping[str, int] = field(default_factory=dict)
    """Steps of the checkpoints of a finished run: ``last``, ``train-val`` and, where it differs,
    ``train-val-after-warmup``; empty for imported runs."""

    stopped_early: bool = False
    """Whether the run ended before its last step, because the validation risk was flat."""
    no_gradient: bool = False
    """Whether the penalty of the method changes no weight of the network."""

    @property
    def evaluation_share(self) -> float | None:
        """Share of the time of the run that was not spent in steps; None where it is unknown."""
        total = self.evaluations[-1].seconds if self.evaluations else 0.0
        steps = [self.config.pretrain, *(evaluation.step for evaluation in self.evaluations)]
        spent = sum(
            evaluation.seconds_per_step * (evaluation.step - before)
            for before, evaluation in zip(steps, self.evaluations, strict=False)
        )
        return max(0.0, 1 - spent / total) if total > 0 and math.isfinite(spent) else None

    @property
    def domains(self) -> list[str]:
        """Domains scored by any evaluation, in the order of the data set."""
        return list(dict.fromkeys(d for e in self.evaluations for d in e.scores))

    def summary(self) -> dict[str, Any]:
        """Id, status, configuration and last evaluation, for :func:`riskmatch.files.to_json`."""
        last = self.evaluations[-1].to_json() if self.evaluations else None
        return {
            "id": self.config.id,
            "status": self.status,
            "config": self.config.to_json(),
            "evaluation": last,
        }


def start(
    folder: Path,
    config: RunConfig,
    data: DataIdentity | None = None,
    parts: Mapping[str, Mapping[str, str | None]] | None = None,
    task: TaskFacts = ACCURACY_ALONE,
    no_gradient: bool = False,
) -> None:
    """Start the file of a run with its configuration, in place of any earlier file."""
    run = RunRecord(config, data=data, task=task, parts=parts or {}, no_gradient=no_gradient)
    write(folder, run)


def append(folder: Path, evaluation: Evaluation) -> None:
    """Append an evaluation to the file of a run."""
    append_line(folder / FILE, _line("evaluation", evaluation.to_json()))


def end(
    folder: Path,
    status: Literal["done", "failed"],
    error: str | None = None,
    checkpoints: Mapping[str, int] | None = None,
    stopped_early: bool = False,
) -> None:
    """Append the final status to the file of a run."""
    append_line(folder / FILE, _end(status, error, checkpoints, stopped_early))


def write(folder: Path, run: RunRecord) -> bool:
    """Write a complete record; return whether this changed the file."""
    config = run.config
    header: dict[str, Any] = {"version": version("riskmatch"), "id": config.id}
    header["config"] = config.to_json()
    header |= {"method": config.about.to_json(), "task": run.task.to_json()}
    data = run.data and run.data.to_json()
    more = {"data": data, "parts": run.parts, "no_gradient": run.no_gradient}
    header |= {name: value for name, value in more.items() if value}
    lines = [_line("config", header)]
    lines += [_line("evaluation", evaluation.to_json()) for evaluation in run.evaluations]
    if run.status != "unfinished":
        lines.append(_end(run.status, run.error, run.checkpoints, run.stopped_early))
    content = "".join(line + "\n" for line in lines).encode()
    make_folder(folder)
    if (folder / FILE).exists() and read_file(folder / FILE) == content:
        return False
    write_whole(folder / FILE, content)
    return True


def rewind(folder: Path, step: int) -> None:
    """Remove evaluations of later steps, the final status and an incomplete last line."""
    read = read_lines(folder / FILE)
    evaluations = read.evaluations if read else []
    first, *lines = numbered(read_file(folder / FILE))[: 1 + len(evaluations)]
    pairs = zip(lines, evaluations, strict=True)
    kept = [first, *(line for line, evaluation in pairs if evaluation.step <= step)]
    write_whole(folder / FILE, b"".join(line + b"\n" for _, line in kept))


def find(folder: Path) -> RunRecord | None:
    """Read the run in ``folder``; return None if it has no file with a complete first line.

    Raises:
        RecordError: a line is damaged.
    """
    if (read := read_lines(folder / FILE)) is None:
        return None
    return replace(without_evaluations(read), evaluations=tuple(map(_evaluation, read.evaluations)))


def without_evaluations(read: RecordLines) -> RunRecord:
    """What a record says of its run, but for the evaluations."""
    header, end = read.header, {} if read.end is None else msgspec.structs.asdict(read.end)
    run = RunRecord(read.config, data=header.data, task=read.task, parts=header.parts)
    return replace(run, no_gradient=header.no_gradient, **end)


def _evaluation(line: EvaluationLine) -> Evaluation:
    scores = {
        domain: {
            cast(Split, split): Score(
                _numbers(score.metrics),
                _number(score.risk),
                tuple(map(_number, score.quantiles)),
                score.missing or {},
            )
            for split, score in splits.items()
        }
        for domain, splits in line.scores.items()
    }
    return Evaluation(
        line.step,
        scores,
        _number(line.loss),
        _numbers(line.terms),
        _numbers(line.raw),
        line.worst_domain or "",
        _number(line.seconds),
        _number(line.seconds_per_step),
        cast(int, _number(line.peak_memory)),
        _numbers(line.gradients),
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _numbers(values: Mapping[str, float | None]) -> dict[str, float]:
    return {name: _number(value) for name, value in values.items()}


@dataclass(frozen=True)
class StoredRun:
    """A run and the folder of its files."""

    folder: Path
    record: RunRecord
    """Configuration, evaluations and status as the record states them."""

    @property
    def config(self) -> RunConfig:
        """Configuration of the run."""
        return self.record.config


def checkpoints(folder: Path) -> dict[int, Path]:
    """Checkpoints in the folder of a run, by step."""
    files = sorted((folder / CHECKPOINTS).glob("*.safetensors"))
    return {int(path.stem): path for path in files if path.stem.isdecimal()}


def read(path: Path) -> RunRecord:
    """Read the run in the folder, or the file, ``path``.

    Raises:
        FileNotFoundError: there is no record.
        RecordError: a line is damaged.
    """
    folder = path.parent if path.name == FILE else path
    run = find(folder)
    if run is None:
        raise FileNotFoundError(
            f"{folder} is not the folder of a run: it has no {FILE} with a configuration."
        )
    return run


def read_all(out: Path) -> list[RunRecord]:
    """Read all runs whose folders are in ``out``, sorted by id, but for damaged ones."""
    runs = []
    for path in sorted(out.glob(f"*/{FILE}")):
        with suppress(RecordError, OSError):
            runs.append(find(path.parent))
    return [run for run in runs if run is not None]


def read_plan(
    path: Path, make: Callable[[RunConfig, dict[str, Any]], _Result]
) -> dict[str, _Result]:
    """Apply ``make`` to each run of a plan and its line, by run id; a repeated run counts once.

    What is known about a method is taken from the headers above, or from its class.

    Raises:
        ValueError: a line is damaged.
    """
    plan: dict[str, _Result] = {}
    about: dict[str, MethodFacts] = {}
    for number, line in enumerate(read_file(path).split(b"\n"), 1):
        try:
            values = json.loads(line) if line.strip() else {}
            about |= msgspec.convert(values.get("methods", {}), dict[str, MethodFacts])
            if "config" in values:
                config = RunConfig.from_json(values["config"])
                config = config.with_facts(about.get(config.method))
                plan.setdefault(config.id, make(config, values))
        except (AttributeError, ValueError, TypeError, KeyError, RecursionError) as error:
            cause = f"missing {error}" if isinstance(error, KeyError) else error
            raise ValueError(
                f"{path}, line {number}, is not a run: {str(cause).rstrip('.')}. Repair the line."
            ) from error
    return plan


class BusyError(RuntimeError):
    """Another process is training this run."""

    code = 3
    """Exit code of a command that ends with it."""


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold the lock of the run in ``folder``; the system releases it when the process ends.

    Raises:
        BusyError: another process holds it.
    """
    with try_lock(folder / LOCK, _PATIENCE) as locked:
        if not locked:
            raise BusyError(f"Another process is training the run in {folder}.")
        yield


def is_locked(folder: Path) -> bool:
    """Whether a process is training the run in ``folder``."""
    if not (folder / LOCK).exists():
        return False
    try:
        with try_lock(folder / LOCK) as locked:
            return not locked
    except OSError:  # no permission, or a link or folder in its place: nobody can hold it
        return False


def _end(
    status: str, error: str | None, checkpoints: Mapping[str, int] | None, stopped_early: bool
) -> str:
    more = {"checkpoints": dict(checkpoints or {}), "stopped_early": stopped_early}
    known = {name: value for name, value in more.items() if value}
    return _line("end", {"status": status, "error": error, **known})


def _line(kind: str, values: Mapping[str, Any]) -> str:
    return to_json({"kind": kind, **values})
