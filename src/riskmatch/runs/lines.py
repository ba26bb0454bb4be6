"""Read the lines of a record as typed values; whatever reads a record finds the same damage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from riskmatch.files import read_file

FILE = "records.jsonl"
"""The record in the folder of a run."""
Number = float | None
"""A number that may be NaN, which is written as null."""
Step = Annotated[int, Meta(ge=0, le=2**63 - 1)]
MAX_CHANGES = 4
"""Most changes that a message lists."""


@dataclass(frozen=True)
class DataIdentity:
    """Classes, number of samples and content of a data set."""

    classes: tuple[str, ...]
    """Names of the classes by label; the labels if they have no names."""
    samples: Mapping[str, int]
    """Number of samples by domain."""
    content: str = ""
    """Hash of inputs and labels; empty if the samples were not read."""

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
        return {**asdict(self), "classes": list(self.classes)}


class Header(Struct, tag_field="kind", tag="config"):
    """First line: the configuration, and what is known about it."""

    id: str
    config: dict[str, Any]
    method: Raw
    """See :func:`riskmatch.runs.method.decode_facts`."""
    data: DataIdentity | None = None
    parts: dict[str, dict[str, str | None]] = {}


class ScoreEntry(Struct, gc=False):
    """A :class:`~riskmatch.runs.scores.Score`."""

    accuracy: Number
    risk: Number
    quantiles: list[Number]


class EvaluationLine(Struct, tag_field="kind", tag="evaluation", gc=False):
    """An :class:`~riskmatch.runs.scores.Evaluation`."""

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


def read_lines(path: Path) -> tuple[Header, list[EvaluationLine], End | None] | None:
    """The complete lines of a record; None without any.

    Raises:
        RecordError: a line is damaged or out of place.
        OSError: the file cannot be read.
    """
    data = read_file(path)
    data = data[: data.rfind(b"\n") + 1]
    try:
        lines = _LINE.decode_lines(data)
    except _DAMAGE:
        lines = [_decoded(path, number, line) for number, line in numbered(data)]
    if not lines:
        return None
    for number, line in enumerate(lines, 1):
        if isinstance(line, Header) != (number == 1):
            raise damage(
                path, number, "is out of place: a record starts with its only configuration"
            )
    header, *others = lines
    evaluations = [line for line in others if isinstance(line, EvaluationLine)]
    end = lines[-1] if isinstance(lines[-1], End) else None
    assert isinstance(header, Header)
    return header, evaluations, end


def numbered(data: bytes) -> list[tuple[int, bytes]]:
    """Complete lines of a file with their numbers, from 1."""
    return list(enumerate(data.split(b"\n")[:-1], 1))


def damage(path: Path, number: int, what: object) -> RecordError:
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
        raise damage(path, number, f"is not a line of a record: {error}") from error
    except _DAMAGE as error:
        raise damage(path, number, f"is not JSON: {error}") from error
