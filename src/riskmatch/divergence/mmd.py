"""Maximum mean discrepancy between scalar samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

import torch
from torch import Tensor

from riskmatch.divergence.checks import check_option
from riskmatch.divergence.divergence import Divergence, Groups
from riskmatch.divergence.forms import Method, kernel_forms
from riskmatch.divergence.kernels import RBFMixture


def mmd2(
    x: Tensor,
    y: Tensor,
    *,
    kernel: RBFMixture | None = None,
    unbiased: bool = False,
    method: Method = "auto",
) -> Tensor:
    r"""Squared maximum mean discrepancy of two samples of scalars.

    .. math:: \mathrm{MMD}^2 = \frac{1}{n^2}\sum_{ij} k(x_i, x_j)
              - \frac{2}{nk}\sum_{ij} k(x_i, y_j) + \frac{1}{k^2}\sum_{ij} k(y_i, y_j)

    The samples may differ in size. Value and gradient come from one pass, in time linear in the
    number of samples once there are more than a hundred, and are accumulated in float64.

    Args:
        x: (n,) floating point, any dtype and device.
        y: (k,) likewise.
        kernel: the RBF mixture; ``RBFMixture.authors_code()`` by default, to which the published
            penalty weights belong.
        unbiased: leave out the pairs of a sample with itself. The estimate may then be negative.
        method: ``"dense"`` (all pairs, exact), ``"grid"`` (linear time; relative error about 1e-7,
            for float64 inputs 1e-11), ``"auto"`` by size.

    Returns:
        () float64 for float64 inputs, else float32.

    Example:
        >>> x, y = torch.zeros(3), torch.ones(2)
        >>> mmd2(x, y, kernel=RBFMixture([0.5]))  # 2 − 2/e
        tensor(1.2642)

    Reference: Gretton et al., *A Kernel Two-Sample Test*, JMLR 2012.
    """
    return MMD(kernel or RBFMixture.authors_code(), unbiased, method)(x, y)


@dataclass(frozen=True)
class MMD(Divergence):
    """Squared MMD with an RBF mixture, as a divergence; see :func:`mmd2` for the formula.

    Example:
        >>> MMD(RBFMixture.paper())(torch.zeros(3), torch.zeros(2))
        tensor(0.)
    """

    kernel: RBFMixture = field(default_factory=RBFMixture.authors_code)
    unbiased: bool = False
    method: Method = "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, RBFMixture):
            raise TypeError(
                f"kernel must be an RBFMixture, got {type(self.kernel).__name__}; for own "
                "bandwidths use RBFMixture([...])."
            )
        check_option("method", self.method, get_args(Method))

    @property
    def min_samples(self) -> int:  # type: ignore[override]
        """Two where the pairs of a sample with itself are left out."""
        return 2 if self.unbiased else 1

    def between(self, x: Tensor, y: Tensor) -> Tensor:
        """MMD² of two samples that have been checked."""
        pool = torch.cat([x, y])
        groups = torch.ones(len(pool), dtype=torch.long, device=pool.device)
        groups[: len(x)] = 0
        sizes = torch.tensor([len(x), len(y)])
        left, right = (1 / sizes.double()).diag().split(1)
        return self._matched(pool, groups, left, sizes[:1], right, sizes[1:])

    def to_pool(self, risks: Tensor, groups: Groups, which: Tensor) -> Tensor:
        """The mean of MMD² between each group of ``which`` and the pool: one pass for all."""
        sizes, which = groups.sizes.cpu(), which.cpu()  # Apple's GPUs have no float64
        left = (1 / sizes.double()).diag()[which]  # (k, m)
        right = torch.full_like(left, 1 / risks.numel())
        total = torch.full_like(which, risks.numel())
        return self._matched(risks, groups.index, left, sizes[which], right, total)

    def _matched(
        self,
        samples: Tensor,
        groups: Tensor,
        left: Tensor,
        left_size: Tensor,
        right: Tensor,
        right_size: Tensor,
    ) -> Tensor:
        """The mean over k pairs of distributions, each a row of weights (k, m) on the groups."""
        rows = left - right
        coefs = torch.full_like(rows[:, 0], 1 / len(rows))
        if not self.unbiased:
            value = kernel_forms(samples, groups, rows, coefs, self.kernel, self.method)
            return value.clamp(min=0)  # rounding may leave −1e-18
        rows = torch.cat([rows, left, right])
        coefs = torch.cat([coefs, coefs / (left_size - 1), coefs / (right_size - 1)])
        return kernel_forms(samples, groups, rows, coefs, self.kernel, self.method, balanced=False)
