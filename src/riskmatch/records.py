"""What a run leaves behind: a folder of its id with one append-only file of JSON lines.

The first line is the configuration, then comes one line per evaluation, and at the end whether the
run is done or failed. A line counts once its newline is there. Numbers that are not finite are
written as null and read as NaN.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from riskmatch.config import RunConfig
from riskmatch.durable import append_line, write_whole

FILE = "records.jsonl"
LEVELS = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Of the quantiles in a :class:`Score`."""

Split = Literal["train", "val"]


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


def start(folder: Path, config: RunConfig) -> None:
    """Begin the file of a run with its configuration, in place of any earlier file."""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / FILE, (_first_line(config) + "\n").encode())


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
    lines = [_first_line(run.config)]
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
    """The run in ``folder``; None where there is no file yet, or not even a whole first line."""
    if not (folder / FILE).exists():
        return None
    entries = [values for _, values in _lines(folder / FILE)]
    if not entries:
        return None
    if entries[0].get("kind") != "config":
        raise ValueError(f"{folder / FILE} does not begin with a configuration.")
    last = entries[-1] if entries[-1]["kind"] == "end" else {}
    return RunRecord(
        RunConfig.from_json(entries[0]["config"]),
        tuple(
            Evaluation.from_json(_numbers({k: v for k, v in entry.items() if k != "kind"}))
            for entry in entries
            if entry["kind"] == "evaluation"
        ),
        last.get("status", "unfinished"),
        last.get("error"),
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
    try:
        last = [json.loads(line) for line in whole.rsplit(b"\n", 2)[-2:]]
    except ValueError as error:
        raise ValueError(f"{folder / FILE} is not JSON in its last lines: {error}") from error
    end = last.pop() if last[-1]["kind"] == "end" else {}
    at = last[-1] if last and last[-1]["kind"] == "evaluation" else {}
    return Standing(
        end.get("status", "unfinished"), end.get("error"), at.get("step", 0), at.get("seconds", 0.0)
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


def _first_line(config: RunConfig) -> str:
    values = {"version": version("riskmatch"), "id": config.id, "config": config.to_json()}
    return _line("config", values)


def _line(kind: str, values: Mapping[str, Any]) -> str:
    return json.dumps(_plain({"kind": kind, **values}), allow_nan=False, ensure_ascii=False)


def _lines(path: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The whole lines of the file, with what they say; a torn last line is left out."""
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            return
        try:
            yield line, json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}, is not JSON: {error}") from error


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
