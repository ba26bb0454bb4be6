"""Risk distribution matching as scikit-learn estimators."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import (  # type: ignore[import-untyped]
    BaseEstimator,
    ClassifierMixin,
    RegressorMixin,
)
from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]
from sklearn.utils import (  # type: ignore[import-untyped]
    _safe_indexing,
    check_consistent_length,
    check_random_state,
    check_scalar,
    column_or_1d,
    compute_class_weight,
)
from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped]
from torch import Tensor, nn

from riskmatch.contract import Eval, Memory, OptimSpec, RiskFunction
from riskmatch.contract.risks import cross_entropy_risks, squared_risks
from riskmatch.data.domain import Batch, Domain
from riskmatch.data.sampler import Sampler
from riskmatch.divergence import Divergence
from riskmatch.engine.device import resolve_device
from riskmatch.engine.step import Stepper, StepSettings
from riskmatch.matching import Match
from riskmatch.models.mlp import MLP
from riskmatch.objectives import RDM

_EVALUATION_STEPS = 10
"""Steps between two evaluations of early stopping."""
_PREDICTION_ROWS = 1 << 16


class _RiskMatchingEstimator(BaseEstimator):  # type: ignore[misc]
    """An MLP trained with RDM; subclasses encode the labels and decode the outputs."""

    _label_checks: Mapping[str, Any] = {}

    def __init__(
        self,
        *,
        weight: float = 1.0,
        match: Match = "worst",
        divergence: str | Divergence = "mmd",
        warmup: int = 100,
        hidden_layer_sizes: Sequence[int] = (64, 64),
        lr: float = 1e-3,
        max_iter: int = 1000,
        batch_size: int = 64,
        early_stopping: bool = False,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 100,
        random_state: int | np.random.RandomState | None = None,
        device: str = "cpu",
    ) -> None:
        self.weight = weight
        self.match = match
        self.divergence = divergence
        self.warmup = warmup
        self.hidden_layer_sizes = hidden_layer_sizes
        self.lr = lr
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state
        self.device = device

    def fit(
        self,
        X: Any,
        y: Any,
        domains: ArrayLike | None = None,
        sample_domain: ArrayLike | None = None,
    ) -> Any:
        """Train a network.

        Args:
            X: (n, d) inputs.
            y: (n,) labels.
            domains: (n,) domain of each sample, as integers or strings. Without it all samples are
                one domain: there is nothing to match, and the method is ERM.
            sample_domain: the same under the name that skada uses, where negative integers mark
                target domains; their samples are left out. Give one of the two.

        Returns:
            The estimator.
        """
        self._check_parameters()
        X, y, codes, self.domains_ = self._samples(X, y, domains, sample_domain)
        targets, outputs, risk = self._encode(y)
        scaler = StandardScaler().fit(X)
        inputs = torch.tensor(scaler.transform(X), dtype=torch.float32)
        names = [str(label) for label in self.domains_]
        parts = []
        for code, name in enumerate(names):
            rows = torch.from_numpy(np.flatnonzero(codes == code))
            parts.append(Domain(name, inputs[rows], targets[rows]))
        self._warn_if_erm(len(parts))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = MLP(inputs.shape[1], outputs, tuple(self.hidden_layer_sizes))
        self.n_iter_ = self._train(network.to(resolve_device(self.device)), risk, parts, seed)
        # In float64 a prediction does not depend on the other rows; on the CPU it needs no device.
        self.network_ = network.cpu().double().eval()
        self._include_scales(torch.from_numpy(scaler.mean_), torch.from_numpy(scaler.scale_))
        return self

    def _include_scales(self, mean: Tensor, scale: Tensor) -> None:
        """Let the first layer standardise its inputs, so that the network takes raw ones."""
        first = self.network_.featurizer[1]
        assert isinstance(first, nn.Linear)
        with torch.no_grad():
            first.weight.div_(scale)
            first.bias.sub_(first.weight @ mean)

    def _samples(
        self, X: Any, y: Any, domains: ArrayLike | None, sample_domain: ArrayLike | None
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Checked inputs and labels, the number of each sample's domain, labels of the domains."""
        if domains is not None and sample_domain is not None:
            raise ValueError("Give domains or sample_domain, its other name, not both.")
        name, labels = "domains", domains
        if sample_domain is not None:
            check_consistent_length(X, y, sample_domain)
            name, labels = "sample_domain", column_or_1d(sample_domain)
            if labels.dtype.kind == "i" and (labels < 0).any():
                rows = np.flatnonzero(labels >= 0)
                if not len(rows):
                    raise ValueError(
                        "sample_domain has no source domain: all labels are negative, which marks "
                        "target domains."
                    )
                X, y, labels = (_safe_indexing(part, rows) for part in (X, y, labels))
        X, y = validate_data(self, X, y, **self._label_checks)
        if labels is None:
            return X, y, np.zeros(len(X), dtype=np.int64), np.zeros(1, dtype=np.int64)
        check_consistent_length(X, labels)
        codes, distinct = pd.factorize(column_or_1d(labels), sort=True)
        if missing := int((codes < 0).sum()):
            raise ValueError(
                f"{name} has {missing} missing values; name the domain of every sample, or leave "
                "those samples out."
            )
        return X, y, codes, np.asarray(distinct)

    def _encode(self, y: NDArray[Any]) -> tuple[Tensor, int, RiskFunction]:
        """Labels as a tensor, the number of outputs, and the loss of a sample."""
        raise NotImplementedError

    def _train(self, network: MLP, risk: RiskFunction, domains: list[Domain], seed: int) -> int:
        """Train ``network`` in place; return the number of steps taken."""
        objective = RDM(
            weight=float(self.weight),
            warmup=int(self.warmup),
            lr_after=float(self.lr),
            variance_weight=0.0,
            match=self.match,
            divergence=self.divergence,
        )
        device = next(network.parameters()).device
        training, validation = [domain.to(device) for domain in domains], None
        if self.early_stopping:
            training, validation = self._hold_out(training, seed)
        memory = Memory(base=OptimSpec("adam", float(self.lr)))
        stepper = Stepper(network.train(), objective, memory, StepSettings(risk=risk))
        sampler = Sampler(training, self.batch_size, seed)
        best, best_step, weights = math.inf, 0, None
        for step in range(1, self.max_iter + 1):
            stepper.step(next(sampler))
            acts = step > self.warmup or self.warmup >= self.max_iter
            if validation is None or not acts or step % _EVALUATION_STEPS:
                continue
            with torch.no_grad():
                value = float(Eval(network.eval(), validation, risk).risk)
            network.train()
            if value < best:
                best, best_step, weights = value, step, deepcopy(network.state_dict())
            elif step - best_step >= self.n_iter_no_change:
                break
        if weights is not None:
            network.load_state_dict(weights)
        return step

    def _hold_out(self, domains: list[Domain], seed: int) -> tuple[list[Domain], Batch]:
        """The training part of each domain, and the validation samples of all."""
        generator = np.random.default_rng(seed)
        training, validation = [], []
        for domain in domains:
            if len(domain) < 2:
                raise ValueError(
                    f"Domain '{domain.name}' has 1 sample; early_stopping=True needs two or more, "
                    "one of them for validation."
                )
            held_out = round(self.validation_fraction * len(domain))
            held_out = min(max(1, held_out), len(domain) - 1)
            rows = torch.from_numpy(generator.permutation(len(domain))).to(domain.y.device)
            training.append(domain.take(rows[held_out:]))
            part = domain.take(rows[:held_out])
            validation.append((part.x[:], part.y))
        return training, Batch.join(validation)

    def _check_parameters(self) -> None:
        check_scalar(self.warmup, "warmup", Integral, min_val=0)
        for name in ("max_iter", "batch_size", "n_iter_no_change"):
            check_scalar(getattr(self, name), name, Integral, min_val=1)
        check_scalar(self.weight, "weight", Real, min_val=0)
        for name, bound in (("lr", math.inf), ("validation_fraction", 1)):
            check_scalar(
                getattr(self, name),
                name,
                Real,
                min_val=0,
                max_val=bound,
                include_boundaries="neither",
            )
        sizes = self.hidden_layer_sizes
        valid = isinstance(sizes, Sequence | np.ndarray) and len(sizes) > 0
        if not valid or not all(isinstance(size, Integral) and size > 0 for size in sizes):
            raise ValueError(
                f"hidden_layer_sizes must be one or more positive integers, got {sizes!r}."
            )

    def _warn_if_erm(self, domains: int) -> None:
        cause = ""
        if self.weight > 0 and domains == 1:
            cause = "all samples are one domain; pass fit(X, y, domains=...) with two or more"
        elif self.weight > 0 and self.warmup >= self.max_iter:
            cause = f"warmup={self.warmup} takes all of max_iter={self.max_iter} steps"
        if cause:
            warnings.warn(
                f"{type(self).__name__} matches nothing and is ERM: {cause}.", stacklevel=3
            )

    def _outputs(self, X: Any) -> Tensor:
        """(n, c) outputs of the network, in float64."""
        check_is_fitted(self)
        inputs = torch.tensor(validate_data(self, X, reset=False), dtype=torch.float64)
        with torch.no_grad():
            return torch.cat([self.network_(rows)[1] for rows in inputs.split(_PREDICTION_ROWS)])


