"""Two-sample tests: MMD² against mmd2 and plain loops, p-values against their definition."""

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy import stats

from riskmatch.divergence import mmd2
from riskmatch.report.density import kernel_matrix, pairwise_mmd
from riskmatch.statistics import two_sample_test


def compare(x, y, permutations=99, seed=0):
    rng = np.random.default_rng(seed)
    return two_sample_test(kernel_matrix(np.concatenate([x, y])), len(x), permutations, rng)


def unbiased(x, y):
    """Definition of the unbiased estimate, pair by pair."""

    def k(a, b):
        return sum(np.exp(-(10.0**power) * (a - b) ** 2) for power in range(-4, 4))

    xx = np.mean([k(x[i], x[j]) for i in range(len(x)) for j in range(len(x)) if i != j])
    yy = np.mean([k(y[i], y[j]) for i in range(len(y)) for j in range(len(y)) if i != j])
    return xx + yy - 2 * np.mean([k(a, b) for a in x for b in y])


@pytest.mark.parametrize(("n", "m"), [(2, 2), (7, 12), (40, 15)])
def test_value_equals_mmd2_and_a_loop(n, m):
    rng = np.random.default_rng(n)
    x, y = rng.exponential(size=n), rng.exponential(2, size=m)
    value = compare(x, y).value
    tensors = torch.from_numpy(x), torch.from_numpy(y)
    expected = mmd2(*tensors, unbiased=True, method="dense").item()
    assert value == pytest.approx(expected, abs=1e-12)
    assert value == pytest.approx(unbiased(x, y), abs=1e-12)


def test_p_value_is_the_fraction_of_permutations_with_as_large_a_distance():
    x, y = np.array([0.1, 0.3, 0.2, 1.1]), np.array([0.9, 1.2, 0.7, 0.65])
    pool, everyone = np.concatenate([x, y]), set(range(8))
    values = [
        unbiased(pool[list(some)], pool[sorted(everyone - set(some))])
        for some in combinations(range(8), 4)
    ]
    exact = np.mean(np.array(values) >= unbiased(x, y) - 1e-12)
    assert 0.03 < exact < 0.5
    assert compare(x, y, permutations=20_000).p == pytest.approx(exact, abs=0.01)


def test_p_values_are_uniform_for_equal_distributions():
    rng = np.random.default_rng(5)
    p_values = [compare(*rng.exponential(size=(2, 25)), seed=k).p for k in range(1000)]
    assert stats.kstest(p_values, "uniform").pvalue > 0.01
    assert np.mean(np.array(p_values) <= 0.1) == pytest.approx(0.1, abs=0.05)


def test_p_value_of_a_shift_is_the_smallest_possible():
    rng = np.random.default_rng(0)
    result = compare(rng.exponential(size=100), 1 + rng.exponential(size=80), permutations=200)
    assert result.p == 1 / 201
    assert result.value > 0.05


def test_constant_samples_and_single_values():
    assert compare(np.full(9, 0.3), np.full(4, 0.3)) == pytest.approx((0, 1), abs=1e-12)
    assert compare(np.ones(1), np.ones(5)) == (None, None)


def test_pairs_are_symmetric_and_deterministic():
    rng = np.random.default_rng(0)
    samples = [rng.exponential(size=900), 1 + rng.exponential(size=30), np.empty(0)]
    result = pairwise_mmd(samples)
    assert result == pairwise_mmd(samples)
    assert all(result[i][j] == result[j][i] for i in range(3) for j in range(3))
    assert result[0][1].p < 0.01
    assert result[0][2] == (None, None)
    assert [result[k][k] for k in range(3)] == [(0, None)] * 3


def test_no_samples_give_no_pairs():
    assert pairwise_mmd([]) == []
