"""Terms of RDM on few risks, whose gradients NumPy computes, against the formula in float64."""

import pytest
import torch

from riskmatch.contract import Eval, Memory
from riskmatch.data import Batch
from riskmatch.objectives import RDM

SIZES = (40, 25, 60)


def view(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    risks = torch.rand(sum(SIZES), generator=generator, dtype=torch.float64).mul(3).to(dtype)
    risks[40:65] += 1  # the worst domain
    risks.requires_grad_()
    batch = Batch(torch.zeros(sum(SIZES), 1), torch.zeros(sum(SIZES), dtype=torch.long), SIZES)
    return risks, Eval(torch.nn.Identity(), batch).with_risks(risks)


def loss_by_pairs(risks, method):
    """The loss of RDM from all pairs of risks; every domain has the same weight in the pool."""
    parts = risks.split(SIZES)
    weights = torch.cat([torch.full_like(part, 1 / (3 * len(part))) for part in parts])
    matched = [1] if method.match == "worst" else [0, 1, 2]
    kernel = method.criterion.divergence.kernel(risks[:, None] - risks[None, :])
    penalty, inner = 0.0, 0.0
    for place in matched:
        own = torch.cat(
            [torch.full_like(part, (k == place) / len(part)) for k, part in enumerate(parts)]
        )
        penalty += (own - weights) @ kernel @ (own - weights) / len(matched)
        inner += parts[place].var() / len(matched)
    outer = (weights * (risks - weights @ risks).square()).sum() / (1 - weights.square().sum())
    total = weights @ risks + method.weight * penalty + method.variance_weight * (outer + inner)
    return total / method.weight if method.rescale else total


@pytest.mark.parametrize("rescale", [False, True])
@pytest.mark.parametrize("match", ["worst", "variance"])
def test_loss_and_gradient_are_those_of_the_formula(match, rescale):
    method = RDM(warmup=0, weight=3.0, variance_weight=0.2, match=match, rescale=rescale)
    risks, ev = view()
    expected = loss_by_pairs(risks, method)
    (gradient,) = torch.autograd.grad(expected, risks)
    terms = method(ev, Memory())
    assert sum(terms.values().values()) == pytest.approx(expected.item(), rel=1e-9)
    torch.testing.assert_close(terms.loss, expected, rtol=1e-9, atol=0)
    (by_autograd,) = torch.autograd.grad(terms.loss, risks, retain_graph=True)
    torch.testing.assert_close(by_autograd, gradient, rtol=1e-7, atol=1e-10)
    terms.backward()
    torch.testing.assert_close(risks.grad, gradient, rtol=1e-7, atol=1e-10)


def test_half_precision_risks_get_a_gradient_in_their_dtype():
    risks, ev = view(torch.bfloat16)
    RDM(warmup=0)(ev, Memory()).backward()
    assert risks.grad.dtype == torch.bfloat16
    assert risks.grad.isfinite().all()


def test_a_second_derivative_of_the_loss_is_refused():
    risks, ev = view()
    (gradient,) = torch.autograd.grad(RDM(warmup=0)(ev, Memory()).loss, risks, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiable once"):
        gradient.sum().backward()
