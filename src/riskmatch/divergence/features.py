"""Distances between samples of feature vectors, averaged over the pairs of samples."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from riskmatch.divergence.kernels import RBFMixture

_BLOCK_ELEMENTS = 1 << 22  # of the kernel matrix held at once
_KERNEL = RBFMixture.from_gammas((10.0**power for power in range(-3, 4)), reduction="sum")


def feature_coral(samples: Sequence[Tensor]) -> Tensor:
    r"""Correlation alignment: mean squared differences of means and of unbiased covariances.

    .. math:: \operatorname*{mean}_{i<j} \Bigl[ \tfrac1d \lVert \mu_i - \mu_j \rVert^2
              + \tfrac1{d^2} \lVert C_i - C_j \rVert_F^2 \Bigr]

    The mean over pairs of a squared difference is twice the variance, so every covariance is
    formed once; and none where there are fewer samples than features, as their inner products
    follow from those of the samples. A single sample has distance 0.

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
    roots = [(sample - sample.mean(0)) / (len(sample) - 1) ** 0.5 for sample in samples]
    if sum(sizes) < means.shape[1]:
        return 2 * (means.var(0).mean() + _spread_of_squares(roots))
    covariances = torch.stack([root.T @ root for root in roots])  # (m, d, d)
    return 2 * (means.var(0).mean() + covariances.var(0).mean())


def _spread_of_squares(roots: Sequence[Tensor]) -> Tensor:
    """The variance over e of the entries of A_eᵀA_e, averaged over them, without these matrices.

    With ⟨A_iᵀA_i, A_jᵀA_j⟩ = ‖A_i A_jᵀ‖² all that is needed are (n, n) products. In double
    precision, for the differences of these are small where the samples are alike.
    """
    m, d = len(roots), roots[0].shape[1]
    pool = torch.cat(list(roots)).double()
    squares = (pool @ pool.T).square()
    sizes = [len(root) for root in roots]
    within = torch.stack(
        [block.split(sizes, 1)[e].sum() for e, block in enumerate(squares.split(sizes))]
    ).sum()
    return ((within - squares.sum() / m) / ((m - 1) * d * d)).to(roots[0].dtype)


def feature_mmd2(samples: Sequence[Tensor]) -> Tensor:
    r"""Squared maximum mean discrepancy of feature vectors.

    .. math:: \operatorname*{mean}_{i<j} \bigl[ \bar K_{ii} + \bar K_{jj} - 2 \bar K_{ij} \bigr],
              \qquad k(x, y) = \sum_{p=-3}^{3} \exp(-10^p \lVert x - y \rVert^2)

    with K̄ the means of the blocks of the kernel matrix, of which a few rows are held at a time. A
    single sample has distance 0.

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
    sizes = torch.tensor([len(sample) for sample in samples], device="cpu")
    groups = torch.arange(m, device="cpu").repeat_interleave(sizes)
    # Mean of K̄_ii + K̄_jj − 2 K̄_ij over pairs: 2/m within a domain, −2/(m(m−1)) across.
    pairs = torch.eye(m, device="cpu").double() * 2 / (m - 1) - 2 / (m * (m - 1))
    pool = torch.cat(list(samples))
    weights = (pairs / (sizes[:, None] * sizes)).to(pool)
    value: Tensor = _KernelSum.apply(  # type: ignore[no-untyped-call]
        pool, weights, groups.to(pool.device)
    )
    return value


class _KernelSum(torch.autograd.Function):
    """Σ_ij weights[g(i), g(j)] · k(x_i − x_j), value and gradient in one pass of row blocks.

    Shapes: pool (n, d), weights (m, m) symmetric, groups (n,) → (). With W∘K' the slopes of the
    pairs by squared distance, the gradient is 4 (diag((W∘K') 1) − W∘K') x: two matrix products.
    """

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx, pool: Tensor, weights: Tensor, groups: Tensor
    ) -> Tensor:
        x = pool - pool.mean(0)  # the smaller the norms, the less their difference is rounded
        norms = x.square().sum(1)
        value, grad = x.new_zeros(()), torch.empty_like(x)
        for start in range(0, len(x), rows := max(1, _BLOCK_ELEMENTS // len(x))):
            piece = slice(start, start + rows)
            square = torch.addmm(norms, x[piece], x.T, alpha=-2).add_(norms[piece, None])
            square.clamp_(min=0).diagonal(start).zero_()
            share = weights[groups[piece]][:, groups]
            slope = torch.zeros_like(square)
            for gamma in _KERNEL.gammas:
                part = square.mul(-gamma).exp_().mul_(share)
                value += part.sum()
                slope.add_(part, alpha=-gamma)
            grad[piece] = 4 * (slope.sum(1, keepdim=True) * x[piece] - slope @ x)
        ctx.save_for_backward(grad)
        return value

    @staticmethod
    @once_differentiable
    def backward(
        ctx: torch.autograd.function.FunctionCtx, value_grad: Tensor
    ) -> tuple[Tensor, None, None]:
        (grad,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return value_grad * grad, None, None
