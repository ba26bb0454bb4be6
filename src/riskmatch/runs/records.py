"""What a run leaves behind: a folder of its id with one append-only file of JSON lines.

The first line is the configuration and what the data were, then comes one line per evaluation, and
at the end whether the run is done or failed. A line counts once its newline is there. Numbers that
are not finite are written as null and read as NaN.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeVar

from riskmatch.files import append_line, write_whole
from riskmatch.runs.config import RunConfig
from riskmatch.runs.identity import DataIdentity

FILE = "records.jsonl"
LEVELS = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Of the quantiles in a :class:`Score`."""

Split = Literal["train", "val"]
_Made = TypeVar("_Made")


@dataclass(frozen=True)
class Score:
    """A model on one split of one domain."""

    accuracy: float
    risk: float
    """The mean risk."""
    quantiles: tuple[float, ...]
    """Of the risks, at ``LEVELS``."""


@dataclass(frozen=True)
class Evaluation:
    """A run after so many steps."""

    step: int
    scores: Mapping[str, Mapping[Split, Score]]
    """By domain, training and test domains alike, and by split of the domain."""
    loss: float
    terms: Mapping[str, float]
    """The terms of the last step; their sum is the loss."""
    raw: Mapping[str, float]
    """The unweighted penalties of the last step."""
    worst_domain: str
    """The training domain with the largest mean risk on its training split."""
    seconds: float
    """Since the run began, over all its processes."""
    seconds_per_step: float
    """Mean since the previous evaluation, without the time of evaluations and checkpoints."""
    peak_memory: int
    """Bytes held at once by the steps since the previous evaluation, without what evaluations take:
    of the process, or of the device where it is a GPU."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Evaluation:
        """The evaluation of a line of the file."""
        scores = {
            domain: {
                split: Score(**{**score, "quantiles": tuple(score["quantiles"])})
                for split, score in splits.items()
            }
            for domain, splits in values["scores"].items()
        }
        return cls(**{**values, "scores": scores})


Status = Literal["unfinished", "done", "failed"]


@dataclass(frozen=True)
class RunRecord:
    """A run as its file tells it."""

    config: RunConfig
    evaluations: tuple[Evaluation, ...] = ()
    status: Status = "unfinished"
    error: str | None = None
    """Why it failed."""
    data: DataIdentity | None = None
    """Identity of the data; None if the file does not state it."""
    parts: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    """Origin of each part that is not built in (name, distribution, version, sha256), by kind."""


class RecordError(ValueError):
    """A file of a run is damaged; the message says where and what to do."""


@dataclass(frozen=True)
class Standing:
    """How far a run is."""

    status: Status = "unfinished"
    error: str | None = None
    """Why it failed."""
    step: int = 0
    """Of the last evaluation."""
    seconds: float = 0.0
    """Since the run began, at that step."""


def start(
    folder: Path,
    config: RunConfig,
    data: DataIdentity | None = None,
    parts: Mapping[str, Mapping[str, str | None]] | None = None,
) -> None:
    """Start the file of a run with its configuration, in place of any earlier file."""
    folder.mkdir(parents=True, exist_ok=True)
    run = RunRecord(config, data=data, parts=parts or {})
    write_whole(folder / FILE, (_first_line(run) + "\n").encode())


def append(folder: Path, evaluation: Evaluation) -> None:
    """Add an evaluation to the file of a run."""
    append_line(folder / FILE, _line("evaluation", asdict(evaluation)))


def forget(folder: Path) -> None:
    """Let a run that was done start again: its record goes, unless the run is unfinished."""
    found = find(folder)
    if found is not None and found.status == "done":
        (folder / FILE).unlink()


def end(folder: Path, status: Literal["done", "failed"], error: str | None = None) -> None:
    """Close the file of a run."""
    append_line(folder / FILE, _line("end", {"status": status, "error": error}))


def write(folder: Path, run: RunRecord) -> bool:
    """Write a run that is known whole; returns whether that changed its file."""
    lines = [_first_line(run)]
    lines += [_line("evaluation", asdict(evaluation)) for evaluation in run.evaluations]
    if run.status != "unfinished":
        lines.append(_line("end", {"status": run.status, "error": run.error}))
    data = "".join(line + "\n" for line in lines).encode()
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / FILE).exists() and (folder / FILE).read_bytes() == data:
        return False
    write_whole(folder / FILE, data)
    return True


def rewind(folder: Path, step: int) -> None:
    """Drop what the file says of later steps, of the end, and in a torn last line."""
    kept = [
        line
        for line, values in _lines(folder / FILE)
        if values["kind"] == "config" or (values["kind"] == "evaluation" and values["step"] <= step)
    ]
    write_whole(folder / FILE, b"".join(kept))


def find(folder: Path) -> RunRecord | None:
    """The run in ``folder``; None where there is no file yet, or not even a whole first line.

    Raises:
        RecordError: a line is not what it should be.
    """
    if not (folder / FILE).exists():
        return None
    entries = [values for _, values in _lines(folder / FILE)]
    if not entries:
        return None
    evaluations = [
        parse(folder / FILE, number, _evaluation, values)
        for number, values in enumerate(entries, 1)
        if values["kind"] == "evaluation"
    ]
    run = parse(folder / FILE, 1, _begun, entries[0])
    last = entries[-1] if entries[-1]["kind"] == "end" else {}
    return replace(
        run,
        evaluations=tuple(evaluations),
        status=last.get("status", "unfinished"),
        error=last.get("error"),
    )


def standing(folder: Path) -> Standing | None:
    """How far the run in ``folder`` is, by the last two lines of its file; None as in :func:`find`.

    This is what to ask of thousands of runs.
    """
    try:
        whole = (folder / FILE).read_bytes().rpartition(b"\n")[0]
    except FileNotFoundError:
        return None
    if not whole:
        return None
    lines = whole.rsplit(b"\n", 2)[-2:]
    first = whole.count(b"\n") + 2 - len(lines)
    last = [entry(folder / FILE, number, line) for number, line in enumerate(lines, first)]
    end = last.pop() if last[-1]["kind"] == "end" else {}
    at = last[-1] if last and last[-1]["kind"] == "evaluation" else {}
    return Standing(
        status=end.get("status", "unfinished"),
        error=end.get("error"),
        step=at.get("step", 0),
        seconds=at.get("seconds") or 0.0,  # null where nobody took the time
    )


def read(path: Path) -> RunRecord:
    """The run in the folder, or the file, ``path``."""
    folder = path.parent if path.name == FILE else path
    run = find(folder)
    if run is None:
        raise FileNotFoundError(f"{folder} holds no run: it has no {FILE} with a configuration.")
    return run


def read_all(out: Path) -> list[RunRecord]:
    """The runs whose folders are in ``out``, by id."""
    found = (find(path.parent) for path in sorted(out.glob(f"*/{FILE}")))
    return [run for run in found if run is not None]


def _first_line(run: RunRecord) -> str:
    values = {"version": version("riskmatch"), "id": run.config.id, "config": run.config.to_json()}
    if run.data is not None:
        values["data"] = run.data.to_json()
    if run.parts:
        values["parts"] = run.parts
    return _line("config", values)


def _line(kind: str, values: Mapping[str, Any]) -> str:
    return json.dumps(_plain({"kind": kind, **values}), allow_nan=False, ensure_ascii=False)


def _lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The whole lines of the file, with what they say; a torn last line is left out."""
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            return
        yield line, entry(path, number, line)


