"""The folder of a model: JSON, safetensors and a card, with checksums; nothing is pickled.

| file | contents |
| --- | --- |
| ``model.json`` | network, preprocessing, classes, domains, expected accuracy, checksums |
| ``weights.safetensors`` | weights and buffers of the network |
| ``held_out.safetensors`` | scores of held-out samples of every domain |
| ``README.md``, ``risks.png`` | the model card and its figure; they may be edited |
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from riskmatch.deployment.advice import check_format
from riskmatch.files import make_folder, read_file, refuse_link, to_json, write_whole
from riskmatch.runs import records
from riskmatch.validation import check_json

FORMAT = "riskmatch model 1"
MODEL, WEIGHTS, HELD_OUT = "model.json", "weights.safetensors", "held_out.safetensors"
CARD, FIGURE = "README.md", "risks.png"
CHECKED = (WEIGHTS, HELD_OUT)
"""Files whose checksums ``model.json`` holds."""
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
    "classes": Sequence[str],
    "domains": {str: {"trained_on": bool}},
    "expected": Mapping[str, float] | None,
    "run": {"config": Mapping[str, Any]},
}
"""Values of ``model.json`` that loading a model reads, and their types."""


class ModelError(ValueError):
    """A folder is no model folder, or is damaged; the message states cause and cure."""


def write_folder(path: Path, values: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """Write a model folder, whole or not at all; an earlier model folder is replaced.

    Args:
        path: the folder.
        values: contents of ``model.json`` but for format and checksums.
        files: contents of the other files by name.

    Raises:
        ModelError: there is something else at ``path``.
    """
    check_writable(path)
    content = {"format": FORMAT, **values}
    content["files"] = {name: _sha256(files[name]) for name in CHECKED}
    content["sha256"] = _own_checksum(content)
    make_folder(path.parent)
    temporary, before = (path.with_name(f".{path.name}.{end}") for end in ("tmp", "before"))
    refuse_link(temporary)
    shutil.rmtree(temporary, ignore_errors=True)  # of a process that was killed
    try:
        temporary.mkdir()
        for name, data in files.items():
            write_whole(temporary / name, data)
        write_whole(temporary / MODEL, (to_json(content, indent=2) + "\n").encode())
        if path.exists():
            shutil.rmtree(before, ignore_errors=True)
            os.replace(path, before)
        os.replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(before, ignore_errors=True)


def check_writable(path: Path) -> None:
    """Raise :class:`ModelError` if something other than a model folder is at ``path``."""
    refuse_link(path)
    empty = not path.exists() or (path.is_dir() and not any(path.iterdir()))
    if not empty and not (path / MODEL).exists():
        raise ModelError(f"{path} exists and is no model folder. Give another path.")


def read_folder(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """``model.json`` and the contents of the files with checksums, which are verified.

    Raises:
        ModelError: it is no model folder, one of another version, or damaged.
        OSError: a file cannot be read.
    """
    if not path.is_dir():
        what = f"{path} is a file, not a model folder" if path.exists() else f"There is no {path}"
        raise ModelError(f"{what}. Give the folder that riskmatch train --all-domains wrote.")
    if not (path / MODEL).exists():
        cure = "riskmatch train --all-domains writes one"
        if (path / MODEL[:-5] / MODEL).exists():
            cure = f"did you mean {path / MODEL[:-5]}?"
        elif (path / records.FILE).exists():
            cure = f"it is the folder of a run: riskmatch.save_model('{path}', 'model') writes one"
        raise ModelError(f"{path} is no model folder, it has no {MODEL}: {cure}")
    try:
        values = json.loads(read_file(path / MODEL))
        check_format(values, FORMAT)
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"{path / MODEL} cannot be used: {str(error).rstrip('.')}. Copy the folder again, or "
            "train the model again with this version."
        ) from error
    stated = values.get("files")
    if values.get("sha256") != _own_checksum(values) or not isinstance(stated, Mapping):
        raise damaged(path / MODEL, "its checksum does not match its contents")
    files = {}
    for name in CHECKED:
        if not (path / name).exists():
            raise damaged(path / name, "it is missing")
        files[name] = read_file(path / name)
        if _sha256(files[name]) != stated.get(name):
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


def _own_checksum(values: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in values.items() if name != "sha256"}
    return _sha256(json.dumps(json.loads(to_json(rest)), sort_keys=True).encode())


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
