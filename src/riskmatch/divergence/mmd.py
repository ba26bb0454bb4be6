"""Maximum mean discrepancy between scalar samples."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from riskmatch.divergence import numpy_forms
from riskmatch.divergence.checks import check_option
from riskmatch.divergence.divergence import Divergence
from riskmatch.divergence.domain_index import DomainIndex, Places, Pool
from riskmatch.divergence.forms import DENSE_BELOW, METHODS, Forms, Method, kernel_forms
from riskmatch.divergence.kernels import RBFMixture
from riskmatch.divergence.numpy_forms import Array, ValueAndGrad


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
    divergence = MMD(kernel or RBFMixture.authors_code(), unbiased, method)
    return divergence.__call__(x, y)  # torch 2.7 cannot compile divergence(x, y)


@dataclass(frozen=True)
class MMD(Divergence):
    """Squared MMD with an RBF mixture, as a divergence; see :func:`mmd2` for the formula.

    Example:
        >>> MMD(RBFMixture.paper())(torch.zeros(3), torch.zeros(2))
        tensor(0.)
    """

    kernel: RBFMixture = field(default_factory=lambda: RBFMixture.authors_code())
    unbiased: bool = False
    method: Method = "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, RBFMixture):
            raise TypeError(
                f"kernel must be an RBFMixture, got {type(self.kernel).__name__}; for other "
                "bandwidths use RBFMixture([...])."
            )
        check_option("method", self.method, METHODS)

    @property
    def min_samples(self) -> int:  # type: ignore[override]
        """Two where the pairs of a sample with itself are left out."""
        return 2 if self.unbiased else 1

    def between(self, x: Tensor, y: Tensor, weights: Tensor | None = None) -> Tensor:
        """MMD² of two samples that have been checked."""
        if weights is None:  # two groups; with weights, one per value of y
            last, weights = 1, y.new_full((1,), 1 / len(y), dtype=torch.float64)
        else:
            last = len(y)
        groups = torch.arange(1 - len(x), len(y) + 1, device=x.device).clamp(0, last)
        counts = [len(x), *([len(y)] if last == 1 else [1] * len(y))]
        wide = torch.device("cpu") if x.device.type == "mps" else x.device
        sizes = torch.tensor(counts, dtype=torch.float64).to(wide)
        right = torch.cat([weights.new_zeros(1), weights]).to(wide).double()[None]
        left = torch.zeros_like(right)
        left[0, 0] = 1 / len(x)
        forms: Forms = groups, left - right, None, self.kernel, self.method
        if self.unbiased:
            forms = self._unbiased(groups, sizes, left, right)
        return kernel_forms(torch.cat([x, y]), *forms)

    def to_pool(
        self, risks: Tensor, groups: DomainIndex, which: Places, pool: Pool = "domains"
    ) -> Tensor:
        """The mean of MMD² between each group of ``which`` and the pool: one pass for all."""
        rows = groups.contrasts(which, pool)
        if not self.unbiased:
            return kernel_forms(risks, groups.index, rows, None, self.kernel, self.method)
        right = groups.weights(pool).expand_as(rows)
        return kernel_forms(
            risks, *self._unbiased(groups.index, groups.wide_sizes, rows + right, right)
        )

    def value_and_grad(
        self, risks: Array, groups: DomainIndex, which: list[int], pool: Pool, dtype: torch.dtype
    ) -> ValueAndGrad | None:
        """:meth:`to_pool` of few risks and its gradient; None to leave it to autograd."""
        if self.unbiased or self.method == "dense" or len(risks) < DENSE_BELOW:
            return None
        rows = groups.contrasts(which, pool).numpy()
        return numpy_forms.evaluate(risks, groups.index.numpy(), rows, self.kernel, dtype)

    def _unbiased(self, groups: Tensor, sizes: Tensor, left: Tensor, right: Tensor) -> Forms:
        """The mean over k pairs of distributions, each a row of weights (k, m) on the groups."""
        rows = left - right
        coefs = torch.full_like(rows[:, 0], 1 / len(rows))
        # Without the pairs of a sample with itself, ΣΣ w w k is divided by 1 − Σ w².
        squares = [side.square() @ sizes for side in (left, right)]  # (k,) Σ w²
        rows = torch.cat([rows, left, right])
        coefs = torch.cat([coefs, *(coefs * square / (1 - square) for square in squares)])
        return groups, rows, coefs, self.kernel, self.method
