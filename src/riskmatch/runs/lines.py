"""What the lines of a record hold, read once: whatever reads a record finds the same damage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Raw, Struct

from riskmatch.files import read_file
from riskmatch.runs.config import RunConfig
from riskmatch.runs.method import decode_facts
from riskmatch.runs.task import TaskFacts, decode_task

FILE = "records.jsonl"
"""The record in the folder of a run."""
Number = float | None
"""A number that may be NaN, which is written as null."""
Step = Annotated[int, Meta(ge=0, le=2**63 - 1)]
MAX_CHANGES = 4
"""Most changes that a message lists."""
LEVELS = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Levels of the quantiles in a :class:`Score`."""
Split = Literal["train", "val"]


@dataclass(frozen=True)
class DataIdentity:
    """Classes, number of samples and content of a data set."""

    classes: tuple[str, ...]
    """Names of the classes by label; the labels if they have no names."""
    samples: Mapping[str, int]
    """Number of samples by domain."""
    content: str = ""
    """Hash of inputs, labels and groups; empty if the samples were not read."""
    shared_groups: tuple[str, ...] = ()
    """Domains with groups that other domains have, too."""

    def changes(self, current: DataIdentity) -> str:
        """Describe how ``current`` differs, in one line; empty if it does not.

        Example:
            >>> before = DataIdentity(("cat", "dog"), {"ink": 6}, "1f")
            >>> before.changes(DataIdentity(("dog", "owl"), {"ink": 5}))
            "class 'cat' was removed, class 'owl' was added, 'ink' has 5 samples instead of 6"
            >>> before.changes(DataIdentity(("cat", "dog"), {"ink": 6}, "2e"))
            'the samples differ'
        """
        changes = [*self._classes(current), *self._samples(current)]
        if not changes and self.content and current.content and self.content != current.content:
            changes = ["the samples differ"]
        more = [f"and {len(changes) - MAX_CHANGES} more"] if len(changes) > MAX_CHANGES else []
        return ", ".join([*changes[:MAX_CHANGES], *more])

    def _classes(self, current: DataIdentity) -> Iterator[str]:
        before, now = set(self.classes), set(current.classes)  # labels may be 100,000
        removed = [name for name in self.classes if name not in now]
        added = [name for name in current.classes if name not in before]
        yield from (f"class '{name}' was removed" for name in removed)
        yield from (f"class '{name}' was added" for name in added)
        if not removed and not added and self.classes != current.classes:
            yield "the order of the classes differs"

    def _samples(self, current: DataIdentity) -> Iterator[str]:
        for name, count in self.samples.items():
            if name not in current.samples:
                yield f"domain '{name}' was removed"
            elif current.samples[name] != count:
                yield f"'{name}' has {current.samples[name]:,} samples instead of {count:,}"
        added = [name for name in current.samples if name not in self.samples]
        yield from (f"domain '{name}' was added" for name in added)

    def to_json(self) -> dict[str, Any]:
        """Identity as plain JSON values."""
        values = {**asdict(self), "classes": list(self.classes)}
        shared = list(values.pop("shared_groups"))
        return {**values, "shared_groups": shared} if shared else values


@dataclass(frozen=True)
class Score:
    """Score of a network on one split of one domain."""

    metrics: Mapping[str, float]
    """Metrics by name; NaN where one cannot be computed."""
    risk: float
    """Mean risk."""
    quantiles: tuple[float, ...]
    """Quantiles of the risks at :data:`LEVELS`."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why a metric cannot be computed, by its name."""


@dataclass(frozen=True)
class Evaluation:
    """Evaluation of a run after a step."""

    step: int
    scores: Mapping[str, Mapping[Split, Score]]
    """Scores by domain, training and test domains alike, and by split."""
    loss: float
    terms: Mapping[str, float]
    """Terms of the last step; their sum is the loss."""
    raw: Mapping[str, float]
    """Unweighted penalties of the last step."""
    worst_domain: str
    """Training domain with the largest mean risk on its training split."""
    seconds: float
    """Seconds since the run started, over all its processes."""
    seconds_per_step: float
    """Mean over the steps since the previous evaluation, without evaluations and checkpoints."""
    peak_memory: int
    """Peak memory of the steps since the previous evaluation, in bytes: of the process, or of the
    device if it is a GPU."""
    gradients: Mapping[str, float] = field(default_factory=dict)
    """Norms of the gradients of the ``risk`` and of the ``penalty`` of the next step, on a few
    training samples; empty before a penalty acts."""

    def to_json(self) -> dict[str, Any]:
        """The evaluation as plain values, for :func:`riskmatch.files.to_json`."""
        values = asdict(self)
        for splits in values["scores"].values():
            for score in splits.values():
                if not score["missing"]:
                    del score["missing"]
        return values


