"""The nearest left-out site."""

from __future__ import annotations

import numpy as np

from riskmatch import statistics
from riskmatch.deployment.estimation.case import Array, Case


def nearest_site(case: Case) -> float:
    """The metric on the left-out site whose features are nearest, by :func:`apart`."""
    return case.value(min(case.others, key=lambda other: apart(case.site.features, other.features)))


def apart(x: Array, y: Array) -> float:
    """How far two sets of features are apart: 1 − (d̄_xx + d̄_yy) / (2 d̄_xy), from 0 to 1.

    With mean distances d̄ of different samples.

    Raises:
        ValueError: there are no features that can be compared.

    Reference: Székely and Rizzo, *Energy Statistics*, JSPI 2013.
    """
    if not x.shape[1] or x.shape[1] != y.shape[1]:
        raise ValueError("its features cannot be compared: they are those of other networks")
    if min(len(x), len(y)) < 2:
        raise ValueError("a site has fewer than two samples with features")
    both = statistics.distances(np.concatenate([x, y]).astype(np.float64))
    return statistics.separation(both, len(x), np.full(len(y), 1 / len(y)))
