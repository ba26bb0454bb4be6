"""MMD² against the torch implementation and plain loops; p-values against their definition."""

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy import stats

from riskmatch.divergence import RBFMixture, mmd2
from riskmatch.report.findings.mmd import kernel, pairwise, two_sample


def compared(x, y, permutations=99, seed=0):
    rng = np.random.default_rng(seed)
    return two_sample(kernel(np.concatenate([x, y])), len(x), permutations, rng)


def unbiased(x, y):
    """The definition, pair by pair."""

    def k(a, b):
        return np.mean([np.exp(-((a - b) ** 2) / (2 * 10.0**power)) for power in range(-4, 4)])

    xx = np.mean([k(x[i], x[j]) for i in range(len(x)) for j in range(len(x)) if i != j])
    yy = np.mean([k(y[i], y[j]) for i in range(len(y)) for j in range(len(y)) if i != j])
    return xx + yy - 2 * np.mean([k(a, b) for a in x for b in y])


@pytest.mark.parametrize(("n", "m"), [(2, 2), (7, 12), (40, 15)])
def test_the_value_is_that_of_the_divergence_and_of_a_loop(n, m):
    rng = np.random.default_rng(n)
    x, y = rng.exponential(size=n), rng.exponential(2, size=m)
    value = compared(x, y).value
    tensors = torch.from_numpy(x), torch.from_numpy(y)
    expected = mmd2(*tensors, kernel=RBFMixture.paper(), unbiased=True, method="dense").item()
    assert value == pytest.approx(expected, abs=1e-12)
    assert value == pytest.approx(unbiased(x, y), abs=1e-12)


def test_p_is_the_share_of_all_divisions_of_the_pool_that_are_as_far_apart():
    x, y = np.array([0.1, 0.3, 0.2, 1.1]), np.array([0.9, 1.2, 0.7, 0.65])
    pool, everyone = np.concatenate([x, y]), set(range(8))
    values = [
        unbiased(pool[list(some)], pool[sorted(everyone - set(some))])
        for some in combinations(range(8), 4)
    ]
    exact = np.mean(np.array(values) >= unbiased(x, y) - 1e-12)
    assert 0.03 < exact < 0.5
    assert compared(x, y, permutations=20_000).p == pytest.approx(exact, abs=0.01)


def test_p_is_uniform_where_distributions_are_equal():
    rng = np.random.default_rng(5)
    found = [compared(*rng.exponential(size=(2, 25)), seed=k).p for k in range(300)]
    assert stats.kstest(found, "uniform").pvalue > 0.05
    assert np.mean(np.array(found) <= 0.1) == pytest.approx(0.1, abs=0.05)


def test_p_is_as_small_as_it_can_be_for_a_shift():
    rng = np.random.default_rng(0)
    found = compared(rng.exponential(size=100), 1 + rng.exponential(size=80), permutations=200)
    assert found.p == 1 / 201
    assert found.value > 0.05


def test_equal_values_cannot_be_told_apart_and_one_value_is_no_sample():
    assert compared(np.full(9, 0.3), np.full(4, 0.3)) == pytest.approx((0, 1), abs=1e-12)
    assert compared(np.ones(1), np.ones(5)) == (None, None)


def test_pairs_are_symmetric_and_the_same_at_every_call():
    rng = np.random.default_rng(0)
    samples = [rng.exponential(size=900), 1 + rng.exponential(size=30), np.empty(0)]
    found = pairwise(samples)
    assert found == pairwise(samples)
    assert all(found[i][j] == found[j][i] for i in range(3) for j in range(3))
    assert found[0][1].p < 0.01
    assert found[0][2] == (None, None)
    assert [found[k][k] for k in range(3)] == [(0, None)] * 3


def test_no_sample_is_no_pair():
    assert pairwise([]) == []
