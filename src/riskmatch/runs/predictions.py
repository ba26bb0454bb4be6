"""Predictions of a run on every sample: one file of arrays per evaluation.

The file ``predictions/00000300.npz`` in the folder of a run holds the predictions after step 300,
and beside the latest ``predictions/00000300.scores.npz`` the scores, from which any metric follows.
Reports and figures read it without the network and without torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riskmatch.files import bytes_of, make_folder, read_arrays, refuse_link, write_whole
from riskmatch.limits import LimitError
from riskmatch.runs.lines import Split
from riskmatch.statistics import even

FOLDER = "predictions"
MAX_SAMPLES = 5000
"""Most samples of a split that are written: enough for any figure."""
COLUMNS = "index", "label", "predicted", "confidence", "risk"
"""What is written of each sample."""
_WIDE = "features", "scores", "outputs"
_NAMES, _SCORES = "domains", ".scores.npz"


@dataclass(frozen=True)
class Predictions:
    """Predictions on one split of one domain, as arrays of shape (n,)."""

    index: NDArray[np.integer[Any]]
    """Position of the sample in its split."""
    label: NDArray[np.integer[Any]]
    predicted: NDArray[np.integer[Any]]
    """Predicted labels, shaped like labels; both in the unit of the data."""
    confidence: NDArray[np.floating[Any]]
    """Probability of the predicted class; NaN where no class is predicted."""
    risk: NDArray[np.floating[Any]]
    features: NDArray[np.floating[Any]] | None = None
    """(n, d) inputs of the last layer, where they were asked for; d is 0 if the network returns
    none. They are not written."""
    scores: NDArray[np.floating[Any]] | None = None
    """(n, c) probabilities of the classes, or (n, k) of tags; None where the task has none. Those
    of the latest evaluation are written."""
    outputs: NDArray[np.floating[Any]] | None = None
    """(n, c) outputs of the network, where features were asked for. They are not written."""

    @classmethod
    def join(cls, parts: Sequence[Predictions]) -> Predictions:
        """All samples of several predictions; their positions stay those within each."""
        columns: dict[str, Any] = {}
        for name in (*COLUMNS, *_WIDE):
            arrays = [getattr(part, name) for part in parts]
            columns[name] = None if arrays[0] is None else np.concatenate(arrays)
        return cls(**columns)

    def thinned(self, kept: int = MAX_SAMPLES) -> Predictions:
        """Select at most ``kept`` evenly spaced samples, the same at every step.

        Example:
            >>> a = np.arange(10)
            >>> Predictions(a, a, a, a / 10, a / 10).thinned(4).index.tolist()
            [0, 2, 5, 7]
        """
        total = len(self.risk)
        return self if total <= kept else self.take(even(total, kept))

    def take(self, rows: NDArray[np.integer[Any]]) -> Predictions:
        """Select samples by their rows, without features."""
        columns = {name: getattr(self, name)[rows] for name in COLUMNS}
        return Predictions(**columns, scores=None if self.scores is None else self.scores[rows])


ByDomain = Mapping[str, Mapping[Split, Predictions]]


def write(folder: Path, step: int, predictions: ByDomain) -> None:
    """Write the predictions of the run in ``folder`` after ``step``, in place of earlier scores."""
    names, kept = list(predictions), dict[str, Predictions]()
    for domain, splits in predictions.items():
        for split, values in splits.items():
            kept[f"{names.index(domain)}/{split}"] = values.thinned()
    arrays: dict[str, Any] = {
        f"{key}/{name}": getattr(values, name) for key, values in kept.items() for name in COLUMNS
    }
    arrays[_NAMES] = np.array(json.dumps(names))
    scores = {f"{k}/scores": v.scores for k, v in kept.items() if v.scores is not None}
    make_folder(folder / FOLDER)
    _remove_scores(folder)
    path = _path(folder, step)
    if scores:  # compressing them would save little
        content = bytes_of(lambda file: np.savez(file, **scores))  # type: ignore[arg-type]
        write_whole(path.with_suffix(_SCORES), content)
    write_whole(path, bytes_of(lambda file: np.savez_compressed(file, **arrays)))


def _remove_scores(folder: Path, after: int = -1) -> None:
    for path in (folder / FOLDER).glob(f"*{_SCORES}"):
        if path.name.removesuffix(_SCORES).isdecimal() and int(path.name[: -len(_SCORES)]) > after:
            path.unlink()


def steps(folder: Path) -> tuple[int, ...]:
    """Steps whose predictions are on disk."""
    stems = [path.stem for path in (folder / FOLDER).glob("*.npz")]
    return tuple(sorted(int(stem) for stem in stems if stem.isdecimal()))


def read(folder: Path, step: int) -> dict[str, dict[Split, Predictions]]:
    """Read the predictions of the run in ``folder`` after ``step``, by domain and split.

    Raises:
        FileNotFoundError: there are none.
        LimitError: they would take too much memory.
        ValueError: the file is damaged.
    """
    path = _path(folder, step)
    if not path.exists():
        raise FileNotFoundError(f"{folder} has no predictions of step {step}.")
    scores = path.with_suffix(_SCORES)
    try:
        return _by_domain({**read_arrays(path), **(read_arrays(scores) if scores.exists() else {})})
    except LimitError:
        raise
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ValueError(f"{path} is damaged ({error}). Remove it.") from error


def _by_domain(stored: Mapping[str, NDArray[Any]]) -> dict[str, dict[Split, Predictions]]:
    names = json.loads(str(stored[_NAMES]))
    arrays: dict[tuple[str, Any], dict[str, Any]] = {}
    for key, array in stored.items():
        if key != _NAMES:
            number, split, name = key.split("/")
            arrays.setdefault((names[int(number)], split), {})[name] = array
    predictions: dict[str, dict[Split, Predictions]] = {name: {} for name in names}
    for (domain, split), values in arrays.items():
        predictions[domain][split] = Predictions(**values)
    return predictions


def rewind(folder: Path, step: int) -> None:
    """Remove the predictions of later steps."""
    refuse_link(folder / FOLDER)
    for late in steps(folder):
        if late > step:
            _path(folder, late).unlink()
    _remove_scores(folder, step)


def _path(folder: Path, step: int) -> Path:
    return folder / FOLDER / f"{step:08d}.npz"
