"""MixStyle changes the mean and deviation of channels, and nothing else."""

import copy

import torch
from riskmatch_shapes.mixstyle import MixStyle, MixStyleCNN

IMAGES = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(0)).double()
IMAGES = IMAGES * torch.arange(1, 7).view(6, 1, 1, 1) + torch.arange(6).view(6, 1, 1, 1)


def style(x):
    return torch.stack([x.mean((2, 3)), x.std((2, 3))])


def content(x):
    mean, deviation = (part[:, :, None, None] for part in style(x))
    return (x - mean) / deviation


def test_content_stays_and_styles_lie_between_those_of_two_images():
    torch.manual_seed(0)
    mixed = MixStyle(share=1.0, alpha=1.0)(IMAGES)
    torch.testing.assert_close(content(mixed), content(IMAGES), rtol=1e-4, atol=1e-5)
    ours, before = style(mixed), style(IMAGES)
    partners = []
    for i in range(6):
        for j in range(6):
            # One weight for the mean and the deviation of all channels.
            step = before[:, j] - before[:, i]
            weight = ((ours[:, i] - before[:, i]) * step).sum() / (step.square().sum() + 1e-9)
            found = before[:, i] + weight * step
            if torch.allclose(found, ours[:, i], atol=1e-3) and -1e-3 <= weight <= 1 + 1e-3:
                partners.append(j)
                break
    assert len(partners) == 6
    assert not torch.allclose(ours, before, atol=1e-2)


def test_styles_are_constants_for_the_gradient():
    torch.manual_seed(1)
    x = IMAGES.clone().requires_grad_()
    weights = torch.randn(IMAGES.shape, dtype=torch.float64)
    mixed = MixStyle(share=1.0, alpha=1.0)(x)
    (gradient,) = torch.autograd.grad((weights * mixed).sum(), x)
    scale = (style(mixed.detach())[1] / style(IMAGES)[1])[:, :, None, None]
    torch.testing.assert_close(gradient, weights * scale, rtol=1e-4, atol=1e-5)


def test_it_acts_in_training_on_a_share_of_the_batches():
    layer = MixStyle(share=0.5)
    torch.manual_seed(2)
    changed = [not torch.equal(layer(IMAGES), IMAGES) for _ in range(400)]
    assert 160 < sum(changed) < 240  # 10 of 400 is a standard deviation
    assert all(torch.equal(layer.eval()(IMAGES), IMAGES) for _ in range(20))


def test_the_network_repeats_from_the_same_random_state():
    model = MixStyleCNN((3, 8, 8), 4, share=1.0).double()
    other = copy.deepcopy(model)
    outputs = []
    for network in (model, other):
        torch.manual_seed(3)
        outputs.append(network(IMAGES)[1])
    assert torch.equal(*outputs)
    assert not torch.equal(model(IMAGES)[1], outputs[0])
