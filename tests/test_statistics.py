"""Intervals and two-sample distances against direct formulas."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import norm

from riskmatch.statistics import (
    bootstrap_interval,
    half_of_t_interval,
    ks_distance,
    normal_quantile,
    share_interval,
    superiority,
)


@pytest.mark.parametrize(("hits", "n"), [(0, 5), (5, 5), (37, 50), (1, 2000)])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_ends_of_the_interval_of_a_share_solve_wilsons_equation(hits, n, level):
    share, z = hits / n, norm.ppf((1 + level) / 2)
    for end in share_interval(hits, n, level):
        assert abs(share - end) == pytest.approx(z * np.sqrt(end * (1 - end) / n), abs=1e-7)


def test_prediction_interval_of_many_values_is_that_of_the_normal_distribution():
    values = np.random.default_rng(0).normal(size=20_000)
    expected = normal_quantile(0.9) * values.std()
    assert half_of_t_interval(values, 0.9, further=1) == pytest.approx(expected, rel=1e-3)


def test_distances_of_two_samples_are_those_of_all_points_and_pairs():
    rng = np.random.default_rng(0)
    x, y = rng.integers(9, size=40).astype(float), rng.integers(7, size=25).astype(float)
    x[:3] = -np.inf  # how missing values are counted
    gaps = [abs((x <= point).mean() - (y <= point).mean()) for point in (*x, *y)]
    assert ks_distance(x, y) == pytest.approx(max(gaps), abs=1e-12)
    pairs = (x[:, None] > y) + 0.5 * (x[:, None] == y)
    assert superiority(x, y) == pytest.approx(pairs.mean(), abs=1e-12)


def test_statistics_are_imported_without_torch():
    code = "import sys, riskmatch.statistics; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_bootstrap_interval_of_a_mean_is_the_normal_one():
    random = np.random.default_rng(0)
    x = random.normal(size=400)
    ends = bootstrap_interval(lambda rows: float(x[rows].mean()), np.arange(400), 0.9, draws=2000)
    half = norm.ppf(0.95) * x.std() / 20
    np.testing.assert_allclose(ends, x.mean() + np.array([-half, half]), atol=0.01)


def test_bootstrap_of_groups_draws_whole_groups():
    """Forty groups of ten equal values: the interval is that of forty values."""
    values = np.random.default_rng(0).normal(size=40)
    groups = np.random.default_rng(1).permutation(np.repeat(np.arange(40), 10))
    x = values[groups]
    low, high = bootstrap_interval(lambda rows: float(x[rows].mean()), groups, 0.9, draws=2000)
    expected = 2 * norm.ppf(0.95) * values.std() / np.sqrt(40)
    assert high - low == pytest.approx(expected, rel=0.1)
    ends = bootstrap_interval(lambda rows: float("nan"), groups, 0.9)
    assert np.isnan(ends).all()
