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
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor

from riskmatch.divergence import dense, few, grid
from riskmatch.divergence.checks import check_option, is_traced
from riskmatch.divergence.kernels import RBFMixture, Reduction

Method = Literal["auto", "dense", "grid"]
METHODS = get_args(Method)

DENSE_BELOW = 80  # crossover of all pairs and the grid, both in torch


def kernel_forms(
    samples: Tensor,
    groups: Tensor,
    rows: Tensor,
    kernel: RBFMixture,
    method: Method = "auto",
    coefs: Tensor | None = None,
) -> Tensor:
    """The weighted sum of kernel forms above, differentiable once in ``samples``.

    Value and gradient come from one pass in float64, whatever the dtype of ``samples``.

    Args:
        samples: (n,) floating point.
        groups: (n,) integers in [0, m).
        rows: (r, m) float64, weights of the groups in each form.
        kernel: the RBF mixture.
        method: ``"dense"`` (all pairs), ``"grid"`` (linear time), or ``"auto"`` by size.
        coefs: (r,) factors of the forms. By default they are 1/r, and the weights of every row sum
            to zero over the samples.

    Returns:
        () in float64 for float64 samples, else in float32.
    """
    check_option("method", method, METHODS)
    with_grad = torch.is_grad_enabled() and samples.requires_grad
    traced, balanced = is_traced(samples), coefs is None
    if coefs is None:
        coefs = rows.new_full((len(rows),), 1 / len(rows))
    options = (list(kernel.bandwidths), kernel.reduction, method, balanced, with_grad)
    if traced:  # an operator is opaque to the compiler
        evaluate: Callable[..., tuple[Tensor, Tensor]] = _Transformable.apply
        if torch.compiler.is_compiling():
            evaluate = _operator
        return evaluate(samples, groups, rows, coefs, *options)[0]
    value, grad = _evaluate(samples, groups, rows, coefs, *options)
    return few.with_gradient(samples, value, grad) if with_grad else value


def _evaluate(
    samples: Tensor,
    groups: Tensor,
    rows: Tensor,
    coefs: Tensor,
    bandwidths: list[float],
    reduction: str,
    method: str,
    balanced: bool,
    with_grad: bool,
) -> tuple[Tensor, Tensor]:
    out, kernel = _result_dtype(samples), _mixture(tuple(bandwidths), reduction)
    on_grid = method == "grid" or (method == "auto" and samples.numel() >= DENSE_BELOW)
    if on_grid and balanced and few.is_few(samples):
        arrays = few.as_array(samples), groups.numpy(), rows.numpy()
        if found := few.kernel_forms(*arrays, kernel, few.order_of(samples)):
            value, grad = (few.as_tensor(part, samples) for part in found)
            return value, grad if with_grad else grad[:0].clone()
    # Apple's GPUs have no float64; the scalars travel to the CPU and back instead.
    device = torch.device("cpu") if samples.device.type == "mps" else samples.device
    x = samples.detach().to(device, out)
    weights, factors = rows.to(device, torch.float64), coefs.to(device, torch.float64)
    groups = groups.to(device)
    if on_grid:
        evaluate = grid.evaluate if balanced else grid.evaluate_unbalanced
        value, grad = evaluate(x, groups, weights, factors, kernel, with_grad, _order_of(samples))
    else:
        value, grad = dense.evaluate(x.double(), groups, weights, factors, kernel, with_grad)
    if balanced:
        value = value.clamp(min=0)  # rounding may leave −1e-18
    return value.to(samples.device, out), grad.to(samples.device, out)


@lru_cache(maxsize=16)
def _mixture(bandwidths: tuple[float, ...], reduction: str) -> RBFMixture:
    return RBFMixture(bandwidths, cast(Reduction, reduction))


def _evaluate_unchecked(
    samples: Tensor,
    groups: Tensor,
    rows: Tensor,
    coefs: Tensor,
    bandwidths: list[float],
    reduction: str,
    method: str,
    balanced: bool,
    with_grad: bool,
) -> tuple[Tensor, Tensor]:
    """As :func:`_evaluate`, for unchecked samples: NaN where one is not finite."""
    if bool(torch.isfinite(samples).all()):
        options = (bandwidths, reduction, method, balanced, with_grad)
        return _evaluate(samples, groups, rows, coefs, *options)
    missing = torch.full_like(samples, torch.nan, dtype=_result_dtype(samples))
    return missing[0].clone(), missing if with_grad else missing[:0].clone()


def _order_of(samples: Tensor) -> int:
    """Order of the interpolation on the grid."""
    return 20 if samples.dtype == torch.float64 else 12


def _result_dtype(samples: Tensor) -> torch.dtype:
    return torch.float64 if samples.dtype == torch.float64 else torch.float32


def _setup_context(
    ctx: torch.autograd.function.FunctionCtx,
    inputs: tuple[Any, ...],
    output: tuple[Tensor, Tensor],
) -> None:
    ctx.set_materialize_grads(False)  # so that a second derivative is told from none
    ctx.save_for_backward(output[1])
    ctx.dtype = inputs[0].dtype  # type: ignore[attr-defined]


def _backward(
    ctx: torch.autograd.function.FunctionCtx, value_grad: Tensor | None, grad_grad: Tensor | None
) -> tuple[Tensor | None, ...]:
    if grad_grad is not None:
        raise RuntimeError(few.ONCE)
    if value_grad is None:
        return (None,) * 9
    (grad,) = ctx.saved_tensors  # type: ignore[attr-defined]
    return ((value_grad * grad).to(ctx.dtype), *(None,) * 8)  # type: ignore[attr-defined]


class _Transformable(torch.autograd.Function):
    forward = staticmethod(_evaluate_unchecked)
    setup_context = staticmethod(_setup_context)
    backward = staticmethod(_backward)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Any, Any]:
        """Evaluate the forms one after the other along the batched dimension."""
        apply: Callable[..., tuple[Tensor, Tensor]] = _Transformable.apply
        outputs = [
            apply(
                *(
                    value.select(dim, number) if isinstance(dim, int) else value
                    for value, dim in zip(inputs, in_dims, strict=True)
                )
            )
            for number in range(info.batch_size)
        ]
        values, grads = zip(*outputs, strict=True)
        return (torch.stack(values), torch.stack(grads)), (0, 0)


# Up to torch 2.6 a schema is not inferred from postponed annotations.
_SCHEMA = (
    "(Tensor samples, Tensor groups, Tensor rows, Tensor coefs, float[] bandwidths, str reduction,"
    " str method, bool balanced, bool with_grad) -> (Tensor, Tensor)"
)
_operator = torch.library.custom_op(
    "riskmatch::kernel_forms", _evaluate_unchecked, mutates_args=(), schema=_SCHEMA
)
_operator.register_autograd(_backward, setup_context=_setup_context)


@_operator.register_fake
def _shapes(samples: Tensor, *settings: object) -> tuple[Tensor, Tensor]:
    with_grad = bool(settings[-1])
    out = _result_dtype(samples)
    shape = samples.shape if with_grad else (0,)
    return samples.new_empty((), dtype=out), samples.new_empty(shape, dtype=out)
