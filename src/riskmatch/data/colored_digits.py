"""ColoredDigits: small digits whose colour is correlated with the label."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from riskmatch.data.colored_mnist import colored_like_mnist
from riskmatch.data.domain import Domain, DomainSet
from riskmatch.data.mnist import Mnist
from riskmatch.data.sampler import stream

AGREEMENT: tuple[str, ...] = ("0.9", "0.8", "0.1")
"""Probabilities that the colour agrees with the label, the names of the domains."""
LABEL_NOISE = 0.25
TRAINING = 1500
"""Digits that are not for the test where the domains are built as those of ColoredMNIST."""


def colored_digits(
    *, samples: int = 5000, seed: int = 0, p: Sequence[float] = (), test_p: Sequence[float] = ()
) -> DomainSet:
    """ColoredDigits: ColoredMNIST's construction on the digits that come with scikit-learn.

    Input
        (2, 8, 8): a grey digit in one of two channels, rotated by up to 0.1 rad, scaled by up to
        5 % and shifted by up to 2.5 % of its width.
    Label
        Whether the digit is five or more, flipped for a quarter of the samples. The shape predicts
        the label with 75 % accuracy; the colour, on the training domains, with 85 %.
    Domains
        ``0.9`` and ``0.8``, customarily for training, and ``0.1`` for the test: the probability
        that the colour agrees with the label. No digit is in two domains.
    Size
        ``samples`` per domain, drawn with replacement from the domain's 599 digits.
    Licence
        CC BY 4.0 (UCI, Optical Recognition of Handwritten Digits).
    Citation
        Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI 1998; the colours:
        Arjovsky et al., Invariant Risk Minimization, 2019.

    Args:
        samples: samples per domain.
        seed: seed of every random choice.
        p: build the domains as :func:`~riskmatch.data.colored_mnist.colored_mnist` does with its
            preset ``authors-code``, of the first 1,500 digits and 297 for the test; ``samples`` is
            then the number of training digits.
        test_p: p of each test domain, where ``p`` is given.
    """
    if p or test_p:
        return colored_like_mnist(
            "colored-digits", _like_mnist, "authors-code", p, test_p, seed, samples
        )
    if samples < 1:
        raise ValueError(f"samples of colored-digits must be at least 1, got {samples}.")
    images, digits = grey_digits()
    order = torch.randperm(len(images), generator=stream("colored-digits", seed))
    domains = []
    for k, name in enumerate(AGREEMENT):
        rows = order[k :: len(AGREEMENT)]
        generator = stream("colored-digits", seed, name)
        domains.append(colored(name, images[rows], digits[rows], samples, generator))
    return DomainSet("colored-digits", tuple(domains), classes=2)


def _like_mnist() -> Mnist:
    """The digits, twice as large since ColoredMNIST takes every second row and column."""
    images, digits = grey_digits()
    large = (images * 255).repeat_interleave(2, 1).repeat_interleave(2, 2)
    return Mnist(large[:TRAINING], digits[:TRAINING], large[TRAINING:], digits[TRAINING:])


def grey_digits() -> tuple[Tensor, Tensor]:
    """(1797, 8, 8) images in [0, 1] and (1797,) digits."""
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    digits = load_digits()
    return torch.tensor(digits.images / 16, dtype=torch.float32), torch.tensor(digits.target)


def colored(
    name: str,
    images: Tensor,
    digits: Tensor,
    samples: int,
    generator: torch.Generator,
    noise: float = LABEL_NOISE,
) -> Domain:
    """A domain of samples from (n, 8, 8) images and (n,) digits.

    Its name is the probability that the colour agrees with the label; ``noise`` is the share of
    flipped labels.
    """
    pick = torch.randint(len(images), (samples,), generator=generator)
    label = (digits[pick] >= 5) ^ (torch.rand(samples, generator=generator) < noise)
    color = label ^ (torch.rand(samples, generator=generator) >= float(name))
    channels = F.one_hot(color.long(), 2)[:, :, None, None]  # (samples, 2, 1, 1)
    return Domain(name, channels * _jittered(images[pick][:, None], generator), label.long())


def _jittered(images: Tensor, generator: torch.Generator) -> Tensor:
    """Images (n, 1, h, w), each under a random small affine map."""
    limits = torch.tensor([[0.1], [0.05], [0.05], [0.05]])
    angle, scale, dx, dy = limits * (torch.rand(4, len(images), generator=generator) * 2 - 1)
    cos, sin = (1 + scale) * angle.cos(), (1 + scale) * angle.sin()
    maps = torch.stack([cos, -sin, dx, sin, cos, dy], dim=1).view(-1, 2, 3)
    grid = F.affine_grid(maps, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)
