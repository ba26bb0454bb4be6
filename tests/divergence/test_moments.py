import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from riskmatch.divergence import Moments


def drawn(*sizes):
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(size, generator=generator, dtype=torch.float64) for size in sizes]


def test_squared_differences_of_mean_and_unbiased_variance():
    x, y = drawn(7, 12)
    a, b = x.numpy(), y.numpy()
    expected = (a.mean() - b.mean()) ** 2 + (np.var(a, ddof=1) - np.var(b, ddof=1)) ** 2
    assert float(Moments()(x, y)) == pytest.approx(expected, rel=1e-12)


def test_a_common_shift_does_not_matter():
    x, y = drawn(7, 12)
    assert torch.allclose(Moments()(x + 100, y + 100), Moments()(x, y), rtol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_float32_keeps_small_differences_of_large_samples(weighted):
    generator = torch.Generator().manual_seed(0)
    x, y = (100 + 1e-3 * torch.randn(size, generator=generator) for size in (50, 60))
    weights = torch.rand(60, generator=generator).softmax(0) if weighted else None
    exact = Moments().between(x.double(), y.double(), None if weights is None else weights.double())
    assert float(Moments().between(x, y, weights)) == pytest.approx(float(exact), rel=1e-4)


def test_differentiable_twice():
    samples = tuple(part.requires_grad_() for part in drawn(5, 4))
    assert gradcheck(Moments(), samples)
    assert gradgradcheck(Moments(), samples)


def test_half_precision_is_computed_in_float32():
    x, y = (300 * part.half() for part in drawn(50, 60))  # a variance near 7,500, squared: 5.6e7
    got = Moments()(x, 2 * y)
    assert got.dtype == torch.float32
    assert torch.allclose(got.double(), Moments()(x.double(), 2 * y.double()), rtol=1e-5)


@pytest.mark.parametrize(("sizes", "name"), [((1, 3), "x"), ((3, 1), "y")])
def test_one_sample_has_no_variance(sizes, name):
    with pytest.raises(ValueError, match=f"{name} has 1 sample, and Moments needs at least 2"):
        Moments()(*drawn(*sizes))
