"""A divergence: the Cramér distance between two samples of risks."""

from __future__ import annotations

import torch
from torch import Tensor

from riskmatch.divergence import Divergence


class Cramer(Divergence):
    r"""The integral of the squared difference of the two distribution functions.

    .. math:: \int \bigl( F_x(t) - F_y(t) \bigr)^2 dt
    """

    def between(self, x: Tensor, y: Tensor) -> Tensor:
        """The distance of the samples x (n,) and y (k,), a scalar tensor."""
        values, order = torch.cat([x, y]).sort()
        steps = torch.cat([x.new_full(x.shape, 1 / len(x)), y.new_full(y.shape, -1 / len(y))])
        difference = steps[order].cumsum(0)[:-1]  # F_x − F_y between neighbouring values
        return (difference.square() * values.diff()).sum()
