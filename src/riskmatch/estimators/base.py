"""What the scikit-learn estimators share: checks, training, outputs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator  # type: ignore[import-untyped]
from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]
from sklearn.utils import (  # type: ignore[import-untyped]
    _safe_indexing,
    check_consistent_length,
    check_random_state,
    check_scalar,
    column_or_1d,
)
from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped]
from torch import Tensor, nn

from riskmatch.contract import Eval, Memory, OptimSpec, RiskFunction
from riskmatch.data.domain import Batch, Domain
from riskmatch.data.sampler import Sampler
from riskmatch.data.splits import on_validation_side
from riskmatch.data.table import encoded_groups
from riskmatch.device import resolve_device
from riskmatch.divergence import Divergence, Match
from riskmatch.engine.step import Stepper, StepSettings
from riskmatch.models.mlp import MLP
from riskmatch.objectives import RDM

_EVALUATION_STEPS = 10
"""Steps between two evaluations of early stopping."""
_PREDICTION_ROWS = 1 << 16
_COUNT = {"target_type": Integral, "min_val": 1}
_OPEN = {"target_type": Real, "min_val": 0, "include_boundaries": "neither"}
_RANGES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("max_iter", "batch_size", "n_iter_no_change"), _COUNT),
    "warmup": {"target_type": Integral, "min_val": 0},
    "weight": {"target_type": Real, "min_val": 0},
    "lr": {**_OPEN, "max_val": math.inf},
    "validation_fraction": {**_OPEN, "max_val": 1},
}
"""Valid values of parameters, as :func:`sklearn.utils.check_scalar` takes them."""


@dataclass(kw_only=True, eq=False, repr=False)
class RiskMatchingEstimator(BaseEstimator):  # type: ignore[misc]
    """An MLP trained with RDM; subclasses encode the labels and decode the outputs."""

    _label_checks: ClassVar[Mapping[str, Any]] = {}

    weight: float = 1.0
    match: Match = "worst"
    divergence: str | Divergence = "mmd"
    warmup: int = 100
    hidden_layer_sizes: Sequence[int] = (64, 64)
    lr: float = 1e-3
    max_iter: int = 1000
    batch_size: int = 64
    early_stopping: bool = False
    validation_fraction: float = 0.2
    n_iter_no_change: int = 100
    random_state: int | np.random.RandomState | None = None
    device: str = "cpu"

    def fit(
        self,
        X: Any,
        y: Any,
        domains: ArrayLike | None = None,
        sample_domain: ArrayLike | None = None,
        sample_group: ArrayLike | None = None,
    ) -> Any:
        """Train a network.

        Args:
            X: (n, d) inputs.
            y: (n,) labels, or (n, k) tags, 0 or 1.
            domains: (n,) domain of each sample, as integers or strings. Without it all samples are
                one domain: there is nothing to match, and the method is ERM.
            sample_domain: the same under the name that skada uses, where negative integers mark
                target domains; their samples are left out. Give one of the two.
            sample_group: (n,) group of each sample, such as a patient, as integers or strings:
                early stopping holds out whole groups, in all domains.

        Returns:
            The estimator.
        """
        self._check_parameters()
        X, y, codes, self.domains_, groups = self._samples(
            X, y, domains, sample_domain, sample_group
        )
        targets, outputs, risk = self._encode(y)
        scaler = StandardScaler().fit(X)
        inputs = torch.tensor(scaler.transform(X), dtype=torch.float32)
        names = [str(label) for label in self.domains_]
        parts = []
        for code, name in enumerate(names):
            rows = torch.from_numpy(np.flatnonzero(codes == code))
            own = None if groups is None else groups[rows]
            parts.append(Domain(name, inputs[rows], targets[rows], groups=own))
        self._warn_if_erm(len(parts))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = MLP(inputs.shape[1:], outputs, widths=tuple(self.hidden_layer_sizes))
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
        self,
        X: Any,
        y: Any,
        domains: ArrayLike | None,
        sample_domain: ArrayLike | None,
        sample_group: ArrayLike | None,
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], Tensor | None]:
        """Checked inputs and labels, domain number of each, labels of the domains, and groups."""
        groups = None
        if sample_group is not None:
            check_consistent_length(X, sample_group)
            groups = encoded_groups(pd.Series(column_or_1d(sample_group), name="sample_group"))
        if domains is not None and sample_domain is not None:
            raise ValueError("Give domains or sample_domain, its other name, not both.")
        name, labels = "domains", domains
        if sample_domain is not None:
            check_consistent_length(X, y, sample_domain)
            name, labels = "sample_domain", column_or_1d(sample_domain)
            targets = [isinstance(label, Real) and label < 0 for label in labels.tolist()]
            if any(targets):
                rows = np.flatnonzero(~np.array(targets))
                if not len(rows):
                    raise ValueError(
                        "sample_domain has no source domain: all labels are negative, which marks "
                        "target domains."
                    )
                X, y, labels = (_safe_indexing(part, rows) for part in (X, y, labels))
                groups = None if groups is None else groups[rows]
        X, y = validate_data(self, X, y, **self._label_checks)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        if labels is None:
            return X, y, np.zeros(len(X), dtype=np.int64), np.zeros(1, dtype=np.int64), groups
        check_consistent_length(X, labels)
        codes, distinct = pd.factorize(column_or_1d(labels), sort=True)
        if missing := int((codes < 0).sum()):
            raise ValueError(
                f"{name} has {missing} missing values; name the domain of every sample, or leave "
                "those samples out."
            )
        return X, y, codes, np.asarray(distinct), groups

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
            kept, held = (rows.to(domain.y.device) for rows in self._sides(domain, generator, seed))
            training.append(domain.take(kept))
            part = domain.take(held)
            validation.append((part.x[:], part.y))
        return training, Batch.join(validation)

    def _sides(
        self, domain: Domain, generator: np.random.Generator, seed: int
    ) -> tuple[Tensor, Tensor]:
        """Rows of a domain to train on, and those to hold out."""
        if domain.groups is not None:
            side = on_validation_side(domain.groups, seed, share=self.validation_fraction)
            if side.all() or not side.any():
                which = "all of them" if side.all() else "none"
                raise ValueError(
                    f"Domain '{domain.name}' has {len(domain.groups.unique()):,} group(s), "
                    f"and early_stopping holds out {which}. Set another random_state or "
                    "validation_fraction, or leave the domain out."
                )
            return (~side).nonzero()[:, 0], side.nonzero()[:, 0]
        if len(domain) < 2:
            raise ValueError(
                f"Domain '{domain.name}' has 1 sample; early_stopping=True needs two or more, "
                "one of them for validation."
            )
        held_out = round(self.validation_fraction * len(domain))
        held_out = min(max(1, held_out), len(domain) - 1)
        rows = torch.from_numpy(generator.permutation(len(domain)))
        return rows[held_out:], rows[:held_out]

    def _check_parameters(self) -> None:
        for name, values in _RANGES.items():
            check_scalar(getattr(self, name), name, **values)
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
