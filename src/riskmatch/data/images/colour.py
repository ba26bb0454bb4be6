"""Changes of colour, in place, on batches of images in [0, 1].

Each is what torchvision does to one image, its clamps included; here every image of a batch
(n, 3, h, w) has a factor of its own, (n).
"""

from __future__ import annotations

import torch
from torch import Tensor

GREY = (0.2989, 0.587, 0.114)
"""The shares of red, green and blue in grey (ITU-R BT.601, as torchvision rounds them)."""


def brighten(x: Tensor, factor: Tensor) -> None:
    """Scale the values."""
    x.mul_(_per_image(factor)).clamp_(0, 1)


def contrast(x: Tensor, factor: Tensor) -> None:
    """Scale the distance of the values to the image's mean grey."""
    grey = x.mean((2, 3)) @ x.new_tensor(GREY)
    x.mul_(_per_image(factor)).add_(_per_image((1 - factor) * grey)).clamp_(0, 1)


def saturate(x: Tensor, factor: Tensor) -> None:
    """Scale the distance of the values to the pixel's grey; a factor of 0 leaves the grey."""
    torch.lerp(x, greys(x), _per_image(1 - factor), out=x).clamp_(0, 1)


def greys(x: Tensor) -> Tensor:
    """(n, 1, h, w) how light each pixel is."""
    red, green, blue = x.unbind(1)
    red_share, green_share, blue_share = GREY
    return (
        (red * red_share).add_(green, alpha=green_share).add_(blue, alpha=blue_share).unsqueeze(1)
    )


def turn_hue(x: Tensor, factor: Tensor) -> None:
    """Turn the hue by this share of a whole turn, up to a third; value and saturation stay.

    With low, high the extreme values of a pixel and c = high − low, its hue h ∈ [−3, 3] in sixths
    of a turn from red has the sign of green − blue, and its size is piecewise linear in
    q = (green + blue − 2 red)/c:  |h| = 3/2 + q − clamp(q, −1, 1)/2.  Back from a hue, a channel at
    distance d from its own place on the circle (red 0, green 2, blue −2) is low + c clamp(2 − d, 0,
    1), where 2 − d = |z| − 1 with z = |h − place| − 3: that holds once round the circle and a sixth
    beyond. No branch and no comparison is needed, which on a CPU would cost more than the rest.
    """
    red, green, blue = x.unbind(1)
    low = torch.minimum(red, green)
    torch.minimum(low, blue, out=low)
    c = torch.maximum(red, green)
    torch.maximum(c, blue, out=c).sub_(low).clamp_min_(1e-8)
    q = (green + blue).sub_(red, alpha=2).div_(c)
    hue = q.sub_(q.clamp(-1, 1), alpha=0.5).add_(1.5)
    torch.copysign(hue, green - blue, out=hue)
    # In place from here: a pass that writes elsewhere takes twice as long.
    places = x.new_tensor([0.0, 2.0, -2.0]).view(1, 3, 1, 1) - 6 * _per_image(factor)
    bump = torch.sub(hue.unsqueeze(1), places, out=x).abs_().sub_(3).abs_().clamp_(1, 2)
    bump.mul_(c.unsqueeze(1)).add_(low.sub_(c).unsqueeze(1))


def _per_image(values: Tensor) -> Tensor:
    return values.view(-1, 1, 1, 1)


CHANGES = (brighten, contrast, saturate, turn_hue)
"""The changes by their numbers in :class:`~riskmatch.data.images.choices.Choices`."""
