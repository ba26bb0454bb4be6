r"""One quadratic form for every match: signed weights over the pooled samples.

The samples come in m groups. A row a of ``rows`` gives every sample of group d the weight a_d, so
that with K the kernel matrix the value is

.. math:: \sum_r c_r \sum_{ij} a_{r,d(i)}\, a_{r,d(j)}\, \bigl(k(x_i - x_j) - k(0)\bigr).

Where a row's weights sum to zero over the samples, k(0) drops out and the form is qᵀKq. MMD² of two
samples is one row (1/n_x, −1/n_y); a match of every domain with the pool is one row per domain; the
unbiased estimate adds a row per sample set.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from riskmatch.divergence import grid, numpy_forms
from riskmatch.divergence.checks import is_small, is_traced
from riskmatch.divergence.kernels import RBFMixture, Reduction

Method = Literal["auto", "dense", "grid"]
METHODS = get_args(Method)
Forms = tuple[Tensor, Tensor, Tensor | None, RBFMixture, Method]
"""Arguments of :func:`kernel_forms` after the samples."""

DENSE_BELOW = 80  # crossover of all pairs and the grid, both in torch
DENSE_ON_DEVICE = 1 << 13  # samples up to which a device takes all pairs, and nothing waits for it
_BLOCK_ELEMENTS = 1 << 20  # of all pairs at once
_BLOCK_ON_DEVICE = 1 << 24


def kernel_forms(
    samples: Tensor,
    groups: Tensor,
    rows: Tensor,
    coefs: Tensor | None,
    kernel: RBFMixture,
    method: Method,
) -> Tensor:
    """The weighted sum of kernel forms above, differentiable once in ``samples``.

    Value and gradient come from one pass in float64, whatever the dtype of ``samples``.

    Args:
        samples: (n,) floating point.
        groups: (n,) integers in [0, m).
        rows: (r, m) float64, weights of the groups in each form.
        coefs: (r,) factors of the forms. None: they are 1/r, and the weights of every row sum to
            zero over the samples.
        kernel: the RBF mixture.
        method: ``"dense"`` (all pairs), ``"grid"`` (linear time), or ``"auto"`` by size.

    Returns:
        () in float64 for float64 samples, else in float32.
    """
    with_grad = torch.is_grad_enabled() and samples.requires_grad
    if torch.compiler.is_compiling():  # an operator is opaque to the compiler
        bandwidths = list(kernel.bandwidths)
        options = bandwidths, kernel.reduction, method, with_grad
        value: Tensor = _operator(samples, groups, rows, coefs, *options)[0]
        return value
    settings = groups, rows, coefs, kernel, method, with_grad
    if is_traced(samples):
        return _transformable(samples, *settings)[0]
    if not with_grad:
        return evaluate(samples, *settings)[0]
    result: Tensor = _Eager.apply(samples, settings)  # type: ignore[no-untyped-call]
    return result


def evaluate(
    samples: Tensor,
    groups: Tensor,
    rows: Tensor,
    coefs: Tensor | None,
    kernel: RBFMixture,
    method: str,
    with_grad: bool,
) -> tuple[Tensor, Tensor]:
    """Value and gradient (n,) of :func:`kernel_forms`; the latter empty without ``with_grad``."""
    balanced, wide = coefs is None, samples.dtype == torch.float64
    out = torch.float64 if wide else torch.float32
    on_host = samples.device.type == "cpu"
    least = DENSE_BELOW if on_host else DENSE_ON_DEVICE + 1
    on_grid = method == "grid" or (method == "auto" and samples.numel() >= least)
    # The length of the grid has to be known on the host. Apple's GPUs have no float64.
    if not on_host and (on_grid or samples.device.type == "mps"):
        settings = kernel, method, with_grad
        value, grad = _evaluate_unchecked(*_to_host(samples, groups, rows, coefs), *settings)
        return value.to(samples.device, out), grad.to(samples.device, out)
    if on_grid and balanced and is_small(samples):
        arrays = samples.detach().numpy().astype(np.float64), groups.numpy(), rows.numpy()
        if forms := numpy_forms.evaluate(*arrays, kernel, samples.dtype):
            dtype = np.float64 if wide else np.float32
            value = torch.from_numpy(np.asarray(forms.value, dtype))
            grad = torch.from_numpy(forms.gradient.astype(dtype, copy=False))
            return value, grad if with_grad else grad.new_empty(0)
    x = samples.detach().to(out)
    groups, rows = groups.to(x.device), rows.to(x.device, torch.float64)
    coefs = rows.new_full((len(rows),), 1 / len(rows)) if coefs is None else coefs.to(rows)
    if on_grid:
        on_line = grid.evaluate if balanced else grid.evaluate_unbalanced
        value, grad = on_line(x, groups, rows, coefs, kernel, with_grad, order=20 if wide else 12)
    else:
        value, grad = _all_pairs(x.double(), groups, rows, coefs, kernel, with_grad)
    if balanced:
        value = value.clamp(min=0)  # rounding may leave −1e-18
    return value.to(out), grad.to(out)


def _to_host(
    samples: Tensor, groups: Tensor, rows: Tensor, coefs: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The arguments on the CPU, in one transfer."""
    parts = [samples.detach(), groups, rows.flatten(), *([] if coefs is None else [coefs])]
    # Places of groups are exact in float32, the widest type of Apple's GPUs, up to 2^24.
    dtype = torch.float32 if samples.device.type == "mps" else torch.float64
    pieces = torch.cat([part.to(samples.device, dtype) for part in parts]).cpu()
    split = pieces.split([part.numel() for part in parts])
    more = None if coefs is None else split[3].double()
    x, weights = split[0].to(samples.dtype), split[2].double().view_as(rows)
    return x, split[1].long(), weights, more


