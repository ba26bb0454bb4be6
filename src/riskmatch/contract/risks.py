"""Risks: the loss of each sample, by name."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn.functional import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    mse_loss,
)

from riskmatch.runs.config import Risk
from riskmatch.validation import check_option

RiskFunction = Callable[[Tensor, Tensor], Tensor]
"""Maps logits (n, c) and labels (n,) to the risks (n,)."""


def cross_entropy_risks(logits: Tensor, y: Tensor) -> Tensor:
    """(n,) the cross-entropy of each sample, from ``logits`` (n, c) and labels ``y`` (n,)."""
    if y.ndim == 1 and y.is_floating_point():
        raise ValueError(
            "Cross-entropy needs integer labels, got targets of type "
            f"{y.dtype}. Set risk='squared' or risk='huber' for regression, or use y.long()."
        )
    return cross_entropy(logits, y, reduction="none")


def squared_risks(outputs: Tensor, y: Tensor) -> Tensor:
    """(n,) the squared error of each sample; the mean over its targets where it has several.

    Example:
        >>> import torch
        >>> squared_risks(torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 1.0]))
        tensor([0., 4.])
    """
    return _per_sample(mse_loss, outputs, y)


def huber_risks(outputs: Tensor, y: Tensor) -> Tensor:
    """(n,) the Huber loss of each sample (δ = 1); the mean over its targets if it has several."""
    return _per_sample(huber_loss, outputs, y)


def binary_cross_entropy_risks(logits: Tensor, y: Tensor) -> Tensor:
    """(n,) the mean binary cross-entropy over the tags of each sample that are known.

    Tags ``y`` (n, k) are 0, 1 or NaN where they are missing; a sample without any has the risk 0.

    Example:
        >>> import torch
        >>> y = torch.tensor([[1.0, torch.nan], [0.0, 1.0]])
        >>> binary_cross_entropy_risks(torch.zeros(2, 2), y)
        tensor([0.6931, 0.6931])
    """
    if logits.shape != y.shape:
        raise ValueError(
            f"Tags need one output each: outputs have the shape {tuple(logits.shape)}, tags "
            f"{tuple(y.shape)}."
        )
    known = ~y.isnan()
    losses = binary_cross_entropy_with_logits(logits, y.nan_to_num(), reduction="none")
    return (losses * known).sum(1) / known.sum(1).clamp(min=1)


RISKS: dict[str, RiskFunction] = {
    "cross-entropy": cross_entropy_risks,
    "binary-cross-entropy": binary_cross_entropy_risks,
    "squared": squared_risks,
    "huber": huber_risks,
}
"""The built-in risks by name."""


LABELS = {
    "cross-entropy": "classes",
    "binary-cross-entropy": "tags",
    "squared": "numbers",
    "huber": "numbers",
}
"""The labels that each of them takes."""
REGRESSION: tuple[Risk, ...] = ("squared", "huber")
"""Risks whose labels are targets."""


def risk_function(risk: str | RiskFunction) -> RiskFunction:
    """The risk of a name; a function is returned as it is.

    Example:
        >>> risk_function("huber").__name__
        'huber_risks'
    """
    if not isinstance(risk, str):
        return risk
    check_option("risk", risk, RISKS)
    return RISKS[risk]


def checked_risks(risk: RiskFunction, logits: Tensor, y: Tensor) -> Tensor:
    """(n,) the risks; raises ``ValueError`` unless there is one per sample."""
    risks = risk(logits, y)
    if isinstance(risks, Tensor) and risks.shape == y.shape[:1]:
        return risks
    shape = tuple(risks.shape) if isinstance(risks, Tensor) else type(risks).__name__
    cure = "squeeze the outputs or the targets, so that both have the same shape"
    if not isinstance(risks, Tensor) or not risks.ndim:
        cure = 'a loss of torch needs reduction="none"'
    raise ValueError(
        f"The risk must return a tensor with one loss per sample, shape ({len(y)},), got {shape}: "
        f"{cure}."
    )


def _per_sample(loss: Callable[..., Tensor], outputs: Tensor, y: Tensor) -> Tensor:
    if y.ndim == 1 and outputs.shape == (len(y), 1):
        outputs = outputs[:, 0]  # else the difference would have the shape (n, n)
    if outputs.shape != y.shape:
        raise ValueError(
            f"A regression needs one output per target: outputs have the shape "
            f"{tuple(outputs.shape)}, targets {tuple(y.shape)}."
        )
    losses = loss(outputs, y.to(outputs.dtype), reduction="none")
    return losses if losses.ndim == 1 else losses.flatten(1).mean(1)
