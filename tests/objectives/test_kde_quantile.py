"""The quantile of a kernel density estimate, against root finding and finite differences."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from riskmatch.divergence import kde_quantile, kde_tail_quantile

RISKS = torch.tensor([0.3, 1.1, 0.7, 2.0, 0.35], dtype=torch.float64)
ALPHAS = [0.01, 0.5, 0.75, 0.99, 1 - 1e-9]


def bandwidth(x):
    return float(1.06 * x.std() * len(x) ** -0.2)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_value_is_the_root_of_the_distribution_function(alpha):
    points, h = RISKS.numpy(), bandwidth(RISKS)
    root = brentq(lambda v: norm.cdf((v - points) / h).mean() - alpha, -50, 50, xtol=1e-15)
    assert kde_quantile(RISKS, alpha).item() == pytest.approx(
        root, rel=1e-7 if alpha > 0.999 else 1e-13
    )


def test_tail_is_the_asymptote():
    expected = RISKS.mean() + bandwidth(RISKS) * 2000**0.5
    torch.testing.assert_close(kde_tail_quantile(RISKS, -1000.0), expected)


@pytest.mark.parametrize(
    "quantile",
    [*(lambda x, a=a: kde_quantile(x, a) for a in ALPHAS), lambda x: kde_tail_quantile(x, -500.0)],
    ids=[*map(str, ALPHAS), "tail"],
)
def test_gradient_is_that_of_finite_differences(quantile):
    x = RISKS.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(quantile(x), x)
    step = 1e-5 * torch.eye(len(x), dtype=torch.float64)
    slopes = [(quantile(RISKS + d) - quantile(RISKS - d)) / 2e-5 for d in step]
    torch.testing.assert_close(gradient, torch.stack(slopes), rtol=0, atol=1e-6)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-5, 5), min_size=2, max_size=6),
    st.floats(0.05, 0.95),
    st.floats(0.1, 10),
    st.floats(-3, 3),
)
def test_quantile_follows_shift_and_scale(values, alpha, scale, shift):
    x = torch.tensor(values, dtype=torch.float64)
    moved = kde_quantile(scale * x + shift, alpha)
    torch.testing.assert_close(moved, scale * kde_quantile(x, alpha) + shift, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("values", [[0.7], [0.7, 0.7, 0.7], [0.7, 0.7 + 1e-16], [0.7, 0.7 + 1e-15]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_spread_the_quantile_is_the_mean_with_a_finite_gradient(values, dtype):
    for quantile in (lambda x: kde_quantile(x, 0.9), lambda x: kde_tail_quantile(x, -10.0)):
        x = torch.tensor(values, dtype=dtype, requires_grad=True)
        value = quantile(x)
        value.backward()
        assert value.item() == pytest.approx(0.7, abs=1e-7)
        assert x.grad.sum().item() == pytest.approx(1.0)  # a shift moves the quantile as far
        assert bool(torch.isfinite(x.grad).all())


def test_higher_quantiles_put_more_weight_on_the_worst():
    x = RISKS.clone().requires_grad_()
    shares = [torch.autograd.grad(kde_quantile(x, a), x)[0][3].item() for a in (0.2, 0.5, 0.9)]
    assert shares == sorted(shares)


@pytest.mark.parametrize("alpha", [0.0, 1.0, 75])
def test_a_level_outside_the_unit_interval_is_refused(alpha):
    with pytest.raises(ValueError, match=r"strictly between 0 and 1.*kde_tail_quantile"):
        kde_quantile(RISKS, alpha)


def test_a_tail_that_is_no_logarithm_is_refused():
    with pytest.raises(ValueError, match="must be negative"):
        kde_tail_quantile(RISKS, 0.99)


def test_a_second_derivative_is_refused():
    x = RISKS.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(kde_quantile(x, 0.7), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()
