import math
import warnings

import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.autograd import gradcheck
from torch.nn import functional as F

from riskmatch import RBFMixture, mmd2
from riskmatch.divergence import MMD, forms

KERNELS = [RBFMixture.authors_code(), RBFMixture.paper(), RBFMixture(0.5)]
METHODS = ["dense", "grid"]

values = st.floats(-5, 5, width=32)
samples = st.lists(values, min_size=1, max_size=12).map(
    lambda numbers: torch.tensor(numbers, dtype=torch.float64)
)


def drawn(*sizes, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=generator, dtype=dtype).abs() for size in sizes]


# Closed forms


@pytest.mark.parametrize("method", METHODS)
def test_two_point_masses(method):
    x, y = torch.full((5,), 0.3, dtype=torch.float64), torch.full((2,), 1.5, dtype=torch.float64)
    expected = 2 - 2 * math.exp(-(1.2**2) / (2 * 0.7))
    got = mmd2(x, y, kernel=RBFMixture(0.7), method=method)
    assert float(got) == pytest.approx(expected, rel=1e-10)


def expected_kernel(shift, variance, sigma):
    """E exp(−D²/(2σ)) for D normal with this mean and variance."""
    wide = sigma + variance
    return math.sqrt(sigma / wide) * math.exp(-(shift**2) / (2 * wide))


@pytest.mark.parametrize("sigma", [0.05, 1.0, 30.0])
def test_two_normal_distributions(sigma):
    (m1, s1), (m2, s2) = (0.4, 1.0), (1.0, 0.6)
    levels = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000
    quantiles = torch.special.ndtri(levels)  # stand for the distribution without its noise
    expected = (
        expected_kernel(0, 2 * s1**2, sigma)
        + expected_kernel(0, 2 * s2**2, sigma)
        - 2 * expected_kernel(m1 - m2, s1**2 + s2**2, sigma)
    )
    got = mmd2(m1 + s1 * quantiles, m2 + s2 * quantiles, kernel=RBFMixture(sigma))
    assert float(got) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_the_published_form(method):
    x, y = drawn(40, 70)

    def gram(a, b):
        squares = (a[:, None] - b).square()
        return sum(torch.exp(-(10.0**power) * squares) for power in range(-4, 4)).mean()

    expected = gram(x, x) + gram(y, y) - 2 * gram(x, y)
    assert torch.allclose(mmd2(x, y, method=method), expected, rtol=1e-10, atol=0)


# Properties


@given(samples, samples, st.sampled_from(METHODS), st.sampled_from(KERNELS))
def test_never_negative_and_symmetric(x, y, method, kernel):
    there = mmd2(x, y, kernel=kernel, method=method)
    back = mmd2(y, x, kernel=kernel, method=method)
    assert there >= 0
    assert torch.allclose(there, back, rtol=1e-8, atol=1e-14)


@given(samples, st.sampled_from(METHODS), st.randoms(use_true_random=False))
def test_zero_for_the_same_samples_in_any_order(x, method, random):
    order = list(range(len(x)))
    random.shuffle(order)
    assert mmd2(x, x[order], method=method) < 1e-14


@given(samples, samples, st.sampled_from(METHODS), st.randoms(use_true_random=False))
def test_the_order_of_samples_does_not_matter(x, y, method, random):
    order = list(range(len(x)))
    random.shuffle(order)
    there, shuffled = mmd2(x, y, method=method), mmd2(x[order], y, method=method)
    assert torch.allclose(there, shuffled, rtol=1e-8, atol=1e-14)


@given(samples, samples, st.sampled_from(METHODS), st.sampled_from([-64.0, 0.5, 4096.0]))
def test_a_common_shift_does_not_matter(x, y, method, shift):
    moved = mmd2(x + shift, y + shift, method=method)
    assert torch.allclose(moved, mmd2(x, y, method=method), rtol=1e-8, atol=1e-10)


@given(samples, samples, st.sampled_from(METHODS), st.integers(2, 4))
def test_repeating_every_sample_does_not_matter(x, y, method, times):
    repeated = mmd2(x.repeat(times), y, method=method)
    assert torch.allclose(repeated, mmd2(x, y, method=method), rtol=1e-8, atol=1e-14)


@given(samples, samples, st.sampled_from(KERNELS))
def test_the_grid_agrees_with_all_pairs(x, y, kernel):
    exact = mmd2(x, y, kernel=kernel, method="dense")
    assert torch.allclose(mmd2(x, y, kernel=kernel, method="grid"), exact, rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(5))
def test_rounding_never_makes_it_negative(seed, method):
    (x,) = drawn(7, seed=seed)
    assert 0 <= mmd2(x, x.repeat(3), method=method) < 1e-14


# All pairs


