"""Intervals and two-sample distances against direct formulas."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import halfnorm, norm, t, ttest_1samp

from riskmatch import statistics
from riskmatch.statistics import (
    at_least_worst,
    bootstrap_interval,
    holm,
    ks_distance,
    max_t,
    new_site_interval,
    normal_quantile,
    p_of_worse_site,
    paired_gain,
    share_interval,
    superiority,
    two_sample_test,
)


@pytest.mark.parametrize(("hits", "n"), [(0, 5), (5, 5), (37, 50), (1, 2000)])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_ends_of_the_interval_of_a_share_solve_wilsons_equation(hits, n, level):
    share, z = hits / n, norm.ppf((1 + level) / 2)
    for end in share_interval(hits, n, level):
        assert abs(share - end) == pytest.approx(z * np.sqrt(end * (1 - end) / n), abs=1e-7)


def test_interval_of_the_mean_of_many_values_is_that_of_the_normal_distribution():
    values = np.random.default_rng(0).normal(size=20_000)
    expected = normal_quantile(0.9) * values.std() / np.sqrt(20_000)
    assert paired_gain([values], level=0.9).half == pytest.approx(expected, rel=1e-3)


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


def predictive_share(values, variances, weights, scale, low, high):
    """Probability of [low, high] for a new site, by a grid over mean and spread."""
    mean = np.linspace(-2.5, 3.5, 1201)[:, None]
    tau = np.linspace(1e-3, 8 * scale, 800)
    log = halfnorm.logpdf(tau, scale=scale) + 0 * mean
    for value, variance, weight in zip(values, variances, weights, strict=True):
        log = log + weight * norm.logpdf(value, mean, np.sqrt(tau**2 + variance))
    posterior = np.exp(log - log.max())
    inside = norm.cdf(high, mean, tau) - norm.cdf(low, mean, tau)
    return (posterior * inside).sum() / posterior.sum()


@pytest.mark.parametrize(
    ("values", "within"),
    [
        ([0.6], [0.0]),
        ([0.45, 0.6], [0.0, 0.0]),
        ([0.5, 0.62, 0.55, 0.7], [0.01, 0.0004, 0.002, 0.0]),
        ([0.4, [0.5, 0.6], 0.45], [0.0, [0.001, 0.0], 0.002]),
    ],
)
def test_interval_for_a_new_site_has_its_level_under_the_posterior(values, within):
    low, high = new_site_interval(values, 0.8, within=within)
    flat = [np.concatenate([*map(np.atleast_1d, part)]) for part in (values, within)]
    weights = np.concatenate([np.full(np.size(site), 1 / np.size(site)) for site in values])
    assert 0 < low < high < 1
    assert predictive_share(*flat, weights, 0.15, low, high) == pytest.approx(0.8, abs=2e-3)
    assert predictive_share(*flat, weights, 0.15, -9, low) == pytest.approx(0.1, abs=2e-3)


def test_a_set_of_siblings_is_one_draw_of_a_site():
    alone = new_site_interval([0.5, 0.7, 0.6])
    np.testing.assert_allclose(new_site_interval([0.5, 0.7, [0.6, 0.6, 0.6]]), alone, atol=1e-9)
    separate = new_site_interval([0.5, 0.7, 0.6, 0.6, 0.6])
    assert separate[1] - separate[0] < 0.9 * (alone[1] - alone[0])
    apart = new_site_interval([0.5, 0.7, [0.5, 0.6, 0.7]])
    assert apart[1] - apart[0] > alone[1] - alone[0]  # members keep their values


def test_interval_for_a_new_site_is_cut_to_the_bounds():
    low, high = new_site_interval([0.9, 0.98, 0.95])
    assert low > 0.7
    assert high == 1
    assert new_site_interval([0.9, 0.98, 0.95], bounds=(None, None))[1] > 1


def test_errors_are_predicted_on_the_log_scale_and_the_share_explained_by_what_is_left():
    errors = np.array([3.0, 4.5, 2.8])
    low, high = new_site_interval(errors, bounds=(0, None))
    assert low * high == pytest.approx(np.prod(errors) ** (2 / 3))
    scaled = new_site_interval(100 * errors, bounds=(0, None))
    np.testing.assert_allclose(scaled, [100 * low, 100 * high])
    left = new_site_interval([0.3, 0.45, 0.28], bounds=(0, None))
    np.testing.assert_allclose(
        new_site_interval([0.7, 0.55, 0.72], bounds=(None, 1)), [1 - left[1], 1 - left[0]]
    )
    assert 0 <= new_site_interval([0.0, 1.0], bounds=(0, None))[0] < 0.1


@pytest.mark.parametrize("m", [1, 4])
def test_a_new_value_is_at_least_the_worst_as_often_as_stated(m):
    draws = np.random.default_rng(0).exponential(size=(20_000, m + 1))
    shares = (draws[:, 0] >= draws[:, 1:].min(1)).mean()
    assert at_least_worst(m) == pytest.approx(shares, abs=0.01)


RAGGED = [[1.0, 2.5, np.nan], [3.0, 4.0, 8.0], [0.5]]


def test_gain_on_these_domains_is_that_of_a_regression_on_domains():
    rows = [(e, d) for e, row in enumerate(RAGGED) for d in row if not np.isnan(d)]
    domain, y = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    x = np.eye(3)[domain]
    means, (rss,), *_ = np.linalg.lstsq(x, y)
    contrast = np.full(3, 1 / 3)
    se = np.sqrt(rss / 3 * contrast @ np.linalg.inv(x.T @ x) @ contrast)
    gain = paired_gain(RAGGED)
    assert gain.mean == pytest.approx(means.mean())
    assert gain.half == pytest.approx(3.182446 * se)  # t with 6 − 3 degrees of freedom
    assert gain.half == pytest.approx(paired_gain(RAGGED, level=0.5).half * 3.182446 / 0.7648923)


def test_gain_on_a_new_domain_is_the_t_test_of_means_of_domains():
    means = [np.nanmean(row) for row in RAGGED]
    test, gain = ttest_1samp(means, 0), paired_gain(RAGGED, "new-domain")
    assert gain.p == pytest.approx(test.pvalue)
    assert gain.mean - gain.half == pytest.approx(test.confidence_interval().low)


def test_one_trial_says_nothing_of_these_domains_and_one_domain_nothing_of_a_new_one():
    assert paired_gain([[1.0], [2.0]]) == (1.5, None, None)
    assert paired_gain([[1.0, 2.0]], "new-domain") == (1.5, None, None)
    assert max_t([[[1.0], [2.0]]]) == [None]


@pytest.mark.parametrize("unit", ["domains", "new-domain"])
def test_copies_of_a_method_cost_nothing_and_others_less_than_by_holm(unit):
    rng = np.random.default_rng(1)
    table = rng.normal(1.2, 1, size=(5, 2))
    alone = paired_gain(table, unit).p
    np.testing.assert_allclose(max_t([table] * 6, unit), alone, atol=0.005)
    tables = table + 0.3 * rng.normal(size=(6, 5, 2))
    raw = np.array([paired_gain(one, unit).p for one in tables])
    adjusted = np.array(max_t(tables, unit))
    assert (adjusted >= raw).all()
    assert (adjusted < np.array(holm(raw)) + 0.005).all()
    assert adjusted.min() < 0.7 * min(holm(raw))


def test_tables_with_other_cells_are_adjusted_by_holm():
    tables = [RAGGED, [[1.0, 2.0, 2.1], [1.5, 1.6, 1.9], [2.0]]]
    assert max_t(tables) == holm([paired_gain(table).p for table in tables])


@pytest.mark.parametrize("unit", ["domains", "new-domain"])
def test_one_of_many_equal_methods_is_called_better_in_five_per_cent(unit, monkeypatch):
    """Eight methods against one control on four domains in three trials, all of them equal."""
    monkeypatch.setattr(statistics, "ROTATIONS", 4000)
    rng, rejected, n = np.random.default_rng(0), 0, 300
    for _ in range(n):
        values = rng.normal(size=(9, 4, 1)) * (unit == "new-domain") + rng.normal(size=(9, 4, 3))
        rejected += min(max_t(values[1:] - values[0], unit)) <= 0.05
    assert 0.02 <= rejected / n <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / n)


LOGIT_SITES = np.log(np.array([0.8, 0.7, 0.75, 0.9]) / np.array([0.2, 0.3, 0.25, 0.1]))


@pytest.mark.parametrize("value", [0.85, 0.6, 0.3])
def test_p_of_a_worse_site_is_that_of_students_t_where_there_is_no_sampling_error(value):
    z = np.log(value / (1 - value))
    scale = LOGIT_SITES.std(ddof=1) * np.sqrt(1 + 1 / 4)
    expected = t.cdf((z - LOGIT_SITES.mean()) / scale, 3)
    sites = [0.8, 0.7, 0.75, 0.9]
    p = p_of_worse_site(value, 1e-12, sites, [1e-12] * 4)
    assert p == pytest.approx(expected, rel=2e-3)
    errors = [1 - site for site in sites]
    lower = p_of_worse_site(1 - value, 1e-12, errors, [1e-12] * 4, higher=False)
    assert lower == pytest.approx(p)


@pytest.mark.parametrize("looks", [1, 12])
def test_p_of_a_worse_site_is_that_of_the_worst_look_under_the_posterior(looks):
    y, v, new, noise = (
        np.array([0.3, -0.2, 0.5, 0.1]),
        np.array([0.04, 0.01, 0.09, 0.02]),
        -0.7,
        0.05,
    )
    mean, tau = np.linspace(-4, 4, 161)[:, None], np.geomspace(1e-3, 20, 200)
    log = np.log(tau**2 / (tau**2 + v.mean())) + 0 * mean
    for value, variance in zip(y, v, strict=True):
        log = log + norm.logpdf(value, mean, np.sqrt(tau**2 + variance))
    posterior = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
    z, share = np.polynomial.hermite_e.hermegauss(60)
    site = mean[..., None] + tau[:, None] * z
    worst = 1 - norm.sf((new - site) / np.sqrt(noise)) ** looks
    expected = (posterior * (worst @ share)).sum() / share.sum()
    found = p_of_worse_site(new, noise, y, v, bounds=(None, None), looks=looks)
    assert found == pytest.approx(expected, rel=0.02)


def test_p_of_a_worse_error_is_that_of_its_logarithm():
    errors, within = np.array([3.0, 4.5, 2.8]), np.array([0.1, 0.2, 0.1])
    p = p_of_worse_site(7, 0.3, errors, within, higher=False, bounds=(0, None), looks=3)
    logs = -np.log(errors), within / errors**2
    unbounded = {"bounds": (None, None), "looks": 3}
    assert p == pytest.approx(p_of_worse_site(-np.log(7), 0.3 / 49, *logs, **unbounded))
    shares = 1 - errors, within
    r2 = p_of_worse_site(1 - 7, 0.3, *shares, bounds=(None, 1), looks=3)
    assert r2 == pytest.approx(p)


@pytest.mark.parametrize("spread", [0.0, 0.3, 3.0])
def test_sites_of_the_population_are_worse_no_more_often_than_the_level(spread):
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(600):
        *known, new = spread * rng.normal(size=5) + 0.2 * rng.normal(size=5)
        alarms += p_of_worse_site(new, 0.04, known, [0.04] * 4, bounds=(None, None)) <= 0.05
    assert alarms / 600 <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 600)


def test_weighted_mmd_is_that_of_a_plain_loop_and_permutes_weights_with_places():
    rng = np.random.default_rng(0)
    x, y, w = rng.normal(size=4), rng.normal(size=5) + 1, np.array([0.3, 0.3, 0.2, 0.1, 0.1])
    both = np.concatenate([x, y])
    gram = np.exp(-((both[:, None] - both) ** 2))
    pairs = [(i, j) for i in range(5) for j in range(5) if i != j]
    xx = np.mean([gram[i, j] for i in range(4) for j in range(4) if i != j])
    yy = sum(w[i] * w[j] * gram[4 + i, 4 + j] for i, j in pairs) / sum(
        w[i] * w[j] for i, j in pairs
    )
    found = two_sample_test(gram, 4, 199, rng, w)
    assert found.value == pytest.approx(xx + yy - 2 * (gram[:4, 4:] @ w).mean())
    equal = [
        two_sample_test(gram, 4, 99, np.random.default_rng(1), u) for u in (None, np.full(5, 0.2))
    ]
    assert equal[0] == pytest.approx(equal[1])
