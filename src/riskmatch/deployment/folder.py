"""The folder of a model: JSON, safetensors and a card, with checksums; nothing is pickled.

| file | contents |
| --- | --- |
| ``model.json`` | network, preprocessing, task, classes, domains, expected accuracy, checksums |
| ``weights.safetensors`` | weights and buffers of the network |
| ``held_out.safetensors`` | scores of held-out samples of every domain |
| ``left_out.safetensors`` | what models trained without a domain say on it; need not be there |
| ``README.md``, ``risks.png`` | the model card and its figure; they may be edited |

Other files in the folder are left alone. New files replace those of the model together: they are
staged in the folder :data:`STAGED`, which counts from the moment it has its name.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riskmatch.files import (
    free_name,
    make_folder,
    read_file,
    refuse_link,
    sha256,
    to_json,
    write_whole,
)
from riskmatch.metrics import ACCURACY, METRICS, MetricFacts
from riskmatch.runs import records
from riskmatch.runs.method import part_title
from riskmatch.statistics import at_least_worst
from riskmatch.validation import check_json

FORMAT = "riskmatch model 2"
MODEL, WEIGHTS, HELD_OUT = "model.json", "weights.safetensors", "held_out.safetensors"
LEFT_OUT = "left_out.safetensors"
HELD_OUT_COLUMNS = "label", "predicted", "confidence", "risk", "features"
"""Arrays of held-out samples."""
CARD, FIGURE = "README.md", "risks.png"
CHECKED = (WEIGHTS, HELD_OUT)
"""Files whose checksums are verified, as is that of ``left_out.safetensors`` where there is one;
those of card and figure show whether they were edited."""
EXPORTS = ("model.onnx", "model.pt2")
"""Files that :func:`riskmatch.export` writes to the folder unless it is given another path."""
STAGED = ".replacement"
"""Folder of new files inside the model folder, while they replace older ones."""
SCHEMA: dict[str, Any] = {
    "network": {
        "name": str,
        "input_shape": Sequence[int],
        "outputs": int,
        "dropout": float,
        "options": Mapping[str, Any],
        "preprocess": str | None,
    },
    "preprocessing": {"kind": str},
    "task": Mapping[str, Any],
    "labels": str,
    "classes": Sequence[str],
    "domains": {str: {"trained_on": bool}},
    "expected": Mapping[str, float] | None,
    "licence": str | None,
    "run": {"config": Mapping[str, Any], "method": Mapping[str, Any]},
    "versions": {str: str},
}
"""Values of ``model.json`` that loading a model reads, and their types."""
_IDENTITY: dict[str, Any] = {
    "format": str,
    "files": {str: str},
    "run": {"id": str, "config": {"data": str, "method": str}},
}
"""Values that writing over a model reads."""
_INTERVAL = dict.fromkeys(("low", "high", "level"), float)
_SEEN: dict[str, Any] = {"worst": float, "sites": int}


@dataclass(frozen=True)
class Expected:
    """What to expect of a metric on an unseen domain, with a prediction interval."""

    value: float
    low: float
    high: float
    level: float = 0.9
    """Probability that the metric on one new domain is between ``low`` and ``high``."""
    metric: str = ACCURACY
    """Name of the metric."""
    worst: float | None = None
    """The worst value on a domain that was left out; None where it is unknown."""
    sites: int = 0
    """Number of domains that were left out; siblings count as one."""

    def __post_init__(self) -> None:
        check_json(self.to_json(), {self.metric: float, **_INTERVAL}, "expected")
        lowest, highest = self.facts.range
        below = -math.inf if lowest is None else lowest
        above = math.inf if highest is None else highest
        if self.worst is not None and self.sites < 1:
            raise ValueError(f"expected.sites must be at least 1, got {self.sites}.")
        if not below <= self.low <= self.value <= self.high <= above or not 0 < self.level < 1:
            start = "" if lowest is None else f"{lowest} ≤ "
            end = "" if highest is None else f" ≤ {highest}"
            raise ValueError(
                f"expected needs {start}low ≤ {self.metric} ≤ high{end} and a level in (0, 1), got "
                f"{self.to_json()}."
            )

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}] ({self.level:.0%})"

    def shown(self, value: float) -> str:
        """A value of the metric, in per cent where it lies between 0 and 1."""
        return self.facts.shown(value) + "%" * self.facts.percent

    @property
    def at_least(self) -> str:
        """The statement that holds for any distribution of domains; empty without the worst value.

        Example:
            >>> Expected(0.8, 0.6, 0.9, worst=0.71, sites=4).at_least
            'at least the worst seen (71.0%) with probability 0.8'
        """
        if self.worst is None:
            return ""
        bound = "least" if self.facts.higher else "most"
        share = at_least_worst(self.sites)
        return f"at {bound} the worst seen ({self.shown(self.worst)}) with probability {share:.2g}"

    @property
    def facts(self) -> MetricFacts:
        """What is known about the metric; of one that is not built in its name alone."""
        return METRICS.get(self.metric) or MetricFacts(part_title(self.metric))

    def to_json(self) -> dict[str, float]:
        """The value by the name of the metric, the interval, and the worst value if it is known."""
        values = {self.metric: self.value, **{name: getattr(self, name) for name in _INTERVAL}}
        seen = {} if self.worst is None else {"worst": self.worst, "sites": self.sites}
        return {**values, **seen}

    @classmethod
    def from_json(cls, values: Any) -> Expected | None:
        """The expectation from the values of :meth:`to_json`; None from null."""
        if values is None:
            return None
        seen = {name: values[name] for name in _SEEN if name in values}
        check_json(values, {**_INTERVAL, **(_SEEN if seen else {})}, "expected")
        named = [name for name in values if name not in (*_INTERVAL, *seen)]
        metric = ACCURACY if ACCURACY in values or not named else named[0]
        check_json(values, {metric: float}, "expected")
        return cls(values[metric], values["low"], values["high"], values["level"], metric, **seen)


class ModelError(ValueError):
    """A folder is no model folder, or is damaged; the message states cause and cure."""


def write_folder(
    path: Path, values: Mapping[str, Any], files: Mapping[str, bytes], overwrite: bool = False
) -> list[str]:
    """Write a model folder, whole or not at all; files that are not of the model stay.

    Of the same model only files that changed are written, and neither an edited card nor an edited
    figure; sites that were left out are kept. Of another model, which ``overwrite`` replaces,
    edited ones are copied first, and files that :func:`riskmatch.export` wrote are removed.

    Args:
        path: the folder.
        values: contents of ``model.json`` but for format and checksums; with the checksums of files
            that stay as they are.
        files: contents of the other files by name.
        overwrite: replace another model.

    Returns:
        A sentence about each edited or removed file.

    Raises:
        ModelError: there is another model, or something else, at ``path``.
    """
    content = {"format": FORMAT, **values}
    stated = {**values.get("files", {}), **{name: sha256(data) for name, data in files.items()}}
    content = json.loads(to_json({**content, "files": stated}))
    content.pop("sha256", None)
    before = check_writable(path, content, overwrite)
    if before and not _difference(before, content):
        _keep_left_out(path, before, content)
    last = {name: content.pop(name) for name in ("left_out", "files") if name in content}
    content = {**content, **last, "sha256": own_checksum({**content, **last})}
    files = {**files, MODEL: (to_json(content, indent=2) + "\n").encode()}
    make_folder(path.parent)
    if not path.exists():
        _stage(path.with_name(f".{path.name}.riskmatch.tmp"), path, files)
        return []
    _finish(path)
    before = before or content
    other = _difference(before, content)
    current = {name: read_file(path / name) for name in files if (path / name).exists()}
    changed = {name: data for name, data in files.items() if current.get(name) != data}
    sentences = []
    for name in (CARD, FIGURE):
        edited = name in current and sha256(current[name]) != before["files"].get(name)
        if not edited or name not in changed:
            continue
        if other:
            copy = free_name(path / name)
            write_whole(copy, current[name])
            sentences.append(f"{path / name} was edited: it is now {copy.name}.")
        else:
            del changed[name]
            cure = "remove it to have it written again"
            sentences.append(f"{path / name} was edited and is kept; {cure}.")
    if changed:
        _stage(path / f"{STAGED}.tmp", path / STAGED, changed)
        _finish(path)
    if LEFT_OUT not in content["files"]:
        (path / LEFT_OUT).unlink(missing_ok=True)  # of another model
    for name in EXPORTS if other else ():
        if is_export(path / name, before["run"]["id"]):
            (path / name).unlink()
            sentences.append(f"{path / name} was exported from the replaced model and is removed.")
    return sentences


def _keep_left_out(path: Path, before: Mapping[str, Any], content: dict[str, Any]) -> None:
    """State the left-out sites of the same model in new contents too, unless they are damaged."""
    stated, place = before["files"].get(LEFT_OUT), _place(path, LEFT_OUT)
    if stated and place.exists() and sha256(read_file(place)) == stated:
        content.setdefault("left_out", before.get("left_out"))
        content["files"].setdefault(LEFT_OUT, stated)


def check_writable(
    path: Path, content: Mapping[str, Any], overwrite: bool = False
) -> dict[str, Any] | None:
    """Check that a model can be written to ``path``.

    Args:
        path: the folder.
        content: what is known of the new ``model.json``, at least the id of the run.
        overwrite: allow another model there.

    Returns:
        ``model.json`` of the model that is there; None if there is nothing.

    Raises:
        ModelError: there is another model, or something else.
    """
    refuse_link(path)
    if not path.exists() or (path.is_dir() and not {*os.listdir(path)} - {f"{STAGED}.tmp"}):
        return None
    try:
        before: dict[str, Any] = json.loads(read_file(_place(path, MODEL)))
        check_json(before, _IDENTITY)
        if not before["format"].startswith(FORMAT[:-1]):  # any version
            raise ValueError(f"its format is {before['format']!r}")
    except (OSError, ValueError, RecursionError) as error:
        message = f"{path} exists and is no model folder. Give another path."
        raise ModelError(message) from error
    for name in (MODEL, WEIGHTS, HELD_OUT, LEFT_OUT, CARD, FIGURE):
        if (path / name).is_dir():
            raise ModelError(f"{path / name} is a folder in place of a file. Move it away.")
    if not overwrite and (other := _difference(before, content)):
        raise another_model(path, other)
    return before


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """What the model in a folder is, where it is another one; empty if it is the same."""
    old, new = before["run"], after["run"]
    if old["id"] != new["id"]:
        return f"{old['config']['method']} on {old['config']['data']}, run {old['id']}"
    if "data" in new and old.get("data") != new["data"]:
        return "the same run on other data"
    if "step" in new and old.get("step") != new["step"]:
        return f"step {old.get('step')} of the same run, not step {new['step']}"
    if "files" in after and before["files"].get(WEIGHTS) != after["files"][WEIGHTS]:
        return "other weights of the same run"
    return ""


def another_model(path: Path, what: str) -> ModelError:
    """The error for a folder that holds another model, with the cure."""
    return ModelError(
        f"{path} holds another model ({what}). Replace it with --overwrite (overwrite=True), or "
        "give another path."
    )


def is_export(path: Path, run: str | None = None) -> bool:
    """Whether a file was exported by riskmatch, from the model of this run where it is given."""
    pattern = b'"run": "%s"' % (b"[0-9a-f]+" if run is None else re.escape(run).encode())
    if not path.is_file() or path.stat().st_size == 0:
        return False
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return re.search(pattern, data) is not None


def _stage(temporary: Path, folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files to a new folder, which appears whole or not at all."""
    refuse_link(temporary)
    shutil.rmtree(temporary, ignore_errors=True)  # of a process that was killed
    try:
        temporary.mkdir()
        for name, data in files.items():
            write_whole(temporary / name, data)
        os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _finish(path: Path) -> None:
    """Move staged files to their places; ``model.json`` is last, as :func:`_place` assumes."""
    refuse_link(path / STAGED)
    if (path / STAGED).is_dir():
        for name in (WEIGHTS, HELD_OUT, LEFT_OUT, CARD, FIGURE, MODEL):
            if (path / STAGED / name).exists():
                os.replace(path / STAGED / name, path / name)
        (path / STAGED).rmdir()