class Header(Struct, tag_field="kind", tag="config"):
    """First line: the configuration, and what is known about it."""

    id: str
    config: dict[str, Any]
    method: Raw
    """See :func:`riskmatch.runs.method.decode_facts`."""
    task: Raw
    """See :func:`riskmatch.runs.task.decode_task`."""
    data: DataIdentity | None = None
    parts: dict[str, dict[str, str | None]] = {}
    no_gradient: bool = False


class ScoreEntry(Struct, gc=False):
    """A :class:`Score`."""

    metrics: dict[str, Number]
    risk: Number
    quantiles: list[Number]
    missing: dict[str, str] | None = None


class EvaluationLine(Struct, tag_field="kind", tag="evaluation", gc=False):
    """An :class:`Evaluation`."""

    step: Step
    scores: dict[str, dict[str, ScoreEntry]]
    loss: Number
    terms: dict[str, Number]
    raw: dict[str, Number]
    worst_domain: str | None
    seconds: Number
    seconds_per_step: Number
    peak_memory: Number
    gradients: dict[str, Number] = {}


class End(Struct, tag_field="kind", tag="end"):
    """Last line of a run that has ended."""

    status: Literal["done", "failed"]
    error: str | None
    checkpoints: dict[str, int] = {}
    stopped_early: bool = False


Line = Header | EvaluationLine | End
_LINE: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)
_DAMAGE = msgspec.DecodeError, UnicodeDecodeError, RecursionError


class RecordError(ValueError):
    """The file of a run is damaged; the message names the line and the cure."""


class RecordLines(NamedTuple):
    """A record line by line."""

    config: RunConfig
    task: TaskFacts
    header: Header
    evaluations: list[EvaluationLine]
    end: End | None


def read_lines(path: Path) -> RecordLines | None:
    """The complete lines of a record; None if it has none or does not exist.

    Raises:
        RecordError: a line is damaged or out of place.
        OSError: the file cannot be read.
    """
    try:
        data = read_file(path)
    except FileNotFoundError:
        return None
    data = data[: data.rfind(b"\n") + 1]
    try:
        lines = _LINE.decode_lines(data)
    except _DAMAGE:
        lines = [_decoded(path, number, line) for number, line in numbered(data)]
    if not lines:
        return None
    for number, line in enumerate(lines, 1):
        if isinstance(line, Header) != (number == 1):
            raise _damage(
                path, number, "is out of place: a record starts with its only configuration"
            )
    header, *others = lines
    assert isinstance(header, Header)
    evaluations = [line for line in others if isinstance(line, EvaluationLine)]
    end = lines[-1] if isinstance(lines[-1], End) else None
    try:
        config = RunConfig.from_json(header.config, decode_facts(bytes(header.method)))
        task = decode_task(bytes(header.task))
    except (TypeError, ValueError) as error:
        raise _damage(path, 1, f"cannot be read ({str(error).rstrip('.')})") from error
    vars(config)["id"] = header.id
    return RecordLines(config, task, header, evaluations, end)


def numbered(data: bytes) -> list[tuple[int, bytes]]:
    """Complete lines of a file with their numbers, from 1."""
    return list(enumerate(data.split(b"\n")[:-1], 1))


def _damage(path: Path, number: int, what: object) -> RecordError:
    """Error for a damaged line, with the cure."""
    return RecordError(
        f"{path}, line {number}, {str(what).rstrip('.')}. "
        f"Repair that line, or remove {path.parent} to train the run again."
    )


def _decoded(path: Path, number: int, line: bytes) -> Line:
    """A line by itself, or an error that names its damage."""
    try:
        return _LINE.decode(line)
    except msgspec.ValidationError as error:
        raise _damage(path, number, f"is not a line of a record: {error}") from error
    except _DAMAGE as error:
        raise _damage(path, number, f"is not JSON: {error}") from error
