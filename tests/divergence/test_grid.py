"""The linear-time sum against all pairs in float64, for customary and for hostile risks."""

import pytest
import reference
import torch
from torch.autograd import gradcheck

from riskmatch import RBFMixture, mmd2

KERNEL = RBFMixture.authors_code()


def value_and_gradient(risks, first, **options):
    z = risks.clone().requires_grad_()
    value = mmd2(z[:first], z[first:], **options)
    (grad,) = torch.autograd.grad(value, z)
    return value.detach().double(), grad.double()


def check(risks, first, kernel, tolerance, methods=("grid", "auto")):
    q = reference.signed_weights(risks[:first], risks[first:])
    value, grad = reference.quadratic_form(risks, q, kernel)
    for method in methods:
        got, got_grad = value_and_gradient(risks, first, kernel=kernel, method=method)
        assert (got - value).abs() <= tolerance * value + 1e-30
        assert (got_grad - grad).norm() <= tolerance * grad.norm() + 1e-15


@pytest.mark.parametrize("n", [64, 264, 1000])
@pytest.mark.parametrize("shape", reference.SHAPES)
def test_float32_agrees_with_all_pairs(shape, n):
    check(reference.risks(shape, n), n // 3, KERNEL, tolerance=1e-5)


@pytest.mark.parametrize("shape", reference.SHAPES)
def test_five_thousand_risks_agree_with_all_pairs(shape):
    kernel = RBFMixture.from_gammas([1e-4, 1.0, 1e3], reduction="sum")
    check(reference.risks(shape, 5_000), 1_000, kernel, tolerance=1e-5, methods=("auto",))


@pytest.mark.parametrize("n", [64, 264, 1000])
@pytest.mark.parametrize("shape", reference.SHAPES)
def test_float64_agrees_with_all_pairs(shape, n):
    check(reference.risks(shape, n, torch.float64), n // 3, KERNEL, tolerance=1e-8)


@pytest.mark.parametrize("shape", ["cross-entropy", "one outlier of 1e6", "Cauchy", "a lattice"])
@pytest.mark.parametrize(
    "kernel", [RBFMixture.paper(), RBFMixture(1.0), RBFMixture([1e-6, 1e6])], ids=str
)
def test_other_kernels_agree_with_all_pairs(kernel, shape):
    check(reference.risks(shape, 500), 200, kernel, tolerance=1e-5)


@pytest.mark.parametrize("seed", range(20))
def test_float32_gradients_of_ties_agree_with_all_pairs(seed):
    generator = torch.Generator().manual_seed(seed)
    values = 7 * torch.randn(2 + seed % 10, generator=generator)
    risks = values[torch.randint(len(values), (300,), generator=generator)]
    check(risks, 100, KERNEL, tolerance=3e-5)


def test_twenty_thousand_risks_agree_with_all_pairs():
    kernel = RBFMixture(1e-3)
    risks = reference.risks("one outlier of 1e6", 20_000)
    check(risks, 5_000, kernel, tolerance=1e-5, methods=("auto",))


@pytest.mark.parametrize("scale", [1e-2, 1e-8, 1e-12])
def test_samples_that_differ_by_little_keep_their_digits(scale):
    x = scale * reference.risks("exponential", 300, torch.float64)
    check(x, 100, KERNEL, tolerance=1e-9)


def test_pairs_that_nearly_coincide_keep_their_digits():
    x = reference.risks("exponential", 200, torch.float64)
    check(torch.cat([x, x + 1e-3]), 200, KERNEL, tolerance=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_samples_on_the_seams_of_the_grid_agree_with_all_pairs(seed):
    generator = torch.Generator().manual_seed(seed)
    node = KERNEL.bandwidths[-1] ** 0.5 / 5
    halves = torch.randint(200, (150,), generator=generator).double()
    check(node * halves / 2, 50, KERNEL, tolerance=1e-9)


@pytest.mark.parametrize(
    "shape", ["cross-entropy", "around 1e-8", "one outlier of 1e6", "two far clusters", "Cauchy"]
)
def test_the_unbiased_estimate_agrees_with_all_pairs(shape):
    x = reference.risks(shape, 300, torch.float64)
    got, got_grad = value_and_gradient(x, 100, unbiased=True, method="grid")
    value, grad = reference.quadratic_form(x, reference.signed_weights(x[:100], x[100:]), KERNEL)
    total, total_grad = value.clone(), grad.clone()
    for part in (slice(0, 100), slice(100, 300)):
        size = len(x[part])
        own = torch.full((size,), 1 / size, dtype=torch.float64)
        own_value, own_grad = reference.quadratic_form(x[part], own, KERNEL)
        total += own_value / (size - 1)
        total_grad[part] += own_grad / (size - 1)
    assert (got - total).abs() <= 1e-8 * value
    assert (got_grad - total_grad).norm() <= 1e-8 * total_grad.norm()


@pytest.mark.parametrize("spread", [1.0, 1e4], ids=["one line", "a line per bandwidth"])
@pytest.mark.parametrize("unbiased", [False, True])
def test_the_gradient_is_that_of_the_value(spread, unbiased):
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.rand(n, generator=generator, dtype=torch.float64) for n in (9, 6))
    x[:4] += spread
    y[3:] += spread

    def form(x, y):
        return mmd2(x, y, unbiased=unbiased, method="grid")

    assert gradcheck(form, (x.requires_grad_(), y.requires_grad_()), eps=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", ["one outlier of 1e6", "one outlier of 1e30", "Cauchy"])
@pytest.mark.parametrize("keep", [False, True], ids=["without gradient", "with gradient"])
def test_no_grid_covers_the_whole_range(shape, keep):
    z = reference.risks(shape, 2000).requires_grad_(keep)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profile:
        mmd2(z[:500], z[500:], method="grid")
    largest = max(event.cpu_memory_usage for event in profile.events())
    assert 0 < largest < 64 * 2**20  # a node per 0.0045 up to 1e6 would take 1.8 GB


def test_more_samples_than_one_chunk_agree_with_weights_on_few():
    values = torch.linspace(0, 4, 40, dtype=torch.float64)
    many = values.repeat(1000)
    few = mmd2(values, values[:25], method="dense")
    assert torch.allclose(mmd2(many, values[:25], method="grid"), few, rtol=1e-10)