class RiskMatchingClassifier(ClassifierMixin, _RiskMatchingEstimator):  # type: ignore[misc]
    """Multi-layer perceptron for classes, trained with risk distribution matching (RDM).

    The cross-entropy losses of the domains are matched, see :class:`riskmatch.objectives.RDM`.
    Inputs are standardised.

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
            mean of 1 over the samples, and the weighted losses are matched.
        random_state: an integer makes training deterministic.
        device: device of the training: ``"cpu"``, ``"cuda"``, ``"auto"``. Predictions are computed
            on the CPU.

    Attributes:
        classes_: labels of the classes.
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

    def __init__(
        self,
        *,
        weight: float = 1.0,
        match: Match = "worst",
        divergence: str | Divergence = "mmd",
        warmup: int = 100,
        hidden_layer_sizes: Sequence[int] = (64, 64),
        lr: float = 1e-3,
        max_iter: int = 1000,
        batch_size: int = 64,
        early_stopping: bool = False,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 100,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        random_state: int | np.random.RandomState | None = None,
        device: str = "cpu",
    ) -> None:
        super().__init__(
            weight=weight,
            match=match,
            divergence=divergence,
            warmup=warmup,
            hidden_layer_sizes=hidden_layer_sizes,
            lr=lr,
            max_iter=max_iter,
            batch_size=batch_size,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            random_state=random_state,
            device=device,
        )
        self.class_weight = class_weight

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """(n, c) probabilities of the classes, in the order of ``classes_``."""
        return self._outputs(X).softmax(1).numpy()

    def predict(self, X: Any) -> NDArray[Any]:
        """(n,) the most probable class of each sample."""
        probabilities = self.predict_proba(X)  # first, for it checks that the model is fitted
        labels: NDArray[Any] = self.classes_[probabilities.argmax(1)]
        return labels

    def _encode(self, y: NDArray[Any]) -> tuple[Tensor, int, RiskFunction]:
        check_classification_targets(y)
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
        weights = torch.tensor(by_class / by_class[codes].mean(), dtype=torch.float32)

        def weighted(logits: Tensor, y: Tensor) -> Tensor:
            return weights.to(logits)[y] * cross_entropy_risks(logits, y)

        return targets, len(self.classes_), weighted


class RiskMatchingRegressor(RegressorMixin, _RiskMatchingEstimator):  # type: ignore[misc]
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
