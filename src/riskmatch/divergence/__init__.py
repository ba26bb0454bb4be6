"""Divergences between samples of scalars: numbers in, number out, no knowledge of training."""

from riskmatch.divergence.divergence import Divergence, Groups
from riskmatch.divergence.kernels import RBFMixture
from riskmatch.divergence.mmd import MMD, mmd2
from riskmatch.divergence.moments import Moments
from riskmatch.divergence.transport import Energy, Wasserstein

__all__ = ["MMD", "Divergence", "Energy", "Groups", "Moments", "RBFMixture", "Wasserstein", "mmd2"]
