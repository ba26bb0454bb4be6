"""Distances between samples of feature vectors, averaged over the pairs of samples."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from riskmatch.divergence.kernels import RBFMixture

_KERNEL = RBFMixture.from_gammas((10.0**power for power in range(-3, 4)), reduction="sum")


def feature_coral(samples: Sequence[Tensor]) -> Tensor:
    r"""Correlation alignment: mean squared differences of means and of unbiased covariances.

    .. math:: \operatorname*{mean}_{i<j} \Bigl[ \tfrac1d \lVert \mu_i - \mu_j \rVert^2
              + \tfrac1{d^2} \lVert C_i - C_j \rVert_F^2 \Bigr]

    The mean over pairs of a squared difference is twice the variance, so every covariance is
    formed once. A single sample has distance 0.

    Args:
        samples: m tensors (n_e, d), of two rows or more.

    Example:
        >>> feature_coral([torch.tensor([[0.0], [2.0]]), torch.tensor([[1.0], [5.0]])])
        tensor(40.)

    Reference: Sun and Saenko, *Deep CORAL*, ECCV Workshops 2016.
    """
    if len(samples) == 1:
        return samples[0].new_zeros(())
    sizes = [len(sample) for sample in samples]
    if min(sizes) < 2:
        raise ValueError(
            f"Samples of sizes {sizes} have no covariance; CORAL needs 2 of each domain. Take "
            "larger batches, or a distance that needs no covariance, such as the MMD."
        )
    means = torch.stack([sample.mean(0) for sample in samples])  # (m, d)
    centred = [sample - sample.mean(0) for sample in samples]
    covariances = torch.stack([part.T @ part / (len(part) - 1) for part in centred])  # (m, d, d)
    return 2 * (means.var(0).mean() + covariances.var(0).mean())


def feature_mmd2(samples: Sequence[Tensor]) -> Tensor:
    r"""Squared maximum mean discrepancy of feature vectors, all pairs from one kernel matrix.

    .. math:: \operatorname*{mean}_{i<j} \bigl[ \bar K_{ii} + \bar K_{jj} - 2 \bar K_{ij} \bigr],
              \qquad k(x, y) = \sum_{p=-3}^{3} \exp(-10^p \lVert x - y \rVert^2)

    with K̄ the means of the blocks of the kernel matrix. A single sample has distance 0.

    Args:
        samples: m tensors (n_e, d).

    Example:
        >>> feature_mmd2([torch.zeros(3, 2), torch.full((2, 2), 1e3)])  # far apart: 2 k(x, x)
        tensor(14.)

    Reference: Gretton et al., *A Kernel Two-Sample Test*, JMLR 2012.
    """
    m = len(samples)
    if m == 1:
        return samples[0].new_zeros(())
    pool = torch.cat(list(samples))  # (n, d)
    # Differences, not a matrix product: γ = 1000 would magnify the rounding of ‖x‖² + ‖y‖² − 2xy.
    distances = torch.cdist(pool, pool, compute_mode="donot_use_mm_for_euclid_dist")
    shares = torch.block_diag(*(pool.new_full((1, len(s)), 1 / len(s)) for s in samples))  # (m, n)
    blocks = shares @ _KERNEL(distances) @ shares.T  # (m, m)
    within = blocks.trace()
    distance: Tensor = 2 * (within / m - (blocks.sum() - within) / (m * (m - 1)))
    return distance
