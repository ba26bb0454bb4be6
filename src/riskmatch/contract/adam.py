"""Adam as a function, for objectives that look ahead of the engine's own step."""

from __future__ import annotations

import torch
from torch import Tensor

from riskmatch.contract.evaluation import Params
from riskmatch.contract.objective import OptimSpec

_BETA1, _BETA2, _EPS = 0.9, 0.999, 1e-8


@torch.no_grad()
def adam_step(
    params: Params, gradients: Params, spec: OptimSpec, state: Params
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    r"""One step of Adam on named tensors; nothing is changed in place.

    .. math:: g' = g + \lambda\theta, \quad m' = \beta_1 m + (1-\beta_1) g', \quad
              v' = \beta_2 v + (1-\beta_2) g'^2, \quad
              \theta' = \theta - \eta\,
              \frac{m' / (1-\beta_1^t)}{\sqrt{v' / (1-\beta_2^t)} + \epsilon}

    Args:
        params: θ by name.
        gradients: g under the same names.
        spec: the learning rate η and the weight decay λ.
        state: what the step before returned, or an empty mapping.

    Returns:
        New weights, leaves that require a gradient, and the new state.

    Example:
        >>> theta, gradient = {"w": torch.ones(1)}, {"w": torch.full((1,), 3.0)}
        >>> adam_step(theta, gradient, OptimSpec(lr=0.1), {})[0]["w"]  # the first step has size η
        tensor([0.9000], requires_grad=True)

    Reference: Kingma and Ba, *Adam: A Method for Stochastic Optimization*, ICLR 2015.
    """
    count = state.get("adam count", torch.zeros(())) + 1
    correction1, correction2 = (1 - beta ** int(count) for beta in (_BETA1, _BETA2))
    weights: dict[str, Tensor] = {}
    moments: dict[str, Tensor] = {"adam count": count}
    for name, theta in params.items():
        gradient = gradients[name] + spec.weight_decay * theta
        first = state.get(f"adam first {name}", torch.zeros_like(theta))
        second = state.get(f"adam second {name}", torch.zeros_like(theta))
        first = _BETA1 * first + (1 - _BETA1) * gradient
        second = _BETA2 * second + (1 - _BETA2) * gradient.square()
        direction = (first / correction1) / ((second / correction2).sqrt() + _EPS)
        weights[name] = (theta - spec.lr * direction).requires_grad_()
        moments |= {f"adam first {name}": first, f"adam second {name}": second}
    return weights, moments