@pytest.mark.parametrize("kernel", KERNELS)
def test_dense_agrees_with_brute_force(kernel):
    x, y = drawn(30, 17)
    value, grad = reference.quadratic_form(
        torch.cat([x, y]), reference.signed_weights(x, y), kernel
    )
    z = torch.cat([x, y]).requires_grad_()
    got = mmd2(z[:30], z[30:], kernel=kernel, method="dense")
    got.backward()
    assert torch.allclose(got, value, rtol=1e-12)
    assert torch.allclose(z.grad, grad, rtol=1e-10, atol=1e-15)


def test_dense_does_not_depend_on_its_blocks(monkeypatch):
    x, y = (part.requires_grad_() for part in drawn(50, 33))
    whole = mmd2(x, y, method="dense")
    (whole_grad,) = torch.autograd.grad(whole, x)
    monkeypatch.setattr(forms, "_BLOCK_ELEMENTS", 8 * 83 * 7)  # seven rows, and a rest of six
    parts = mmd2(x, y, method="dense")
    (parts_grad,) = torch.autograd.grad(parts, x)
    assert torch.allclose(whole, parts, rtol=1e-13)
    assert torch.allclose(whole_grad, parts_grad, rtol=1e-13)


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_dense_gradient_is_that_of_the_value(kernel, unbiased):
    x, y = (part.requires_grad_() for part in drawn(5, 4))
    assert gradcheck(
        lambda x, y: mmd2(x, y, kernel=kernel, unbiased=unbiased, method="dense"), (x, y)
    )


# The unbiased estimate


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_unbiased_estimate_leaves_out_self_pairs(kernel, method):
    x, y = drawn(12, 20)

    def mean_over_others(z):
        pairs = kernel(z[:, None] - z)
        return (pairs.sum() - pairs.diagonal().sum()) / (len(z) * (len(z) - 1))

    expected = mean_over_others(x) + mean_over_others(y) - 2 * kernel(x[:, None] - y).mean()
    got = mmd2(x, y, kernel=kernel, unbiased=True, method=method)
    assert torch.allclose(got, expected, rtol=1e-8)


def test_the_unbiased_estimate_is_zero_on_average_where_distributions_are_equal():
    draws = drawn(20_000)[0].view(200, 2, 50)
    unbiased = torch.stack([mmd2(x, y, unbiased=True) for x, y in draws])
    biased = torch.stack([mmd2(x, y) for x, y in draws])
    error = unbiased.std() / math.sqrt(len(unbiased))
    assert unbiased.mean().abs() < 3 * error
    assert unbiased.min() < 0
    assert biased.mean() > 20 * error


def test_the_unbiased_estimate_needs_two_samples():
    with pytest.raises(ValueError, match="y has 1 sample, and MMD needs at least 2: take more"):
        mmd2(torch.rand(3), torch.rand(1), unbiased=True)


# Dtypes, graphs and compilers


@pytest.mark.parametrize("size", [20, 200])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_exactly_and_returned_in_float32(dtype, size):
    x, y = (part.to(dtype).requires_grad_() for part in drawn(size, size + 5))
    got = mmd2(x, y)
    got.backward()
    exact_x, exact_y = (part.detach().double().requires_grad_() for part in (x, y))
    exact = mmd2(exact_x, exact_y, method="dense")
    exact.backward()
    assert got.dtype == torch.float32
    assert x.grad.dtype == dtype
    assert torch.allclose(got.double(), exact, rtol=1e-6)
    assert torch.allclose(x.grad, exact_x.grad.to(dtype), rtol=2 * torch.finfo(dtype).eps)


def test_the_result_is_as_wide_as_its_widest_sample():
    x, y = drawn(4, 5)
    assert mmd2(x, y).dtype == torch.float64
    assert mmd2(x, y.float()).dtype == torch.float64
    assert mmd2(x.float(), y.half()).dtype == torch.float32