def entry(path: Path, number: int, line: bytes) -> dict[str, Any]:
    """The values of a line of the file.

    Raises:
        RecordError: it is not a line of a record, or not at its place.
    """
    try:
        values = json.loads(line)
    except ValueError as error:
        raise damage(path, number, f"is not JSON: {error}") from error
    kind = values.get("kind") if isinstance(values, dict) else None
    if kind not in _KEYS or not _KEYS[kind] <= values.keys():
        raise damage(path, number, "is no line of a record")
    if (kind == "config") != (number == 1):
        raise damage(path, number, "is out of place: a record begins with its only configuration")
    return dict(values)


_KEYS = {
    "config": {"config"},
    "evaluation": {item.name for item in fields(Evaluation)},
    "end": {"status", "error"},
}
"""What a line of each kind says."""


def parse(
    path: Path, number: int, make: Callable[[dict[str, Any]], _Made], entry: dict[str, Any]
) -> _Made:
    """The result of ``make`` on the values of a line.

    Raises:
        RecordError: ``make`` fails.
    """
    try:
        return make({name: value for name, value in entry.items() if name != "kind"})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise damage(path, number, f"cannot be read ({type(error).__name__}: {error})") from error


def _begun(values: dict[str, Any]) -> RunRecord:
    config, data = RunConfig.from_json(values["config"]), values.get("data")
    identity = None if data is None else DataIdentity.from_json(data)
    return RunRecord(config, data=identity, parts=values.get("parts", {}))


def _evaluation(values: dict[str, Any]) -> Evaluation:
    return Evaluation.from_json(_numbers(values))


def damage(path: Path, number: int, what: str) -> RecordError:
    """The error of a damaged line, with what to do about it."""
    return RecordError(
        f"{path}, line {number}, {what.rstrip('.')}. "
        f"Mend that line, or remove {path.parent} to train the run again."
    )


def _plain(value: Any) -> Any:
    """``value`` with None for every number that is not finite."""
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _numbers(value: Any) -> Any:
    """``value`` with NaN for every None."""
    if isinstance(value, dict):
        return {key: _numbers(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_numbers(entry) for entry in value]
    return math.nan if value is None else value
