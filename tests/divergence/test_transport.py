import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch.autograd import gradcheck

from riskmatch.divergence import Energy, Wasserstein

ALL = [Energy(), Wasserstein(1), Wasserstein(2)]

values = st.floats(-100, 100, width=32)
samples = st.lists(values, min_size=1, max_size=15).map(
    lambda numbers: torch.tensor(numbers, dtype=torch.float64)
)


def drawn(*sizes):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(size, generator=generator, dtype=torch.float64) for size in sizes]


@given(samples, samples)
def test_energy_is_the_square_of_scipys(x, y):
    expected = stats.energy_distance(x.numpy(), y.numpy()) ** 2
    assert float(Energy()(x, y)) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@given(samples, samples)
def test_energy_is_the_difference_of_mean_distances(x, y):
    between, own, others = ((a[:, None] - b).abs().mean() for a, b in ((x, y), (x, x), (y, y)))
    assert torch.allclose(Energy()(x, y), 2 * between - own - others, atol=1e-10)


@given(samples, samples)
def test_wasserstein_1_is_scipys(x, y):
    expected = stats.wasserstein_distance(x.numpy(), y.numpy())
    assert float(Wasserstein()(x, y)) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@given(samples, samples, st.sampled_from([1, 2]))
def test_wasserstein_matches_sorted_samples_of_equal_number(x, y, order):
    common = math.lcm(len(x), len(y))
    a, b = (z.sort().values.repeat_interleave(common // len(z)) for z in (x, y))
    expected = (a - b).abs().pow(order).mean()
    assert torch.allclose(Wasserstein(order)(x, y), expected, atol=1e-12)


@pytest.mark.parametrize("divergence", ALL, ids=str)
@given(x=samples, y=samples, shift=st.sampled_from([-8.0, 0.25]), times=st.integers(1, 3))
def test_a_divergence_of_distributions(divergence, x, y, shift, times):
    value = divergence(x, y)
    assert value >= 0
    assert torch.allclose(divergence(y, x), value, atol=1e-10)
    assert torch.allclose(divergence(x.flip(0), y), value, atol=1e-10)
    assert torch.allclose(divergence(x + shift, y + shift), value, atol=1e-10)
    assert torch.allclose(divergence(x.repeat(times), y), value, atol=1e-10)
    assert divergence(x, x.repeat(times)) < 1e-12


@pytest.mark.parametrize("divergence", ALL, ids=str)
def test_the_gradient_is_that_of_the_value(divergence):
    samples = tuple(part.requires_grad_() for part in drawn(6, 9))
    assert gradcheck(divergence, samples)


@pytest.mark.parametrize("divergence", ALL, ids=str)
def test_the_gradient_is_zero_where_the_samples_agree(divergence):
    x = drawn(6)[0].requires_grad_()
    (grad,) = torch.autograd.grad(divergence(x, x.detach().flip(0)), x)
    assert grad.isfinite().all()
    if divergence != Energy():  # there one side of the kink is as good as the other
        assert torch.equal(grad, torch.zeros(6, dtype=torch.float64))


@pytest.mark.parametrize("divergence", ALL, ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(divergence, dtype):
    x, y = (part.to(dtype) for part in drawn(300, 500))
    got = divergence(x, y)
    assert got.dtype == torch.float32
    assert torch.allclose(got.double(), divergence(x.double(), y.double()), rtol=1e-4)


@pytest.mark.parametrize("divergence", ALL, ids=str)
def test_float32_keeps_its_digits_with_many_samples(divergence):
    x, y = drawn(20_000, 30_001)
    x, y = x.float(), y.float() + 0.5
    exact = divergence(x.double(), y.double())
    assert torch.allclose(divergence(x, y).double(), exact, rtol=1e-5)


def test_other_orders_are_refused():
    with pytest.raises(ValueError, match="order of Wasserstein must be 1 or 2, got 3"):
        Wasserstein(3)


@given(st.lists(st.integers(-2, 2), min_size=1, max_size=9), st.data())
def test_gradient_of_energy_at_ties_is_that_of_the_mean_distances(numbers, data):
    others = data.draw(st.lists(st.integers(-2, 2), min_size=1, max_size=9))
    x, y = (torch.tensor(n, dtype=torch.float64, requires_grad=True) for n in (numbers, others))
    between, own, other = ((a[:, None] - b).abs().mean() for a, b in ((x, y), (x, x), (y, y)))
    expected = torch.autograd.grad(2 * between - own - other, (x, y))
    for found, gradient in zip(torch.autograd.grad(Energy()(x, y), (x, y)), expected, strict=True):
        torch.testing.assert_close(found, gradient)


@pytest.mark.parametrize("weighted", [False, True])
def test_energy_in_float32_with_an_outlier(weighted):
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.rand(size, generator=generator) for size in (3000, 9000))
    y[0] = 1e7  # its weight is 1e-4, and its distance multiplies every rounding error
    weights = torch.full((9000,), 1 / 9000) if weighted else None
    exact = float(Energy()(x.double(), y.double()))
    assert float(Energy().between(x, y, weights)) == pytest.approx(exact, rel=1e-6)
