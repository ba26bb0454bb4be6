"""Risk distribution matching as a scikit-learn regressor."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import RegressorMixin  # type: ignore[import-untyped]
from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]
from torch import Tensor

from riskmatch.contract import RiskFunction
from riskmatch.contract.risks import squared_risks
from riskmatch.estimators.base import RiskMatchingEstimator


class RiskMatchingRegressor(RegressorMixin, RiskMatchingEstimator):  # type: ignore[misc]
    """Multi-layer perceptron for one target, trained with risk distribution matching (RDM).

    The squared errors of the domains are matched, see :class:`riskmatch.objectives.RDM`. Inputs are
    standardised, and in training also the targets, so that ``weight`` does not depend on their
    unit.

    Arguments and attributes are those of :class:`RiskMatchingClassifier`, without ``class_weight``
    and ``classes_``.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X, site = rng.normal(size=(80, 2)), np.repeat([0, 1], 40)
        >>> y = 100 + 30 * X[:, 0] + rng.normal(size=80)
        >>> regressor = RiskMatchingRegressor(max_iter=200, warmup=20, lr=0.01, random_state=0)
        >>> regressor.fit(X, y, domains=site).score(X, y) > 0.95
        True
    """

    _label_checks = {"y_numeric": True}  # noqa: RUF012

    def predict(self, X: Any) -> NDArray[np.float64]:
        """(n,) predicted targets."""
        return self._outputs(X)[:, 0].numpy()

    def _encode(self, y: NDArray[Any]) -> tuple[Tensor, int, RiskFunction]:
        self._targets = StandardScaler().fit(y[:, None])
        targets = self._targets.transform(y[:, None])[:, 0]
        return torch.tensor(targets, dtype=torch.float32), 1, squared_risks

    def _include_scales(self, mean: Tensor, scale: Tensor) -> None:
        super()._include_scales(mean, scale)
        last = self.network_.classifier
        with torch.no_grad():
            last.weight.mul_(self._targets.scale_[0])
            last.bias.mul_(self._targets.scale_[0]).add_(self._targets.mean_[0])
