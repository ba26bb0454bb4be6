"""Risk distribution matching as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin  # type: ignore[import-untyped]
from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]
from sklearn.utils import compute_class_weight  # type: ignore[import-untyped]
from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped]
from torch import Tensor

from riskmatch.contract import RiskFunction
from riskmatch.contract.risks import (
    binary_cross_entropy_risks,
    cross_entropy_risks,
    squared_risks,
)
from riskmatch.estimators.base import RiskMatchingEstimator


@dataclass(kw_only=True, eq=False, repr=False)
class RiskMatchingClassifier(ClassifierMixin, RiskMatchingEstimator):  # type: ignore[misc]
    """Multi-layer perceptron for classes, trained with risk distribution matching (RDM).

    The cross-entropy losses of the domains are matched, see :class:`riskmatch.objectives.RDM`.
    Inputs are standardised. Labels (n, k) of 0 and 1 are tags: the loss of a sample is the mean
    binary cross-entropy of its tags, and predictions and probabilities are (n, k).

    Args:
        weight: λ, weight of the matching penalty; 0 is ERM.
        match: ``"worst"`` matches the worst domain with the pool of all, ``"variance"`` every one.
        divergence: ``"mmd"``, ``"moments"``, ``"energy"``, ``"wasserstein-1"``,
            ``"wasserstein-2"``, ``"package.module:Name"``, or a divergence.
        warmup: steps of ERM before the penalty is switched on.
        hidden_layer_sizes: widths of the hidden layers.
        lr: learning rate of Adam.
        max_iter: number of steps, each on a batch of every domain.
        batch_size: samples per domain and step; smaller domains are used whole.
        early_stopping: hold out part of every domain, stop when the mean of the domains' risks on
            these samples has not fallen for ``n_iter_no_change`` steps, and return to the weights
            at which it was lowest. Steps of the warm-up do not count.
        validation_fraction: share of each domain that is held out.
        n_iter_no_change: patience of early stopping, in steps.
        class_weight: weights of the losses by class, ``"balanced"`` for weights inversely
            proportional to the class frequencies, or None for equal weights. They are scaled to a
            mean of 1 over the samples, and the weighted losses are matched. Not for tags.
        random_state: an integer makes training deterministic.
        device: device of the training: ``"cpu"``, ``"cuda"``, ``"auto"``. Predictions are computed
            on the CPU.

    Attributes:
        classes_: labels of the classes, or numbers of the tags.
        domains_: labels of the training domains.
        n_iter_: number of steps taken.
        network_: trained :class:`~riskmatch.models.mlp.MLP` of the inputs as given, in float64.

    Example:
        Leave one domain out, with the domains routed to ``fit`` and to the splitter:

        >>> import sklearn
        >>> from sklearn.model_selection import LeaveOneGroupOut, cross_validate
        >>> rng = np.random.default_rng(0)
        >>> site = np.repeat(["north", "south", "west"], 40)
        >>> y = rng.integers(2, size=120)
        >>> X = rng.normal(size=(120, 3)) + 2 * y[:, None]
        >>> classifier = RiskMatchingClassifier(max_iter=60, warmup=20, lr=0.01, random_state=0)
        >>> with sklearn.config_context(enable_metadata_routing=True):
        ...     classifier.set_fit_request(domains=True)
        ...     params = {"domains": site, "groups": site}
        ...     result = cross_validate(classifier, X, y, cv=LeaveOneGroupOut(), params=params)
        RiskMatchingClassifier(lr=0.01, max_iter=60, random_state=0, warmup=20)
        >>> bool((result["test_score"] > 0.8).all())
        True
    """

    _label_checks = {"multi_output": True}  # noqa: RUF012
    class_weight: Mapping[Any, float] | Literal["balanced"] | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """(n, c) probabilities of the classes, in the order of ``classes_``, or of the tags."""
        outputs = self._outputs(X)
        return (outputs.sigmoid() if self._has_tags else outputs.softmax(1)).numpy()

    def predict(self, X: Any) -> NDArray[Any]:
        """(n,) the most probable class of each sample, or (n, k) its tags, 0 or 1."""
        probabilities = self.predict_proba(X)  # first, for it checks that the model is fitted
        if self._has_tags:
            return (probabilities > 0.5).astype(np.int64)
        labels: NDArray[Any] = self.classes_[probabilities.argmax(1)]
        return labels

    def _encode(self, y: NDArray[Any]) -> tuple[Tensor, int, RiskFunction]:
        check_classification_targets(y)
        self._has_tags = y.ndim == 2
        if self._has_tags:
            if self.class_weight is not None:
                raise ValueError("class_weight is for classes, and y has tags: leave it out.")
            self.classes_ = np.arange(y.shape[1])
            return torch.tensor(y, dtype=torch.float32), y.shape[1], binary_cross_entropy_risks
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs two or more classes, and y has one class: "
                f"{self.classes_[0]!r}."
            )
        targets = torch.from_numpy(codes.astype(np.int64))
        if self.class_weight is None:
            return targets, len(self.classes_), cross_entropy_risks
        by_class = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        if not (by_class >= 0).all() or not 0 < by_class[codes].mean() < np.inf:
            raise ValueError(
                "class_weight must be finite, at least 0 and positive for some class, got "
                f"{self.class_weight!r}."
            )
        weights = torch.tensor(by_class / by_class[codes].mean(), dtype=torch.float32)

        def weighted(logits: Tensor, y: Tensor) -> Tensor:
            return weights.to(logits)[y] * cross_entropy_risks(logits, y)

        return targets, len(self.classes_), weighted


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
