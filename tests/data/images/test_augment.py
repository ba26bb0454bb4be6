import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torchvision_reference import functional, transforms

from riskmatch.data.images import augment
from riskmatch.data.images.augment import AugmentationDraws, RandomView, WholeView, resized

MANY = 20_000


def images(n, side, seed=0):
    """Smooth colours with some pure, grey, black and white pixels among them."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(256, (n, 3, side, side), dtype=torch.uint8, generator=generator)
    x[:, :, 0] = x[:, :1, 0]  # grey
    x[:, :, 1, ::2] = 0
    x[:, :, 1, 1::2] = 255
    x[:, 0, 2] = 255  # channels may tie below
    x[:, 1, 3] = x[:, 2, 3]
    x[:, 0, 4] = x[:, 1, 4]
    return x


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


REFERENCES = {
    augment.brighten: "adjust_brightness",
    augment.contrast: "adjust_contrast",
    augment.saturate: "adjust_saturation",
    augment.turn_hue: "adjust_hue",
}


@pytest.mark.parametrize("change", REFERENCES, ids=lambda change: change.__name__)
def test_colour_changes_match_torchvision(change):
    x = images(9, 16).float() / 255
    neutral = 0.0 if change is augment.turn_hue else 1.0
    factors = neutral + torch.linspace(-0.3, 0.3, len(x))
    reference = getattr(functional(), REFERENCES[change])
    expected = torch.stack([reference(x[i], factors[i].item()) for i in range(len(x))])
    change(x, factors)
    torch.testing.assert_close(x, expected, atol=2e-6, rtol=0)


@given(st.tuples(*[st.integers(0, 255)] * 3), st.floats(-1 / 3, 1 / 3))
def test_hue_matches_torchvision_for_any_colour(pixel, factor):
    x = torch.tensor(pixel).float().div(255).view(1, 3, 1, 1)
    expected = functional().adjust_hue(x, factor)
    augment.turn_hue(x, torch.tensor([factor]))
    torch.testing.assert_close(x, expected, atol=2e-6, rtol=0)


def test_grey_matches_torchvision():
    x = images(2, 8).float() / 255
    expected = functional().rgb_to_grayscale(x)
    torch.testing.assert_close(augment.greys(x), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("side", [40, 48])
def test_view_matches_torchvision_on_each_image(side, seed):
    tv, x = functional(), images(6, side)
    ours = RandomView(40)(x, generator(seed))
    draws = AugmentationDraws.draw(len(x), side, generator(seed))
    names = ["adjust_brightness", "adjust_contrast", "adjust_saturation", "adjust_hue"]
    for i, (top, left, height, width) in enumerate(draws.boxes.tolist()):
        view = tv.resized_crop(x[i], top, left, height, width, [40, 40], antialias=True)
        view = (tv.horizontal_flip(view) if draws.flips[i] else view).float() / 255
        for change in draws.order:
            view = getattr(tv, names[change])(view, draws.factors[i, change].item())
        if draws.greys[i]:
            view = tv.rgb_to_grayscale(view, num_output_channels=3)
        torch.testing.assert_close(ours[i], view, atol=5e-6, rtol=0)


def test_resized_crops_match_pillow_to_one_level():
    x = images(1, 60)
    crop = Image.fromarray(x[0].permute(1, 2, 0).numpy()).crop((7, 3, 7 + 50, 3 + 44))
    expected = np.asarray(crop.resize((40, 40), Image.Resampling.BILINEAR)).astype(int)
    ours = resized(x[:, :, 3:47, 7:57], 40)[0].permute(1, 2, 0).numpy()
    assert np.abs(ours - expected).max() <= 1


def test_resized_floats_match_bytes_to_one_level():
    """Torch resizes bytes only on a CPU."""
    x = images(2, 40)
    assert (resized(x.float(), 32) - resized(x, 32)).abs().max() <= 1


def test_crop_distribution_matches_torchvision():
    """Compare means and quantiles of top, left, height, width and area."""
    tries = 4_000
    torch.manual_seed(0)
    crop, image = transforms().RandomResizedCrop(224, scale=(0.7, 1.0)), torch.empty(3, 227, 227)
    params = (crop.make_params([image]) for _ in range(tries))
    theirs = torch.tensor([[p["top"], p["left"], p["height"], p["width"]] for p in params])
    ours = AugmentationDraws.draw(MANY, 227, generator()).boxes
    mine, others = (
        torch.cat([b, (b[:, 2:3] * b[:, 3:]).sqrt()], 1) for b in (ours.double(), theirs.double())
    )
    error = others.std(0) * math.sqrt(1 / tries + 1 / MANY)
    assert ((mine.mean(0) - others.mean(0)).abs() < 4 * error).all()
    levels = torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64)
    assert (mine.quantile(levels, 0) - others.quantile(levels, 0)).abs().max() <= 2


def test_crops_lie_inside_the_image():
    boxes = AugmentationDraws.draw(MANY, 50, generator(1)).boxes
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, :2] + boxes[:, 2:] <= 50).all()
    corners = boxes[boxes[:, 2] < 50][:, 0] + boxes[boxes[:, 2] < 50][:, 2]
    assert corners.max() == 50


def test_draw_distributions_match_domainbed():
    draws = AugmentationDraws.draw(MANY, 50, generator())
    assert draws.flips.double().mean().item() == pytest.approx(0.5, abs=0.02)
    assert draws.greys.double().mean().item() == pytest.approx(0.1, abs=0.01)
    middle, low, high = (getattr(draws.factors, name)(0) for name in ("mean", "amin", "amax"))
    assert torch.allclose(middle, torch.tensor([1.0, 1.0, 1.0, 0.0]), atol=0.01)
    assert torch.allclose(low, middle - 0.3, atol=0.01)
    assert torch.allclose(high, middle + 0.3, atol=0.01)
    assert len({AugmentationDraws.draw(1, 50, generator(seed)).order for seed in range(200)}) == 24


@pytest.mark.parametrize("n", [1, 3, 4, 9])
def test_view_does_not_depend_on_later_images(n):
    x = images(10, 36)
    whole = RandomView(32)(x, generator(5))
    assert torch.equal(RandomView(32)(x[:n], generator(5)), whole[:n])


def test_number_of_threads_changes_no_bit():
    x, threads = images(10, 36), torch.get_num_threads()
    alone = RandomView(32)(x, generator())
    try:
        torch.set_num_threads(3)
        assert torch.equal(RandomView(32)(x, generator()), alone)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)


def test_views_depend_on_the_seed_and_keep_the_images():
    x = images(3, 36)
    before = x.clone()
    assert not torch.equal(RandomView(32)(x, generator(0)), RandomView(32)(x, generator(1)))
    assert torch.equal(x, before)
    assert torch.equal(WholeView(36)(x, generator()), x.float() / 255)


def test_memory_layout_does_not_matter():
    x = images(3, 36)
    rows = x.contiguous(memory_format=torch.channels_last)
    assert torch.equal(RandomView(32)(x, generator()), RandomView(32)(rows, generator()))
