"""Divergences between samples of scalars: numbers in, number out, no knowledge of training."""

from collections.abc import Callable

from riskmatch import registry
from riskmatch.divergence.closed_form import Energy, Moments, Wasserstein
from riskmatch.divergence.divergence import Divergence
from riskmatch.divergence.domain_index import DomainIndex, Pool
from riskmatch.divergence.features import feature_coral, feature_mmd2
from riskmatch.divergence.kernels import RBFMixture
from riskmatch.divergence.matched import Match
from riskmatch.divergence.mmd import MMD, mmd2
from riskmatch.divergence.quantile import kde_quantile, kde_tail_quantile

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


_MMD = MMD()


def resolve_divergence(divergence: str | Divergence) -> Divergence:
    """A divergence by its name, or as ``"package.module:Name"``; others as they are.

    >>> resolve_divergence("wasserstein-2")
    Wasserstein(order=2)
    """
    if isinstance(divergence, Divergence):
        return divergence
    if not isinstance(divergence, str):
        raise TypeError(
            f"divergence must be a name or a riskmatch.divergence.Divergence, got {divergence!r}."
        )
    if divergence == "mmd":
        return _MMD
    made = registry.find("divergence", divergence).value()
    if not isinstance(made, Divergence):
        raise TypeError(f"{divergence} must make a riskmatch.divergence.Divergence, got {made!r}.")
    return made
