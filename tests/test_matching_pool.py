"""The pool: the mean of the domains' distributions, or all samples together."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch.autograd import gradcheck

from riskmatch import RBFMixture, RiskMatching, risk_matching_penalty
from riskmatch.divergence import MMD, Divergence, Energy, Moments, Wasserstein

BANDWIDTHS = (0.05, 0.5)
KERNEL = RBFMixture(BANDWIDTHS)


def kernel(x, y):
    square = (x[:, None] - y) ** 2
    return sum(np.exp(-square / (2 * sigma)) for sigma in BANDWIDTHS) / len(BANDWIDTHS)


def mmd(x, y, v, w):
    return v @ kernel(x, x) @ v + w @ kernel(y, y) @ w - 2 * v @ kernel(x, y) @ w


def unbiased_mmd(x, y, v, w):
    def within(x, v):
        pairs = np.outer(v, v) * kernel(x, x)
        return (pairs.sum() - np.trace(pairs)) / (1 - v @ v)

    return within(x, v) + within(y, w) - 2 * v @ kernel(x, y) @ w


def moments(x, y, v, w):
    def variance(x, v):
        return v @ (x - v @ x) ** 2 / (1 - v @ v)

    return (v @ x - w @ y) ** 2 + (variance(x, v) - variance(y, w)) ** 2


def energy(x, y, v, w):
    return stats.energy_distance(x, y, v, w) ** 2


def wasserstein_1(x, y, v, w):
    return stats.wasserstein_distance(x, y, v, w)


def wasserstein_2(x, y, v, w):
    """The quantile functions on a grid that both are constant on."""
    levels = np.unique(np.concatenate([v[np.argsort(x)].cumsum(), w[np.argsort(y)].cumsum()]))
    middles = levels - np.diff(levels, prepend=0) / 2
    quantiles = [
        np.sort(z)[np.searchsorted(u[np.argsort(z)].cumsum(), middles).clip(max=len(z) - 1)]
        for z, u in ((x, v), (y, w))
    ]
    return np.diff(levels, prepend=0) @ (quantiles[0] - quantiles[1]) ** 2


BY_HAND = {
    "mmd": (MMD(KERNEL, method="dense"), mmd),
    "mmd, grid": (MMD(KERNEL, method="grid"), mmd),
    "mmd, unbiased": (MMD(KERNEL, unbiased=True), unbiased_mmd),
    "moments": (Moments(), moments),
    "energy": (Energy(), energy),
    "wasserstein-1": (Wasserstein(1), wasserstein_1),
    "wasserstein-2": (Wasserstein(2), wasserstein_2),
}


def ragged(*sizes, seed=0):
    """Shuffled risks and labels; the first domain is the worst."""
    rng = np.random.default_rng(seed)
    domains = np.repeat(np.arange(len(sizes)), sizes)
    risks = rng.gamma(1.0, 1.0, len(domains)) + 2.0 * (domains == 0)
    order = rng.permutation(len(domains))
    return risks[order], domains[order]


def pool_weights(domains, pool):
    sizes = np.bincount(domains)
    if pool == "samples":
        return np.full(len(domains), 1 / len(domains))
    return (1 / (len(sizes) * sizes))[domains]


@pytest.mark.parametrize("pool", ["domains", "samples"])
@pytest.mark.parametrize("match", ["worst", "variance"])
@pytest.mark.parametrize("sizes", [(2, 3, 5), (20, 80, 300)])
@pytest.mark.parametrize("name", BY_HAND)
def test_penalty_equals_the_weighted_divergence_by_hand(name, sizes, match, pool):
    divergence, by_hand = BY_HAND[name]
    risks, domains = ragged(*sizes)
    weights = pool_weights(domains, pool)
    matched = [0] if match == "worst" else range(len(sizes))
    parts = []
    for domain in matched:
        x = risks[domains == domain]
        parts.append(by_hand(x, risks, np.full(len(x), 1 / len(x)), weights))
    got = risk_matching_penalty(
        torch.tensor(risks), domains, match=match, divergence=divergence, pool=pool
    )
    assert got.item() == pytest.approx(np.mean(parts), rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("name", BY_HAND)
def test_weighted_divergence_has_the_gradient_of_its_value(name):
    divergence, _ = BY_HAND[name]
    risks, domains = ragged(3, 4, 6)

    def penalty(risks):
        return risk_matching_penalty(risks, domains, match="variance", divergence=divergence)

    assert gradcheck(penalty, (torch.tensor(risks).requires_grad_(),), eps=1e-6, atol=1e-5)


@pytest.mark.parametrize("match", ["worst", "variance"])
@pytest.mark.parametrize("divergence", ["mmd", "moments", "energy", "wasserstein-1"])
def test_equal_domains_give_the_same_with_either_pool(divergence, match):
    risks, domains = ragged(30, 30, 30)
    out = [
        RiskMatching(2.0, match, divergence, variance_weight=0.5, pool=pool)(
            torch.tensor(risks), domains
        )
        for pool in ("domains", "samples")
    ]
    assert out[0].penalty.item() == pytest.approx(out[1].penalty.item(), rel=1e-10)
    assert out[0].variance.item() == pytest.approx(out[1].variance.item(), rel=1e-10)


@pytest.mark.parametrize("size", [70, 88, 100])
def test_mmd_of_three_equal_domains_has_the_same_bits_with_either_pool(size):
    risks, domains = ragged(size, size, size)
    grads = []
    for pool in ("domains", "samples"):
        values = torch.tensor(risks, dtype=torch.float32, requires_grad=True)
        RiskMatching(5.0, variance_weight=0.004, pool=pool)(values, domains).loss.backward()
        grads.append(values.grad)
    assert torch.equal(*grads)


@given(st.lists(st.integers(2, 9), min_size=2, max_size=4), st.integers(0, 99))
def test_variance_of_the_pool_is_the_weighted_one(sizes, seed):
    risks, domains = ragged(*sizes, seed=seed)
    w = pool_weights(domains, "domains")
    pooled = w @ (risks - w @ risks) ** 2 / (1 - w @ w)
    out = RiskMatching(0.0, variance_weight=1.0)(torch.tensor(risks), domains)
    worst = int(out.worst)
    expected = pooled + risks[domains == worst].var(ddof=1)
    assert out.variance.item() == pytest.approx(expected, rel=1e-9)


@given(
    st.lists(st.integers(2, 12), min_size=2, max_size=4),
    st.integers(0, 99),
    st.sampled_from(["mmd", "energy", "wasserstein-1", "wasserstein-2"]),
)
def test_repeating_the_samples_of_a_domain_changes_nothing(sizes, seed, divergence):
    risks, domains = ragged(*sizes, seed=seed)
    again = np.concatenate([np.arange(len(risks)), np.flatnonzero(domains == domains[0])])
    before, after = (
        risk_matching_penalty(torch.tensor(r), d, match="variance", divergence=divergence)
        for r, d in ((risks, domains), (risks[again], domains[again]))
    )
    assert after.item() == pytest.approx(before.item(), rel=1e-6, abs=1e-9)


@given(
    st.lists(st.integers(2, 12), min_size=2, max_size=4),
    st.integers(0, 99),
    st.sampled_from(["mmd", "moments", "energy", "wasserstein-1", "wasserstein-2"]),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_pool_depends_neither_on_order_nor_on_dtype(sizes, seed, divergence, dtype):
    risks, domains = ragged(*sizes, seed=seed)
    criterion = RiskMatching(1.0, "variance", divergence, variance_weight=1.0)
    exact = criterion(torch.tensor(risks), domains)
    order = np.random.default_rng(seed).permutation(len(risks))
    out = criterion(torch.tensor(risks[order], dtype=dtype), domains[order])
    tolerance = 1e-9 if dtype == torch.float64 else 1e-4
    assert out.penalty.dtype == out.variance.dtype == dtype
    assert out.penalty.item() == pytest.approx(exact.penalty.item(), rel=tolerance, abs=tolerance)
    assert out.variance.item() == pytest.approx(exact.variance.item(), rel=tolerance)


class Unweighted(Divergence):
    def between(self, x, y):
        return (x.mean() - y.mean()).square()


def test_divergence_without_weights_needs_equal_domains_or_the_pool_of_samples():
    equal, ragged_sizes = ragged(4, 4), ragged(4, 7)
    for risks, domains in (equal, ragged_sizes):
        risk_matching_penalty(torch.tensor(risks), domains, divergence=Unweighted(), pool="samples")
    risk_matching_penalty(torch.tensor(equal[0]), equal[1], divergence=Unweighted())
    with pytest.raises(
        ValueError, match=r"Unweighted.*weights.*\[4, 7\].*pool='samples', which RiskM"
    ):
        risk_matching_penalty(
            torch.tensor(ragged_sizes[0]), ragged_sizes[1], divergence=Unweighted()
        )


def test_unknown_pool_is_refused():
    with pytest.raises(ValueError, match=r"pool 'sample'.*'samples'"):
        RiskMatching(pool="sample")
