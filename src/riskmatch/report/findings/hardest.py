"""The samples with the largest risks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from riskmatch.report.findings.examples import Example
from riskmatch.runs.predictions import Predictions

MOST = 12
Look = Callable[[str, Sequence[int]], Sequence[Example]]
"""From a domain and places in its validation split to the samples there."""


def hardest(
    found: Mapping[str, Predictions], classes: Sequence[str], look: Look | None, most: int = MOST
) -> dict[str, list[dict[str, Any]]]:
    """The samples with the largest risks of every domain, the largest first.

    Args:
        found: by domain.
        classes: their names.
        look: shows samples; None where the data set is not at hand.
        most: of each domain.

    Raises:
        ValueError: the samples that ``look`` shows have other labels; the data set has changed.
    """
    shown = {}
    for domain, said in found.items():
        risk = np.where(np.isnan(said.risk), -np.inf, said.risk)
        rows = np.argsort(-risk, kind="stable")[:most]
        places = [int(place) for place in said.index[rows]]
        samples = look(domain, places) if look else [None] * len(places)
        for row, sample in zip(rows, samples, strict=True):
            if sample is not None and sample.label != said.label[row]:
                raise ValueError("the data set has changed since: its labels are others")
        shown[domain] = [
            {
                "risk": float(said.risk[row]),
                "label": classes[said.label[row]],
                "predicted": classes[said.predicted[row]],
                "confidence": float(said.confidence[row]),
                "name": (sample.name if sample else None) or f"sample {place}",
                "thumbnail": sample.thumbnail if sample else None,
                "row": sample.row if sample else None,
            }
            for row, place, sample in zip(rows, places, samples, strict=True)
        ]
    return shown
