"""Records of runs: one append-only file of JSON lines in a folder named by the id of the run.

The first line holds the configuration in full, what is known about the method, the identity of the
data and the origin of parts that are not built in; then follows one line per evaluation, and at the
end the status. A line counts once its newline is written. Numbers that are not finite are
written as null and read as NaN.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from riskmatch.files import append_line, make_folder, read_file, to_json, write_whole
from riskmatch.runs.config import WINDOW_AVERAGES, RunConfig, acts_from
from riskmatch.runs.identity import DataIdentity
from riskmatch.runs.method import MethodFacts
from riskmatch.runs.scores import Evaluation
from riskmatch.validation import check_json, shown

FILE, PLAN, CHECKPOINTS = "records.jsonl", "plan.jsonl", "checkpoints"
"""The record and the checkpoints in the folder of a run, and the plan in the folder of a sweep."""
SUFFIXES = (".json", ".jsonl", ".npz", ".safetensors")
"""Those of the files in the folders of runs, sweeps and models."""
PREPROCESSING = "preprocessing.json"
"""The fitted preprocessing in the folder of a run on a table."""
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
    parts: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    """Origin of each part that is not built in (name, distribution, version, sha256), by kind."""

    checkpoints: Mapping[str, int] = field(default_factory=dict)
    """Steps of the checkpoints of a finished run: ``last``, ``train-val`` and, where it differs,
    ``train-val-after-warmup``; empty for imported runs."""

    stopped_early: bool = False
    """Whether the run ended before its last step, because the validation risk was flat."""

    def best_step(self, after_warmup: bool = False) -> int | None:
        """Step that selection by ``train-val`` chooses among the evaluations; None without any.

        It is the first with the highest mean accuracy, or for a regression the lowest mean risk, on
        the validation splits of the training domains, with ``after_warmup`` of those at which the
        method acts. Of a run that averages its weights over a window of steps it is the last.
        """
        start = acts_from(self.config) if after_warmup else 0
        best, highest = None, -math.inf
        at_end = self.config.average in WINDOW_AVERAGES
        for evaluation in self.evaluations[-1:] if at_end else self.evaluations:
            acts = start == 0 or (start is not None and evaluation.step > start)
            if acts and (score := self._validation_score(evaluation)) > highest:
                best, highest = evaluation.step, score
        return best

    def _validation_score(self, evaluation: Evaluation) -> float:
        """Mean over the training domains; NaN, which is never higher, where one is not scored."""
        tests = self.config.test_domains
        scored = [s.get("val") for d, s in evaluation.scores.items() if d not in tests]
        numbers = [math.nan if score is None else score.accuracy for score in scored]
        if all(math.isnan(number) for number in numbers):  # a regression
            numbers = [math.nan if score is None else -score.risk for score in scored]
        return sum(numbers) / len(numbers) if numbers else math.nan

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
        last = asdict(self.evaluations[-1]) if self.evaluations else None
        return {
            "id": self.config.id,
            "status": self.status,
            "config": self.config.to_json(),
            "evaluation": last,
        }


class RecordError(ValueError):
    """The file of a run is damaged; the message names the line and the cure."""


def start(
    folder: Path,
    config: RunConfig,
    data: DataIdentity | None = None,
    parts: Mapping[str, Mapping[str, str | None]] | None = None,
) -> None:
    """Start the file of a run with its configuration, in place of any earlier file."""
    write(folder, RunRecord(config, data=data, parts=parts or {}))


def append(folder: Path, evaluation: Evaluation) -> None:
    """Append an evaluation to the file of a run."""
    append_line(folder / FILE, _line("evaluation", asdict(evaluation)))


def forget(folder: Path) -> None:
    """Remove the record of a finished run, so that it starts again."""
    run = find(folder)
    if run is not None and run.status == "done":
        (folder / FILE).unlink()


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
    header = {"version": version("riskmatch"), "id": config.id, "config": config.to_json()}
    header["method"] = config.about.to_json()
    if run.data is not None:
        header["data"] = run.data.to_json()
    if run.parts:
        header["parts"] = run.parts
    lines = [_line("config", header)]
    lines += [_line("evaluation", asdict(evaluation)) for evaluation in run.evaluations]
    if run.status != "unfinished":
        lines.append(_end(run.status, run.error, run.checkpoints, run.stopped_early))
    data = "".join(line + "\n" for line in lines).encode()
    make_folder(folder)
    if (folder / FILE).exists() and read_file(folder / FILE) == data:
        return False
    write_whole(folder / FILE, data)
    return True


def rewind(folder: Path, step: int) -> None:
    """Remove evaluations of later steps, the final status and an incomplete last line."""
    kept = [
        line
        for line, values in _lines(folder / FILE)
        if values["kind"] == "config" or (values["kind"] == "evaluation" and values["step"] <= step)
    ]
    write_whole(folder / FILE, b"".join(kept))


def find(folder: Path) -> RunRecord | None:
    """Read the run in ``folder``; return None if it has no file with a complete first line.

    Raises:
        RecordError: a line is damaged.
    """
    try:
        entries = [values for _, values in _lines(folder / FILE)]
    except FileNotFoundError:
        return None
    if not entries:
        return None
    evaluations = [
        parse(folder / FILE, number, Evaluation.from_json, values)
        for number, values in enumerate(entries, 1)
        if values["kind"] == "evaluation"
    ]
    run = parse(folder / FILE, 1, header, entries[0])
    last = entries[-1] if entries[-1]["kind"] == "end" else {}
    parse(folder / FILE, len(entries), _check_checkpoints, last)
    return replace(
        run,
        evaluations=tuple(evaluations),
        status=last.get("status", "unfinished"),
        error=last.get("error"),
        checkpoints=last.get("checkpoints", {}),
        stopped_early=last.get("stopped_early", False),
    )


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

    Raises:
        ValueError: a line is damaged.
    """
    plan: dict[str, _Result] = {}
    for number, line in enumerate(read_file(path).split(b"\n"), 1):
        try:
            values = json.loads(line) if line.strip() else {}
            if "config" in values:
                config = planned_config(values)
                plan.setdefault(config.id, make(config, values))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            cause = f"missing {error}" if isinstance(error, KeyError) else error
            raise ValueError(
                f"{path}, line {number}, is not a run: {str(cause).rstrip('.')}. Repair or remove "
                "that line, or give another folder."
            ) from error
    return plan


