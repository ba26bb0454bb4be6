"""Divergences between samples of scalars: numbers in, number out, no knowledge of training."""

from collections.abc import Callable

from riskmatch.divergence.divergence import Divergence
from riskmatch.divergence.domain_index import DomainIndex, Pool
from riskmatch.divergence.features import feature_coral, feature_mmd2
from riskmatch.divergence.kernels import RBFMixture
from riskmatch.divergence.matched import Match
from riskmatch.divergence.mmd import MMD, mmd2
from riskmatch.divergence.moments import Moments, mean_and_variance
from riskmatch.divergence.quantile import kde_quantile, kde_tail_quantile
from riskmatch.divergence.transport import Energy, Wasserstein

__all__ = [
    "DIVERGENCES",
    "MMD",
    "Divergence",
    "DomainIndex",
    "Energy",
    "Match",
    "Moments",
    "Pool",
    "RBFMixture",
    "Wasserstein",
    "feature_coral",
    "feature_mmd2",
    "kde_quantile",
    "kde_tail_quantile",
    "mean_and_variance",
    "mmd2",
]

DIVERGENCES: dict[str, Callable[[], Divergence]] = {
    "mmd": MMD,
    "moments": Moments,
    "energy": Energy,
    "wasserstein-1": Wasserstein,
    "wasserstein-2": lambda: Wasserstein(order=2),
}
"""The built-in divergences by name."""