@lru_cache(maxsize=16)
def _gammas(kernel: RBFMixture, device: torch.device) -> Tensor:
    """(B, 1, 1) float64, kept, so that nothing is copied to the device."""
    with torch.inference_mode(False):
        return torch.tensor(kernel.gammas, dtype=torch.float64).to(device).view(-1, 1, 1)


def _all_pairs(
    x: Tensor, groups: Tensor, rows: Tensor, coefs: Tensor, kernel: RBFMixture, with_grad: bool
) -> tuple[Tensor, Tensor]:
    """Value and gradient of the forms by all pairs: exact, quadratic time, bounded memory.

    A block of rows is formed at a time. ``expm1`` keeps the digits of risks that differ by 1e-8,
    where ``exp`` rounds every kernel value to one.

    Shapes: ``x`` (n,) float64, ``groups`` (n,), ``rows`` (r, m), ``coefs`` (r,) → (), (n,).
    """
    gammas = _gammas(kernel, x.device)
    q = rows[:, groups]  # (r, n)
    value = x.new_zeros(())
    grad = torch.empty_like(x) if with_grad else x.new_empty(0)
    most = _BLOCK_ELEMENTS if x.device.type == "cpu" else _BLOCK_ON_DEVICE
    block = max(1, most // (x.numel() * len(kernel.gammas)))
    for start in range(0, x.numel(), block):
        piece = slice(start, start + block)
        distance = x[piece, None] - x  # (b, n)
        pairs = (coefs[:, None] * q[:, piece]).T @ q  # (b, n)
        lowered = torch.expm1(-gammas * distance.square())  # (B, b, n): k(d) − k(0)
        value += kernel.weight * (pairs * lowered.sum(0)).sum()
        if with_grad:
            slope = (gammas * (lowered + 1)).sum(0) * distance
            grad[piece] = (-4 * kernel.weight) * (pairs * slope).sum(1)
    return value, grad


def _evaluate_unchecked(samples: Tensor, *settings: Any) -> tuple[Tensor, Tensor]:
    """:func:`evaluate` of unchecked samples: NaN where one is not finite."""
    if samples.device.type != "cpu" or bool(torch.isfinite(samples).all()):
        return evaluate(samples, *settings)
    value, grad = _shapes(samples, *settings)
    return value.fill_(torch.nan), grad.fill_(torch.nan)


def _shapes(samples: Tensor, *settings: Any) -> tuple[Tensor, Tensor]:
    """Empty value and gradient."""
    out = torch.promote_types(samples.dtype, torch.float32)
    shape = samples.shape if settings[-1] else (0,)
    return samples.new_empty((), dtype=out), samples.new_empty(shape, dtype=out)


def _setup_context(
    ctx: FunctionCtx, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]
) -> None:
    ctx.set_materialize_grads(False)  # so that a second derivative is told from none
    ctx.save_for_backward(output[1])
    ctx.dtype = inputs[0].dtype  # type: ignore[attr-defined]


