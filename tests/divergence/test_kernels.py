import math

import pytest
import torch

from riskmatch import RBFMixture


def test_the_paper_averages_over_bandwidths():
    sigmas = [10.0**power for power in range(-4, 4)]
    expected = sum(math.exp(-(0.3**2) / (2 * sigma)) for sigma in sigmas) / 8
    kernel = RBFMixture.paper()
    assert kernel.bandwidths == pytest.approx(sigmas)
    assert float(kernel(torch.tensor(0.3, dtype=torch.float64))) == pytest.approx(expected, 1e-12)
    assert float(kernel(torch.tensor(0.0))) == 1


def test_the_released_code_sums_over_gammas():
    expected = sum(math.exp(-(0.3**2) * 10.0**power) for power in range(-4, 4))
    kernel = RBFMixture.authors_code()
    assert float(kernel(torch.tensor(0.3, dtype=torch.float64))) == pytest.approx(expected, 1e-12)
    assert float(kernel(torch.tensor(0.0))) == 8


def test_gammas_and_bandwidths_are_two_spellings():
    kernel = RBFMixture.from_gammas([0.5, 2.0], reduction="sum")
    assert kernel == RBFMixture([1.0, 0.25], reduction="sum")
    assert kernel.gammas == (0.5, 2.0)
    assert kernel.weight == 1
    assert RBFMixture([1.0, 0.25]).weight == 0.5


def test_one_bandwidth_needs_no_list():
    assert RBFMixture(2).bandwidths == (2.0,)


def test_a_kernel_keeps_the_shape_of_distances():
    assert RBFMixture.paper()(torch.zeros(2, 3)).shape == (2, 3)


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan, math.inf])
def test_a_bandwidth_that_is_no_positive_number_is_refused(sigma):
    with pytest.raises(ValueError, match="bandwidth must be a positive finite number"):
        RBFMixture([1.0, sigma])


@pytest.mark.parametrize("gamma", [0.0, -1.0, math.nan, math.inf])
def test_a_gamma_that_is_no_positive_number_is_refused(gamma):
    with pytest.raises(ValueError, match="γ must be a positive finite number"):
        RBFMixture.from_gammas([1.0, gamma])


@pytest.mark.parametrize("make", [RBFMixture, RBFMixture.from_gammas])
def test_no_bandwidth_at_all_is_refused(make):
    with pytest.raises(ValueError, match="at least one bandwidth"):
        make([])


def test_a_misspelt_reduction_is_answered_with_the_right_one():
    with pytest.raises(ValueError, match=r"Unknown reduction 'men'\. Did you mean 'mean'\?"):
        RBFMixture(1.0, reduction="men")


def test_the_median_heuristic_takes_the_median_of_all_distances():
    x, y = torch.tensor([0.0, 1.0]), torch.tensor([3.0, 7.0])  # distances 1 2 3 4 6 7
    (sigma,) = RBFMixture.median(x, y).bandwidths
    assert sigma == 9.0  # the lower of the two middle ones, squared
    assert RBFMixture.median(x, y, scales=[0.5, 2.0]).bandwidths == (4.5, 18.0)


def test_the_median_heuristic_hardly_changes_where_it_thins_many_samples():
    x = torch.randn(3000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    exact = float(torch.pdist(x[:, None]).median()) ** 2
    assert RBFMixture.median(x).bandwidths[0] == pytest.approx(exact, rel=0.01)


def test_the_median_heuristic_has_an_answer_where_the_median_distance_is_zero():
    assert RBFMixture.median(torch.ones(4)).bandwidths == (1.0,)
    assert RBFMixture.median(torch.ones(1)).bandwidths == (1.0,)
    ties = torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0], dtype=torch.float64)  # mean distance 4/10
    assert RBFMixture.median(ties).bandwidths == pytest.approx((0.16,))


@pytest.mark.parametrize("samples", [(), (torch.empty(0),)])
def test_the_median_heuristic_refuses_to_work_without_samples(samples):
    with pytest.raises(ValueError, match="needs samples"):
        RBFMixture.median(*samples)


def test_the_median_heuristic_refuses_nan():
    with pytest.raises(ValueError, match="finite samples"):
        RBFMixture.median(torch.tensor([0.0, math.nan]))
