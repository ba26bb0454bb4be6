"""Distances between features, against the definition written out over pairs."""

from itertools import combinations

import pytest
import torch

from riskmatch.divergence import feature_coral, feature_mmd2


def parts(sizes=(5, 3, 8), dtype=torch.float64, features=4):
    torch.manual_seed(0)
    return [torch.randn(n, features, dtype=dtype) + n / 5 for n in sizes]


def coral(x, y):
    means = (x.mean(0) - y.mean(0)).square().mean()
    return means + (x.T.cov() - y.T.cov()).square().mean()


def mmd2(x, y):
    def k(a, b):
        squares = (a[:, None] - b).square().sum(2)
        return sum((-(10.0**p) * squares).exp() for p in range(-3, 4)).mean()

    return k(x, x) + k(y, y) - 2 * k(x, y)


@pytest.mark.parametrize(("distance", "pair"), [(feature_coral, coral), (feature_mmd2, mmd2)])
@pytest.mark.parametrize("features", [4, 16, 17, 60])  # from fewer than samples to more
def test_distance_is_the_mean_over_pairs(distance, pair, features):
    samples = parts(features=features)
    expected = torch.stack([pair(x, y) for x, y in combinations(samples, 2)]).mean()
    torch.testing.assert_close(distance(samples), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("distance", [feature_coral, feature_mmd2])
@pytest.mark.parametrize("features", [4, 12])
def test_gradient_is_that_of_finite_differences(distance, features):
    inputs = [part.requires_grad_() for part in parts((3, 2, 4), features=features)]
    assert torch.autograd.gradcheck(lambda *samples: distance(samples), inputs)


@pytest.mark.parametrize("distance", [feature_coral, feature_mmd2])
def test_one_sample_set_has_distance_zero(distance):
    assert distance(parts((5,))) == 0


@pytest.mark.parametrize(
    ("distance", "features"), [(feature_coral, 4), (feature_coral, 40), (feature_mmd2, 4)]
)
def test_equal_samples_have_distance_zero_and_no_gradient(distance, features):
    x = parts((6,), torch.float32, features)[0].requires_grad_()
    value = distance([x, x.detach().clone()])
    value.backward()
    assert value.abs() < 1e-5
    assert x.grad.abs().max() < 1e-3


def test_coral_of_a_single_row_names_the_cure():
    with pytest.raises(ValueError, match=r"sizes \[4, 1\] have no covariance.*larger batches"):
        feature_coral(parts((4, 1)))
