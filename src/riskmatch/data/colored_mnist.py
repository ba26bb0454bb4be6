"""ColoredMNIST: digits whose colour is correlated with the label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from riskmatch.data.domain import Domain, DomainSet
from riskmatch.data.mnist import Mnist, load_mnist
from riskmatch.data.sampler import stream
from riskmatch.validation import check_option

LABEL_NOISE = 0.25
HELD_OUT = 6
"""One in six digits of MNIST's training set is held out for selection."""
PRESETS = ("paper", "authors-code")


def colored_mnist(
    data_dir: Path | None = None,
    *,
    preset: Literal["paper", "authors-code"] = "paper",
    p: Sequence[float] = (0.1, 0.2),
    test_p: Sequence[float] = (0.9,),
    seed: int = 0,
    samples: int = 60_000,
) -> DomainSet:
    """ColoredMNIST: red and green digits, where the colour is a spurious feature.

    Input
        (2, 14, 14), in [0, 1]: every second row and column of a digit, in one of two channels.
    Label
        Whether the digit is five or more, flipped for a quarter of the samples. The shape predicts
        it with 75 % accuracy; the colour, on the training domains, with 85 %.
    Domains
        ``0.1`` and ``0.2`` for training, ``0.9`` for the test only. The name is the probability p
        that the colour *disagrees* with the (noisy) label, Arjovsky et al.'s e. Where domains are
        named by the probability of agreement, 0.9 and 0.8 are ``0.1`` and ``0.2`` here, and 0.1 is
        ``0.9``. A test domain with the p of a training domain is named ``test 0.1``.
    Size
        MNIST's 60,000 training digits are shuffled; 50,000 are divided between the training
        domains, 25,000 each, and 10,000 are held out for selection. For validation, ``paper``
        divides these too, 5,000 to each training domain; ``authors-code`` uses all 10,000 in the
        colours of each. A test domain is MNIST's 10,000 test digits, and all 10,000 held-out ones
        for test-domain validation: in a record these are its splits ``train``, which is never
        trained on, and ``val``.
    Licence
        CC BY-SA 3.0 (MNIST).
    Citation
        LeCun, Cortes and Burges, The MNIST database of handwritten digits, 1998; the colours:
        Arjovsky et al., Invariant Risk Minimization, 2019.

    A digit has one noisy label and one random number for its colour in every domain: two domains
    with the same digits differ only where p makes the colours differ.

    Args:
        data_dir: folder to search for MNIST first.
        preset: protocol of the validation samples.
        p: p of each training domain; 0.5 for all gives the oracle's data, with random colours.
        test_p: p of each test domain.
        seed: seed of the shuffle, the label noise and the colours.
        samples: number of training digits; below 60,000, a sixth as many test digits are used.
    """
    check_option("preset of colored-mnist", preset, PRESETS)
    return colored_like_mnist(
        "colored-mnist", lambda: load_mnist(data_dir), preset, p, test_p, seed, samples
    )


def colored_like_mnist(
    name: str,
    load: Callable[[], Mnist],
    preset: str,
    p: Sequence[float],
    test_p: Sequence[float],
    seed: int,
    samples: int,
) -> DomainSet:
    """The construction of :func:`colored_mnist`, which has the same arguments, on any digits."""
    for option, values in {"p": p, "test_p": test_p}.items():
        _check_probabilities(option, values)
    if samples < HELD_OUT * len(p):
        raise ValueError(f"samples must be {HELD_OUT * len(p)} or more, got {samples!r}.")
    mnist = load()
    shuffled = torch.randperm(
        len(mnist.train_images), generator=stream("colored-mnist", seed, "shuffle")
    )[:samples]
    available = _noisy(mnist, "training", seed)
    cut = len(shuffled) // HELD_OUT
    training, held_out = available.take(shuffled[cut:]), available.take(shuffled[:cut])
    test = _noisy(mnist, "test", seed).take(slice(max(1, samples // HELD_OUT)))
    names = domain_names(p, test_p)
    domains = []
    for k, flip in enumerate(p):
        share = slice(k, None, len(p))
        validation = held_out.take(share) if preset == "paper" else held_out
        domains.append(training.take(share).domain(names[k], flip, validation))
    for domain, flip in zip(names[len(p) :], test_p, strict=True):
        domains.append(test.domain(domain, flip, held_out))
    return DomainSet(name, tuple(domains), classes=2, test_only=names[len(p) :])


@dataclass(frozen=True, eq=False)
class _Digits:
    """Digits without colours."""

    images: Tensor
    """(n, 14, 14) in [0, 1]."""
    labels: Tensor
    """(n,) noisy labels, 0 or 1."""
    draws: Tensor
    """(n,) uniform in [0, 1); the colour disagrees with the label where p exceeds it."""

    def take(self, rows: Tensor | slice) -> _Digits:
        return _Digits(self.images[rows], self.labels[rows], self.draws[rows])

    def domain(self, name: str, p: float, validation: _Digits | None = None) -> Domain:
        channel = F.one_hot(self.labels ^ (self.draws < p), 2)[:, :, None, None]  # (n, 2, 1, 1)
        held_out = None if validation is None else validation.domain(name, p)
        return Domain(name, channel * self.images[:, None], self.labels, held_out)


def _noisy(mnist: Mnist, part: Literal["training", "test"], seed: int) -> _Digits:
    """The digits of a part of MNIST with noisy labels."""
    images, digits = mnist.train_images, mnist.train_digits
    if part == "test":
        images, digits = mnist.test_images, mnist.test_digits

    def draw(purpose: str) -> Tensor:
        return torch.rand(len(digits), generator=stream("colored-mnist", seed, part, purpose))

    labels = (digits >= 5) ^ (draw("labels") < LABEL_NOISE)
    return _Digits(images[:, ::2, ::2].float() / 255, labels.long(), draw("colors"))


def domain_names(p: Sequence[float], test_p: Sequence[float]) -> tuple[str, ...]:
    """Names of the training domains, then of the test domains.

    Example:
        >>> domain_names((0.5, 0.5), (0.5, 0.9))
        ('0.5', '0.5-2', 'test 0.5', '0.9')
    """
    plain = [f"{value:g}" for value in p]
    plain += [f"{'test ' if value in p else ''}{value:g}" for value in test_p]
    before = [plain[:k].count(name) for k, name in enumerate(plain)]
    return tuple(f"{name}-{n + 1}" if n else name for name, n in zip(plain, before, strict=True))


def _check_probabilities(option: str, values: Sequence[float]) -> None:
    if not values or not all(0 <= value <= 1 for value in values):
        raise ValueError(
            f"{option} must list a probability from 0 to 1 per domain, got {values!r}."
        )
