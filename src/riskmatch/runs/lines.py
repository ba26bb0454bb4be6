"""Read the lines of a record as typed values; whatever reads a record finds the same damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from riskmatch.files import read_file
from riskmatch.runs.identity import DataIdentity
from riskmatch.validation import check_json

FILE = "records.jsonl"
"""The record in the folder of a run."""
Number = float | None
"""A number that may be NaN, which is written as null."""
Step = Annotated[int, Meta(ge=0, le=2**63 - 1)]


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
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
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
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        cause = error
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise damage(path, number, f"is not JSON: {error}") from error
    kind = values.get("kind") if isinstance(values, dict) else None
    schema = _SCHEMAS.get(kind) if isinstance(kind, str) else None
    if schema is None or not _REQUIRED[kind] <= values.keys():
        raise damage(path, number, "is not a line of a record")
    try:
        check_json(values, {name: type_ for name, type_ in schema.items() if name in values})
    except ValueError as error:
        raise damage(path, number, f"cannot be read ({str(error).rstrip('.')})") from error
    raise damage(path, number, f"cannot be read ({cause})") from cause


_SCORE = {"accuracy": Number, "risk": Number, "quantiles": [Number]}
_SCHEMAS: dict[str, dict[str, Any]] = {
    "config": {
        "id": str,
        "config": {str: Any},
        "data": {"classes": [str], "samples": {str: int}, "content": str},
        "parts": {str: {str: str | None}},
    },
    "evaluation": {
        "step": int,
        "worst_domain": str | None,
        "scores": {str: {str: _SCORE}},
        **{name: {str: Number} for name in ("terms", "raw", "gradients")},
        **dict.fromkeys(("loss", "seconds", "seconds_per_step", "peak_memory"), Number),
    },
    "end": {"status": str, "error": str | None, "checkpoints": {str: int}},
}
"""What messages about damaged lines name: :func:`riskmatch.validation.check_json` has the value."""
_REQUIRED: dict[Any, set[str]] = {
    type_.__struct_config__.tag: {
        item.encode_name for item in msgspec.structs.fields(type_) if item.required
    }
    for type_ in (Header, EvaluationLine, End)
}
"""Keys that a line of each kind must have."""