def test_under_autocast_the_value_does_not_change():
    x, y = drawn(150, 170, dtype=torch.float32)
    expected = mmd2(x, y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(mmd2(x, y), expected)


def test_a_step_under_autocast_trains_the_model():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    inputs, labels = torch.randn(200, 4), torch.randint(3, (200,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        risks = F.cross_entropy(model(inputs), labels, reduction="none")
        mmd2(risks[:80], risks[80:]).backward()
    assert torch.isfinite(model.weight.grad).all()
    assert model.weight.grad.norm() > 0


def test_gradients_accumulate():
    x, y = drawn(120, 90)
    x.requires_grad_()
    mmd2(x, y).backward()
    once = x.grad.clone()
    (3 * mmd2(x, y)).backward()
    assert torch.allclose(x.grad, 4 * once)


def test_samples_that_are_one_tensor_get_the_gradient_of_both_sides():
    x = drawn(10)[0].requires_grad_()
    assert gradcheck(lambda x: mmd2(x, x.square(), method="dense"), (x,))


def test_strided_samples_agree_with_contiguous_ones():
    table = torch.stack(drawn(130, 130), dim=1).requires_grad_()
    x, y = table.unbind(1)
    assert not x.is_contiguous()
    got, expected = mmd2(x, y.flip(0)), mmd2(x.contiguous(), y.contiguous())
    assert torch.allclose(got, expected, rtol=1e-10)
    (strided,) = torch.autograd.grad(got, table)
    (contiguous,) = torch.autograd.grad(expected, table)
    assert torch.allclose(strided, contiguous, rtol=1e-8, atol=1e-14)


def test_without_gradients_the_value_is_the_same():
    x, y = (part.requires_grad_() for part in drawn(120, 130))
    with torch.no_grad():
        silent = mmd2(x, y)
    assert not silent.requires_grad
    assert torch.equal(silent, mmd2(x, y))


def test_inference_mode_leaves_nothing_behind_that_training_trips_over():
    x, y = drawn(120, 130, seed=5)
    with torch.inference_mode():
        mmd2(41 * x, y)
    mmd2(41 * x.requires_grad_(), y).backward()
    assert x.grad.norm() > 0


@pytest.mark.parametrize("size", [10, 150])
def test_a_second_derivative_is_refused_with_the_way_out(size):
    x, y = (part.requires_grad_() for part in drawn(size, size))
    (grad,) = torch.autograd.grad(mmd2(x, y), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"differentiable once.*divergence='moments'"):
        grad.square().sum().backward()


def test_a_first_derivative_may_keep_its_graph():
    x, y = (part.requires_grad_() for part in drawn(10, 10))
    (kept,) = torch.autograd.grad(mmd2(x, y), x, create_graph=True)
    (first,) = torch.autograd.grad(mmd2(x, y), x)
    assert torch.equal(kept.detach(), first)


@pytest.mark.parametrize("spread", [1.0, 1e9], ids=["one line", "a line per bandwidth"])
@pytest.mark.parametrize("with_grad", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_the_operator_keeps_what_it_promises_to_compilers(method, with_grad, spread):
    x = spread * drawn(120, dtype=torch.float32)[0]
    rows = torch.tensor([[1 / 60, -1 / 60], [1 / 60, 0.0]], dtype=torch.float64)
    coefs = torch.ones(2, dtype=torch.float64)
    samples, settings = (x, torch.arange(120) % 2, rows, coefs), ([1.0, 0.1], "mean", method)
    torch.library.opcheck(
        torch.ops.riskmatch.kernel_forms.default,
        (*samples, *settings, with_grad),
        test_utils=("test_schema", "test_autograd_registration", "test_faketensor"),
    )


@pytest.fixture
def _compiler():
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="torch")
        yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("_compiler")
@pytest.mark.parametrize("unbiased", [False, True])
def test_compiled_without_a_break_it_gives_the_same(unbiased):
    compiled = torch.compile(mmd2, backend="aot_eager", fullgraph=True)
    for spread in (1.0, 1e6):
        x, y = (spread * part for part in drawn(150, 40, dtype=torch.float32))
        assert torch.equal(compiled(x, y, unbiased=unbiased), mmd2(x, y, unbiased=unbiased))
        x.requires_grad_()
        (got,) = torch.autograd.grad(compiled(x, y, unbiased=unbiased), x)
        (expected,) = torch.autograd.grad(mmd2(x, y, unbiased=unbiased), x)
        assert torch.equal(got, expected)


@pytest.mark.usefixtures("_compiler")
def test_a_compiled_training_step_gives_the_same_gradient():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    inputs, labels = torch.randn(200, 4), torch.randint(3, (200,))

    def loss(inputs, labels):
        risks = F.cross_entropy(model(inputs), labels, reduction="none")
        return risks.mean() + 2 * mmd2(risks[:70], risks)

    def gradient(function):
        model.zero_grad()
        function(inputs, labels).backward()
        return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    assert torch.allclose(gradient(compiled), gradient(loss), rtol=1e-5, atol=1e-7)


# Refusals


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ([0.1, 0.2], TypeError, "x must be a torch.Tensor, got list"),
        (torch.tensor([1, 2]), TypeError, r"x must be floating point, got torch.int64; use x.fl"),
        (torch.rand(3, 1), ValueError, r"got shape \(3, 1\); use x\.squeeze\(1\)"),
        (torch.tensor(0.5), ValueError, r"got shape \(\)"),
        (torch.empty(0), ValueError, "x is empty"),
        (torch.tensor([0.1, math.nan, math.inf, math.nan]), ValueError, "2 NaN and 1 infinite amo"),
        (torch.rand(3, device="meta"), ValueError, r"x is on meta and y on cpu; move one with"),
    ],
)
def test_what_is_no_sample_is_refused(x, error, message):
    with pytest.raises(error, match=message):
        mmd2(x, torch.rand(3))


def test_unknown_options_are_answered_with_the_nearest():
    with pytest.raises(ValueError, match=r"Unknown method 'gird'\. Did you mean 'grid'\?"):
        mmd2(torch.rand(3), torch.rand(3), method="gird")
    with pytest.raises(TypeError, match=r"kernel must be an RBFMixture, got list; .*RBFMixture\("):
        MMD(kernel=[1.0])
