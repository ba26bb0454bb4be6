r"""How far apart risk distributions are, and whether chance would explain it.

The distance is MMD² with the paper's kernel, the mean over σ ∈ {1e-4, …, 1e3} of exp(−d²/(2σ)), in
its unbiased form: zero on average where two distributions are equal. The p-value is that of a
permutation test (Gretton et al., *A Kernel Two-Sample Test*, JMLR 2012).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SIGMAS = tuple(10.0**power for power in range(-4, 4))
EACH, ALL = 250, 1500
"""Samples of a domain, and of all domains together, at most."""
PERMUTATIONS = 200


class Distance(NamedTuple):
    """Two samples compared; None where one has fewer than two values."""

    value: float | None
    """MMD², unbiased: it may be negative."""
    p: float | None


def pairwise(samples: Sequence[Array], permutations: int = PERMUTATIONS) -> list[list[Distance]]:
    """Every sample against every other, from at most ``EACH`` values of each.

    The values that are taken, and the permutations, are the same at every call.

    Args:
        samples: one of shape (n,) per domain.
        permutations: of the test.
    """
    most = min(EACH, ALL // max(1, len(samples)))
    rng = np.random.default_rng(0)
    taken = [rng.permutation(x)[:most] if len(x) > most else x for x in samples]
    stops = np.cumsum([len(x) for x in taken])
    places = [np.arange(stop - len(x), stop) for x, stop in zip(taken, stops, strict=True)]
    gram = kernel(np.concatenate(taken)) if taken else np.empty((0, 0))
    found = [[Distance(0.0, None)] * len(samples) for _ in samples]
    for i, j in combinations(range(len(samples)), 2):
        both = np.concatenate([places[i], places[j]])
        found[i][j] = found[j][i] = two_sample(
            gram[np.ix_(both, both)], len(places[i]), permutations, rng
        )
    return found


def two_sample(gram: Array, n: int, permutations: int, rng: np.random.Generator) -> Distance:
    """The test of the first ``n`` values against the others, by their kernel matrix.

    With sums S of k over pairs, MMD² = (S_xx − n)/(n(n−1)) + (S_yy − m)/(m(m−1)) − 2 S_xy/(nm):
    k(0) = 1 leaves out the pairs of a value with itself. One product of the matrix with 0/1 columns
    gives the sums of all permutations. p = (1 + #{permuted ≥ observed}) / (1 + permutations).
    """
    m = len(gram) - n
    if min(n, m) < 2:
        return Distance(None, None)
    first = np.zeros((n + m, 1))
    first[:n] = 1
    permuted = rng.permuted(np.repeat(first, permutations, axis=1), axis=0)
    chosen = np.concatenate([first, permuted], axis=1)  # (n + m, 1 + permutations)
    xx = (chosen * (gram @ chosen)).sum(0)
    xy = gram.sum(0) @ chosen - xx
    yy = gram.sum() - 2 * xy - xx
    values = (xx - n) / (n * (n - 1)) + (yy - m) / (m * (m - 1)) - 2 * xy / (n * m)
    as_large = int(np.count_nonzero(values[1:] >= values[0] - 1e-12))  # equal but for rounding
    return Distance(float(values[0]), (1 + as_large) / (1 + permutations))


def kernel(x: Array) -> Array:
    """The kernel matrix (n, n) of values (n,)."""
    square = (x[:, None] - x) ** 2
    return np.asarray(sum(np.exp(square / (-2 * sigma)) for sigma in SIGMAS) / len(SIGMAS))
