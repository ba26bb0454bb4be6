"""Images packed into Parquet files, as the Hugging Face hub keeps them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from riskmatch.data.images.folder import EXTENSIONS
from riskmatch.data.progress import OnProgress

COLUMNS = ("image", "label", "domain")
BATCH = 256
"""Rows in memory at once."""


def unpack_parquet(
    files: Mapping[str, Path], tree: Path, on_progress: OnProgress | None = None
) -> None:
    """Write the images of Parquet files as ``tree/domain/class/number.extension``.

    ``image`` is a struct with ``bytes`` and the ``path`` they once had; ``label`` and ``domain``
    are names, or numbers whose names the file's own schema tells.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: a file is not of this kind.
    """
    written = 0
    for path in files.values():
        table, before, size = parquet_file(path), written, path.stat().st_size
        columns = table.schema_arrow.names
        if missing := [column for column in COLUMNS if column not in columns]:
            raise ValueError(f"{path} has no column {missing[0]!r}; it has {', '.join(columns)}")
        features = _features(table.schema_arrow.metadata)
        label, domain = (_namer(features.get(column, {})) for column in COLUMNS[1:])
        for batch in table.iter_batches(BATCH, columns=list(COLUMNS)):
            for row in batch.to_pylist():
                suffix = Path(row["image"]["path"] or "").suffix.lower()
                folder = tree / _folder(domain(row["domain"])) / _folder(label(row["label"]))
                folder.mkdir(parents=True, exist_ok=True)
                ending = suffix if suffix in EXTENSIONS else ".jpg"
                (folder / f"{written:06d}{ending}").write_bytes(row["image"]["bytes"])
                written += 1
            if on_progress is not None:
                share = (written - before) / table.metadata.num_rows
                on_progress(f"unpacking {path.name}", round(share * size), size)


def parquet_file(path: Path) -> Any:
    """The Parquet file at ``path``, opened; ``ValueError`` where it is damaged."""
    try:
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError(
            f"{path} is a Parquet file, which pyarrow reads: pip install 'riskmatch[parquet]'"
        ) from error
    try:
        return pyarrow.parquet.ParquetFile(path)
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{path} is damaged, or no Parquet file: {error}") from error


def check_parquet(path: Path) -> None:
    """Raise ``ValueError`` unless a file begins and ends as a Parquet file does."""
    with open(path, "rb") as file:
        begin = file.read(4)
        file.seek(-min(4, path.stat().st_size), 2)
        if (begin, file.read(4)) != (b"PAR1", b"PAR1"):
            raise ValueError("not a whole Parquet file")


def _features(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """What the hub wrote about the columns."""
    told = json.loads((metadata or {}).get(b"huggingface", b"{}"))
    features = told.get("info", {}).get("features", {})
    return features if isinstance(features, dict) else {}


def _namer(feature: Mapping[str, Any]) -> Callable[[Any], str]:
    names = feature.get("names")
    if isinstance(names, list):
        return lambda value: str(names[value])
    return str


def _folder(name: str) -> str:
    """A name as that of one folder, whatever the file says."""
    if name in ("", ".", "..") or any(sign in name for sign in "/\\:\0"):
        raise ValueError(f"{name!r} cannot be the name of a folder")
    return name