def planned_config(line: dict[str, Any]) -> RunConfig:
    """The configuration in a line of a plan; a line written by hand may lack ``method``."""
    config = RunConfig.from_json(line["config"])
    return config.with_facts(MethodFacts.from_json(line["method"])) if "method" in line else config


def _end(
    status: str, error: str | None, checkpoints: Mapping[str, int] | None, stopped_early: bool
) -> str:
    more = {"checkpoints": dict(checkpoints or {}), "stopped_early": stopped_early}
    known = {name: value for name, value in more.items() if value}
    return _line("end", {"status": status, "error": error, **known})


def _line(kind: str, values: Mapping[str, Any]) -> str:
    return to_json({"kind": kind, **values})


def _lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Complete lines of the file with their values."""
    *lines, _ = read_file(path).split(b"\n")
    for number, line in enumerate(lines, 1):
        yield line + b"\n", entry(path, number, line)


def entry(path: Path, number: int, line: str | bytes) -> dict[str, Any]:
    """Decode a line of the file.

    Raises:
        RecordError: it is not a line of a record, or is out of place.
    """
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise damage(path, number, f"is not JSON: {error}") from error
    return check_entry(path, number, values)


def check_entry(path: Path, number: int, values: Any) -> dict[str, Any]:
    """Check and return the values of a decoded line.

    Raises:
        RecordError: they are not those of a line of a record, or are out of place.
    """
    kind = values.get("kind") if isinstance(values, dict) else None
    if not isinstance(kind, str) or kind not in _KEYS or not _KEYS[kind] <= values.keys():
        raise damage(path, number, "is not a line of a record")
    step = values.get("step", 0)
    if not isinstance(step, int) or not 0 <= step < 2**63:
        raise damage(path, number, f"cannot be read (step is {shown(step)})")
    worst = values.get("worst_domain")
    if not isinstance(worst, str | None):
        raise damage(path, number, f"cannot be read (worst_domain is {shown(worst)})")
    if kind == "end":
        for name, valid in (
            ("status", values["status"] in ("done", "failed")),
            ("error", isinstance(values["error"], str | None)),
        ):
            if not valid:
                raise damage(path, number, f"cannot be read ({name} is {shown(values[name])})")
    if (kind == "config") != (number == 1):
        raise damage(path, number, "is out of place: a record starts with its only configuration")
    return cast(dict[str, Any], values)


_KEYS = {
    "config": {"id", "config", "method"},
    "evaluation": {item.name for item in fields(Evaluation) if item.name != "gradients"},
    "end": {"status", "error"},
}
"""Keys that a line of each kind must have."""


def parse(
    path: Path, number: int, make: Callable[[dict[str, Any]], _Result], entry: dict[str, Any]
) -> _Result:
    """Apply ``make`` to the values of a line.

    Raises:
        RecordError: ``make`` fails.
    """
    try:
        return make(entry)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        cause = f"{type(error).__name__}: {error}"
        if isinstance(error, ValueError):
            cause = str(error).rstrip(".")
        raise damage(path, number, f"cannot be read ({cause})") from error


def _check_checkpoints(values: dict[str, Any]) -> None:
    check_json(values.get("checkpoints", {}), {str: int}, "checkpoints")


def header(values: dict[str, Any]) -> RunRecord:
    """A record without evaluations, from the values of its first line."""
    if not isinstance(values.get("id", ""), str):
        raise ValueError(f"id is {shown(values['id'])}")
    if "parts" in values:
        check_json(values["parts"], {str: {str: str | None}}, "parts")
    data = DataIdentity.from_json(values["data"]) if values.get("data") is not None else None
    about = MethodFacts.from_json(values["method"])
    config = RunConfig.from_json(values["config"], about)
    return RunRecord(config, data=data, parts=values.get("parts", {}))


def damage(path: Path, number: int, what: str) -> RecordError:
    """Error for a damaged line, with the cure."""
    return RecordError(
        f"{path}, line {number}, {what.rstrip('.')}. "
        f"Repair that line, or remove {path.parent} to train the run again."
    )
