"""Features as a file for other programs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riskmatch.data.domain import Domain, DomainSet
from riskmatch.files import write_whole
from riskmatch.validation import check_option


def write_features(domains: DomainSet, file: Path) -> None:
    """Write what :func:`~riskmatch.embedding.embed` made: one row per sample and view.

    The columns are ``domain``, ``label``, ``class`` (the label's name, or the label where classes
    have none), ``view`` (0 is the image as it is) and ``features``.

    Args:
        domains: with inputs (n, width) or (n, views, width).
        file: ending in ``.parquet`` or ``.npz``.
    """
    check_option("kind of features file", file.suffix, _WRITERS)
    parts = [_columns(domains, domain) for domain in domains.domains]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    write_whole(file, _WRITERS[file.suffix](columns))


def _columns(domains: DomainSet, domain: Domain) -> dict[str, NDArray[Any]]:
    features = domain.x[:].cpu().numpy().astype(np.float32)
    n, views = len(domain), 1 if features.ndim == 2 else features.shape[1]
    names = np.array(domains.class_names or [str(label) for label in range(domains.classes)])
    labels = domain.y.cpu().numpy().repeat(views)
    return {
        "domain": np.full(n * views, domain.name),
        "label": labels,
        "class": names[labels],
        "view": np.tile(np.arange(views), n),
        "features": features.reshape(n * views, -1),
    }


def _npz(columns: dict[str, NDArray[Any]]) -> bytes:
    out = io.BytesIO()
    np.savez(out, **columns)  # type: ignore[arg-type]
    return out.getvalue()


def _parquet(columns: dict[str, NDArray[Any]]) -> bytes:
    try:
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError as error:
        message = f"Parquet needs pip install 'riskmatch[parquet]'; .npz does not: {error}."
        raise ImportError(message) from error
    features = columns.pop("features")
    table = pyarrow.table(columns).append_column(
        "features",
        pyarrow.FixedSizeListArray.from_arrays(features.reshape(-1), features.shape[1]),
    )
    out = io.BytesIO()
    pyarrow.parquet.write_table(table, out)
    return out.getvalue()


_WRITERS = {".parquet": _parquet, ".npz": _npz}
