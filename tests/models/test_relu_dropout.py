"""Compare the fused layer with ReLU and dropout one after the other."""

import pytest
import torch
from torch import nn

from riskmatch.models.mlp import ReLUDropout


def test_values_are_zero_or_scaled_relu():
    torch.manual_seed(0)
    x = torch.randn(200, 301)
    out = ReLUDropout(0.2)(x.clone())
    expected = torch.relu(x) / 0.8
    kept = out != 0
    assert torch.allclose(out[kept], expected[kept], rtol=1e-4)
    share = 1 - kept.sum() / (x > 0).sum()
    assert share.item() == pytest.approx(0.2, abs=0.01)
    assert out.mean().item() == pytest.approx(torch.relu(x).mean().item(), rel=0.02)


def test_dropped_units_are_independent():
    torch.manual_seed(0)
    kept = (ReLUDropout(0.5)(torch.ones(4096, 64)) != 0).float()
    by_column = kept.mean(0)  # 64 shares of 4,096 fair coins, standard deviation 1/128
    assert (by_column - 0.5).abs().max() < 5 / 128
    neighbours = ((kept[:, 1:] == kept[:, :-1]).float().mean() - 0.5).abs()
    assert neighbours < 5 / (2 * (4096 * 63) ** 0.5)


def test_gradient_is_the_scale_of_kept_units():
    torch.manual_seed(0)
    x = torch.randn(50, 7, dtype=torch.float64, requires_grad=True)
    out = ReLUDropout(0.25)(x * 1)
    out.sum().backward()
    assert torch.allclose(x.grad, (out != 0).double() / (1 - 0.25))


def test_second_derivatives_exist():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), ReLUDropout(0.5), nn.Linear(8, 1)).double()
    x = torch.randn(6, 3, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(net(x).square().sum(), net[0].weight, create_graph=True)
    gradient.square().sum().backward()
    assert net[2].weight.grad.abs().sum() > 0


def test_evaluation_is_plain_relu_without_random_draws():
    layer, x = ReLUDropout(0.5).eval(), torch.randn(9)
    before = torch.get_rng_state()
    assert torch.equal(layer(x), torch.relu(x))
    assert torch.equal(torch.get_rng_state(), before)


def test_masks_come_from_the_global_stream():
    def masks(seed):
        torch.manual_seed(seed)
        return ReLUDropout(0.5)(torch.ones(1000)) != 0

    assert torch.equal(masks(1), masks(1))
    assert not torch.equal(masks(1), masks(2))


@pytest.mark.parametrize("p", [-0.1, 1.0])
def test_share_out_of_range_raises(p):
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        ReLUDropout(p)
