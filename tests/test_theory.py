"""The paper's claims on L (match variance) and L̂ (match worst), and a counterexample."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from riskmatch import RBFMixture, mmd2, risk_matching_penalty
from riskmatch.divergence import MMD

KERNEL = RBFMixture.paper()

domain = st.lists(st.floats(0, 4, width=32), min_size=1, max_size=8)


def both_matches(parts, kernel=KERNEL):
    risks = torch.cat(parts)
    labels = torch.cat([torch.full((len(part),), label) for label, part in enumerate(parts)])
    return [
        risk_matching_penalty(risks, labels, match=match, divergence=MMD(kernel))
        for match in ("variance", "worst")
    ]


@given(st.lists(domain, min_size=2, max_size=4))
def test_variance_match_is_at_most_worst_match_if_the_worst_domain_is_farthest(numbers):
    parts = [torch.tensor(part, dtype=torch.float64) for part in numbers]
    pool = torch.cat(parts)
    weights = torch.cat([torch.full_like(part, 1 / (len(parts) * len(part))) for part in parts])
    distances = torch.stack([MMD(KERNEL).between(part, pool, weights) for part in parts])
    worst = torch.stack([part.mean() for part in parts]).argmax()
    assume(distances.argmax() == worst)
    variance_match, worst_match = both_matches(parts)
    assert variance_match <= worst_match + 1e-12


def test_variance_match_can_exceed_worst_match_if_the_worst_domain_is_near():
    # The first domain has the largest mean, but half of its risks are where most of the pool is.
    # A narrow kernel only compares equal risks, so the embeddings are the shares at 0, 0.9 and 2:
    # (3, 2, 1)/6 for the pool, (3, 0, 3)/6, (6, 0, 0)/6 and (0, 6, 0)/6 for the domains.
    parts = [torch.tensor(part, dtype=torch.float64) for part in ([0, 2], [0, 0], [0.9, 0.9])]
    variance_match, worst_match = both_matches(parts, RBFMixture(1e-4))
    assert float(worst_match) == pytest.approx((0 + 4 + 4) / 36)
    assert float(variance_match) == pytest.approx((8 + (9 + 4 + 1) + (9 + 16 + 1)) / 36 / 3)
    assert variance_match > worst_match


@pytest.mark.parametrize("method", ["dense", "grid"])
@pytest.mark.parametrize("sizes", [(30, 30, 30, 30), (10, 25, 40, 60)])
def test_variance_match_is_the_variance_of_the_embeddings(method, sizes):
    generator = torch.Generator().manual_seed(0)
    parts = [torch.rand(size, generator=generator, dtype=torch.float64) for size in sizes]
    inner = torch.stack([KERNEL(a[:, None] - b).mean() for a in parts for b in parts]).view(4, 4)
    variance = inner.diagonal().mean() - inner.mean()  # E‖μ‖² − ‖Eμ‖²
    labels = torch.arange(4).repeat_interleave(torch.tensor(sizes))
    got = risk_matching_penalty(
        torch.cat(parts), labels, match="variance", divergence=MMD(KERNEL, method=method)
    )
    assert torch.allclose(got, variance, rtol=1e-8)


@pytest.mark.parametrize("sizes", [(25, 25), (10, 40)])
def test_both_matches_are_equal_for_two_domains(sizes):
    generator = torch.Generator().manual_seed(0)
    parts = [
        torch.rand(size, generator=generator, dtype=torch.float64) + shift
        for shift, size in enumerate(sizes)
    ]
    variance_match, worst_match = both_matches(parts)
    assert torch.allclose(variance_match, worst_match, rtol=1e-8)
    assert torch.allclose(worst_match, mmd2(*parts, kernel=KERNEL) / 4, rtol=1e-8)


def test_gradient_moves_the_worst_domain_towards_the_pool():
    risks = torch.tensor([0.1, 0.3, 1.0, 1.2], dtype=torch.float64, requires_grad=True)
    wide = MMD(RBFMixture(10.0))  # a narrow kernel would also spread the risks within a domain
    risk_matching_penalty(risks, torch.tensor([0, 0, 1, 1]), divergence=wide).backward()
    assert (risks.grad[2:] > 0).all()  # gradient descent lowers the worst domain's risks
    assert (risks.grad[:2] < 0).all()
