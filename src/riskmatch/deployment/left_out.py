"""Training domains that were left out in turn, and what models trained without them say on them.

What a model says on its own training domains tells little of a new site. A model folder may hold
the predictions of models with the same settings, each trained without some domains, on these. They
are in ``left_out.safetensors``; domain number k of the list ``left_out`` in ``model.json``, which
has its name, ``siblings``, number of samples, metrics, mean risk and the id of the run, has the
arrays

| array | shape | contents |
| --- | --- | --- |
| ``k/site/label``, ``predicted`` | (n, …) | labels and predictions, in the unit of the label |
| ``k/site/confidence``, ``risk`` | (n,) | as in the held-out scores |
| ``k/site/outputs`` | (n, c) | outputs of the network |
| ``k/site/scores`` | (n, c) | probabilities, where the task has them |
| ``k/features`` | (p, d) | features of p of the samples, evenly spaced, in half precision |
| ``k/validation/…`` | (v, …) | as ``k/site``, of validation samples of the domains trained on |

with n and v at most 2,000 and p at most 500. A folder without the file is complete, too. Nothing
here imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from riskmatch.deployment.folder import LEFT_OUT, damaged, read_folder, write_folder
from riskmatch.runs.predictions import Predictions
from riskmatch.validation import check_json

MAX_SAMPLES, MAX_FEATURES = 2000, 500
"""Most samples of a site, and most of them with features."""
COLUMNS = "label", "predicted", "confidence", "risk", "outputs", "scores"
"""What is stored of each sample."""
_SCHEMA = {
    "name": str,
    "siblings": [str],
    "samples": int,
    "metrics": {str: float},
    "mean_risk": float,
    "run": str,
}


@dataclass(frozen=True, eq=False)
class LeftOutSite:
    """A training domain, and what a model trained without it says on it.

    Arrays have a row for each of up to 2,000 of its samples, evenly spaced.
    """

    name: str
    siblings: tuple[str, ...]
    """Domains that count as one site with this one, itself among them; empty if it has none."""
    samples: int
    """Samples of the domain, on all of which metrics and mean risk are computed."""
    metrics: Mapping[str, float]
    """The metrics of the task by name, without those that cannot be computed."""
    mean_risk: float
    run: str
    """Id of the run that trained the model."""
    predictions: Predictions = field(repr=False)
    """Predictions on the domain, with ``scores`` where the task has them, and ``outputs``."""
    features: NDArray[Any] = field(repr=False)
    """(p, d) features of up to 500 samples; d is 0 if the network returns none. Each left-out
    site has those of its own network, which are comparable where a frozen backbone makes them."""
    validation: Predictions = field(repr=False)
    """Predictions of the same model on validation samples of the domains it was trained on."""

    @property
    def y(self) -> NDArray[Any]:
        """(n, …) labels, in the unit of the data."""
        return self.predictions.label

    @property
    def predicted(self) -> NDArray[Any]:
        """(n, …) predicted labels."""
        return self.predictions.predicted

    @property
    def scores(self) -> NDArray[Any] | None:
        """(n, c) probabilities; None where the task has none."""
        return self.predictions.scores

    @property
    def outputs(self) -> NDArray[Any] | None:
        """(n, c) outputs of the network."""
        return self.predictions.outputs


def write_left_out(path: Path, sites: Sequence[LeftOutSite]) -> None:
    """Store left-out sites in a model folder, in place of those that it has."""
    values, files = read_folder(path)
    facts = [{name: getattr(site, name) for name in _SCHEMA} for site in sites]
    tensors = dict[str, NDArray[Any]]()
    for number, site in enumerate(sites):
        tensors[f"{number}/features"] = half(site.features)
        for part in ("site", "validation"):
            scored = site.predictions if part == "site" else site.validation
            for column in COLUMNS:
                if (array := getattr(scored, column)) is not None:
                    tensors[f"{number}/{part}/{column}"] = np.ascontiguousarray(array)
    write_folder(path, {**values, "left_out": facts}, {**files, LEFT_OUT: save(tensors)})


def read_left_out(path: Path) -> dict[str, LeftOutSite]:
    """The left-out sites of a model folder by name; empty if it has none.

    Raises:
        ModelError: it is no model folder, or damaged.
    """
    values, files = read_folder(path)
    return parse_left_out(path, values, files)


def parse_left_out(
    path: Path, values: Mapping[str, Any], files: Mapping[str, bytes]
) -> dict[str, LeftOutSite]:
    """The left-out sites in what :func:`~riskmatch.deployment.folder.read_folder` returns."""
    if LEFT_OUT not in files:
        return {}
    try:
        arrays = load(files[LEFT_OUT])
        check_json(values, {"left_out": [_SCHEMA]})
        entries = enumerate(values["left_out"])
        return {entry["name"]: _site(number, entry, arrays) for number, entry in entries}
    except (SafetensorError, ValueError, LookupError, TypeError) as error:
        raise damaged(path / LEFT_OUT, str(error).rstrip(".")) from error


def _site(number: int, entry: Mapping[str, Any], arrays: Mapping[str, Any]) -> LeftOutSite:
    def scored(part: str) -> Predictions:
        columns: dict[str, Any] = {name: arrays.get(f"{number}/{part}/{name}") for name in COLUMNS}
        lengths = {len(array) for array in columns.values() if array is not None}
        if len(lengths) != 1 or any(columns[name] is None for name in COLUMNS[:-1]):
            raise ValueError(f"the arrays of '{entry['name']}' are missing or of different lengths")
        return Predictions(index=np.arange(*lengths), **columns)

    known = {name: entry[name] for name in _SCHEMA}
    known["siblings"] = tuple(known["siblings"])
    return LeftOutSite(
        **known,
        predictions=scored("site"),
        features=arrays[f"{number}/features"],
        validation=scored("validation"),
    )


def half(values: NDArray[Any]) -> NDArray[Any]:
    """Features in half precision where they fit, others as they are."""
    if values.ndim == 2 and np.abs(values).max(initial=0) < np.finfo(np.float16).max:
        return values.astype(np.float16)
    return np.ascontiguousarray(values)