def _place(path: Path, name: str) -> Path:
    """Where a file of a model is: staged, if a process was killed while it replaced the model."""
    staged = path / STAGED / name
    return staged if staged.exists() else path / name


def read_folder(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """``model.json`` and the contents of the files with checksums, which are verified.

    Raises:
        ModelError: it is no model folder, one of another version, or damaged.
        OSError: a file cannot be read.
    """
    if not path.is_dir():
        what = f"{path} is a file, not a model folder" if path.exists() else f"There is no {path}"
        raise ModelError(f"{what}. Give the folder that riskmatch train --all-domains wrote.")
    if not _place(path, MODEL).exists():
        cure = "riskmatch train --all-domains writes one"
        if (path / MODEL[:-5] / MODEL).exists():
            cure = f"did you mean {path / MODEL[:-5]}?"
        elif (path / records.FILE).exists():
            code = f"import riskmatch; riskmatch.save_model({str(path)!r}, {str(path / 'model')!r})"
            cure = f"it is the folder of a run, of which this makes one in {path / 'model'}: "
            cure += shlex.join([sys.executable, "-c", code])
        raise ModelError(f"{path} is no model folder, it has no {MODEL}: {cure}")
    try:
        values = json.loads(read_file(_place(path, MODEL)))
        check_format(values, FORMAT)
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"{path / MODEL} cannot be used: {str(error).rstrip('.')}. Copy the folder again, or "
            "train the model again with this version."
        ) from error
    stated = values.get("files")
    if values.get("sha256") != own_checksum(values) or not isinstance(stated, Mapping):
        raise damaged(path / MODEL, "its checksum does not match its contents")
    files = {}
    for name in (*CHECKED, *(name for name in (LEFT_OUT,) if name in stated)):
        place = _place(path, name)
        if not place.exists():
            raise damaged(place, "it is missing")
        files[name] = read_file(place)
        if sha256(files[name]) != stated.get(name):
            size = len(files[name])
            raise damaged(path / name, f"its {size:,} bytes do not match the checksum in {MODEL}")
    try:
        check_json(values, SCHEMA)
        check_json(values.get("table") or {}, {str: str}, "table")
    except ValueError as error:
        raise damaged(path / MODEL, str(error).rstrip(".")) from error
    return values, files


def damaged(path: Path, cause: str) -> ModelError:
    """Error for a file of a model folder that cannot be used, with the cure."""
    return ModelError(
        f"{path} is damaged or was changed: {cause}. Copy the model folder again from its source, "
        "or train the model again."
    )


def own_checksum(values: Mapping[str, Any]) -> str:
    """SHA-256 of JSON values other than ``sha256``, as which a file states it."""
    rest = {name: value for name, value in values.items() if name != "sha256"}
    text = json.dumps(json.loads(to_json(rest)), sort_keys=True)
    return sha256(text)


def check_format(values: Any, expected: str) -> None:
    """Raise ``ValueError`` unless a JSON value is a table in the format ``expected``."""
    if not isinstance(values, Mapping) or "format" not in values:
        raise ValueError(f'it is no table with "format": "{expected}"')
    if values["format"] != expected:
        raise ValueError(
            f"its format is {values['format']!r}, and this version of riskmatch reads {expected!r}"
        )