def _backward(
    ctx: FunctionCtx, value_grad: Tensor | None, grad_grad: Tensor | None
) -> tuple[Tensor | None, ...]:
    if grad_grad is not None:
        raise RuntimeError(
            "riskmatch: the kernel MMD is differentiable once, and a second derivative was asked "
            "for (backward through a gradient taken with create_graph=True). Use "
            "divergence='moments', which supports any order, or take the MMD out of the gradient "
            "that is differentiated."
        )
    if value_grad is None:
        return (None,) * 7
    (grad,) = ctx.saved_tensors  # type: ignore[attr-defined]
    return ((value_grad * grad).to(ctx.dtype), *(None,) * 6)  # type: ignore[attr-defined]


class _Transformable(torch.autograd.Function):
    forward = staticmethod(_evaluate_unchecked)
    setup_context = staticmethod(_setup_context)
    backward = staticmethod(_backward)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Any, Any]:
        """Evaluate the forms one after the other along the batched dimension."""
        outputs = [
            _transformable(
                *(
                    value.select(dim, number) if isinstance(dim, int) else value
                    for value, dim in zip(inputs, in_dims, strict=True)
                )
            )
            for number in range(info.batch_size)
        ]
        values, grads = zip(*outputs, strict=True)
        return (torch.stack(values), torch.stack(grads)), (0, 0)


_transformable: Callable[..., tuple[Tensor, Tensor]] = _Transformable.apply


class _Eager(torch.autograd.Function):
    """Without ``setup_context``, with which torch inspects signatures in every call."""

    @staticmethod
    def forward(ctx: Any, samples: Tensor, settings: tuple[Any, ...]) -> Tensor:
        value, ctx.grad = evaluate(samples, *settings)
        ctx.settings = settings
        ctx.save_for_backward(samples)
        return value

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None]:
        if torch.is_grad_enabled():  # its derivative raises
            (samples,) = ctx.saved_tensors
            value = _transformable(samples, *ctx.settings)[0]
            return torch.autograd.grad(value, samples, outer, create_graph=True)[0], None
        return outer * ctx.grad, None


def _operate(
    samples: Tensor,
    groups: Tensor,
    rows: Tensor,
    coefs: Tensor | None,
    bandwidths: list[float],
    reduction: Reduction,
    method: str,
    with_grad: bool,
) -> tuple[Tensor, Tensor]:
    kernel = RBFMixture(bandwidths, reduction)
    return _evaluate_unchecked(samples, groups, rows, coefs, kernel, method, with_grad)


# Up to torch 2.6 a schema is not inferred from postponed annotations.
_SCHEMA = (
    "(Tensor samples, Tensor groups, Tensor rows, Tensor? coefs, float[] bandwidths,"
    " str reduction, str method, bool with_grad) -> (Tensor, Tensor)"
)
_operator = torch.library.custom_op(
    "riskmatch::kernel_forms", _operate, mutates_args=(), schema=_SCHEMA
)
_operator.register_autograd(
    lambda ctx, *outer: (*_backward(ctx, *outer), None), setup_context=_setup_context
)
_operator.register_fake(_shapes)
