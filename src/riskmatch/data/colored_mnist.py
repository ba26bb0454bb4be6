"""ColoredMNIST: digits whose colour betrays the label, until it does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from riskmatch.data.domain import Domain, DomainSet
from riskmatch.data.mnist import Mnist, load_mnist
from riskmatch.data.streams import stream
from riskmatch.validation import check_option

LABEL_NOISE = 0.25
HELD_OUT = 6
"""One in so many digits of MNIST's training set is held out for selection."""
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
    """ColoredMNIST: red and green digits, of which the colour misleads.

    Input
        (2, 14, 14), in [0, 1]: every second row and column of a digit, in one of two channels.
    Label
        Whether the digit is five or more, flipped for a quarter of the samples. The shape predicts
        it at 75 %; the colour, where training looks, at 85 %.
    Domains
        ``0.1`` and ``0.2`` for training, ``0.9`` for the test alone. The name is the probability p
        that the colour *disagrees* with the (noisy) label, Arjovsky et al.'s e. Where a text names
        domains by how often the two agree, its 0.9 and 0.8 are these 0.1 and 0.2, and its 0.1 is
        this 0.9. A test domain with the p of a training domain is called so: ``test 0.1``.
    Size
        MNIST's 60,000 training digits are shuffled; 50,000 are dealt to the training domains, so
        each has 25,000, and 10,000 are held out for selection. For validation, ``paper`` deals
        these too, 5,000 to each training domain; ``authors-code`` shows all 10,000 in the colours
        of each. A test domain is MNIST's 10,000 test digits, and all 10,000 held-out ones for
        test-domain validation: in a record these are its splits ``train``, on which nobody trains,
        and ``val``.
    Licence
        CC BY-SA 3.0 (MNIST).
    Citation
        LeCun, Cortes and Burges, The MNIST database of handwritten digits, 1998; the colours:
        Arjovsky et al., Invariant Risk Minimization, 2019.

    A digit has one noisy label and one draw for its colour, whatever the domain that shows it: two
    domains with the same digits differ only where p makes the colours differ.

    Args:
        data_dir: folder to search for MNIST first.
        preset: which of the two protocols.
        p: of each training domain; both 0.5 give the oracle's data, colours that tell nothing.
        test_p: of each test domain.
        seed: of the shuffle, the label noise and the colours.
        samples: of the training digits; with fewer than 60,000, a sixth as many test digits.
    """
    check_option("preset of colored-mnist", preset, PRESETS)
    for option, values in {"p": p, "test_p": test_p}.items():
        _check_probabilities(option, values)
    if not isinstance(samples, int) or samples < HELD_OUT * len(p):
        raise ValueError(f"samples is a number of digits, {HELD_OUT * len(p)} or more: {samples!r}")
    mnist = load_mnist(data_dir)
    shuffled = torch.randperm(
        len(mnist.train_images), generator=stream("colored-mnist", seed, "shuffle")
    )[:samples]
    everything = _training_digits(mnist, seed)
    cut = len(shuffled) // HELD_OUT
    training, held_out = everything.take(shuffled[cut:]), everything.take(shuffled[:cut])
    test = _test_digits(mnist, seed).take(slice(max(1, samples // HELD_OUT)))
    names = domain_names(p, test_p)
    domains = []
    for k, flip in enumerate(p):
        own = held_out.deal(k, len(p)) if preset == "paper" else held_out
        domains.append(training.deal(k, len(p)).domain(names[k], flip, own))
    for name, flip in zip(names[len(p) :], test_p, strict=True):
        domains.append(test.domain(name, flip, held_out))
    return DomainSet("colored-mnist", tuple(domains), classes=2, test_only=names[len(p) :])


def colored_test_digits(p: float, data_dir: Path | None = None, *, seed: int = 0) -> Domain:
    """MNIST's 10,000 test digits where the colour disagrees with the label with probability ``p``.

    At the p of a test domain of :func:`colored_mnist` with the same seed, these are its samples.
    """
    _check_probabilities("p", [p])
    return _test_digits(load_mnist(data_dir), seed).domain(f"{p:g}", p)


@dataclass(frozen=True, eq=False)
class _Digits:
    """Digits before they are coloured."""

    images: Tensor
    """(n, 14, 14) in [0, 1]."""
    labels: Tensor
    """(n,) with the noise, 0 or 1."""
    draws: Tensor
    """(n,) uniform in [0, 1): the colour disagrees with the label where p exceeds the draw."""

    def take(self, rows: Tensor | slice) -> _Digits:
        return _Digits(self.images[rows], self.labels[rows], self.draws[rows])

    def deal(self, hand: int, hands: int) -> _Digits:
        return self.take(slice(hand, None, hands))

    def domain(self, name: str, p: float, held_out: _Digits | None = None) -> Domain:
        channel = F.one_hot(self.labels ^ (self.draws < p), 2)[:, :, None, None]  # (n, 2, 1, 1)
        validation = None if held_out is None else held_out.domain(name, p)
        return Domain(name, channel * self.images[:, None], self.labels, validation)


def _training_digits(mnist: Mnist, seed: int) -> _Digits:
    return _noisy(mnist.train_images, mnist.train_digits, seed, "training")


def _test_digits(mnist: Mnist, seed: int) -> _Digits:
    return _noisy(mnist.test_images, mnist.test_digits, seed, "test")


def _noisy(images: Tensor, digits: Tensor, seed: int, part: str) -> _Digits:
    def draw(what: str) -> Tensor:
        return torch.rand(len(digits), generator=stream("colored-mnist", seed, part, what))

    labels = (digits >= 5) ^ (draw("labels") < LABEL_NOISE)
    return _Digits(images[:, ::2, ::2].float() / 255, labels.long(), draw("colors"))


def domain_names(p: Sequence[float], test_p: Sequence[float]) -> tuple[str, ...]:
    """The names of the training and test domains, in this order.

    Example:
        >>> domain_names((0.5, 0.5), (0.5, 0.9))
        ('0.5', '0.5-2', 'test 0.5', '0.9')
    """
    plain = [f"{value:g}" for value in p]
    plain += [f"{'test ' if value in p else ''}{value:g}" for value in test_p]
    before = [plain[:k].count(name) for k, name in enumerate(plain)]
    return tuple(f"{name}-{n + 1}" if n else name for name, n in zip(plain, before, strict=True))


def _check_probabilities(option: str, values: Sequence[float]) -> None:
    if not isinstance(values, Sequence) or not values:
        raise ValueError(f"{option} lists one probability per domain, as in [0.1, 0.2]: {values!r}")
    for value in values:
        if not isinstance(value, float | int) or not 0 <= value <= 1:
            raise ValueError(f"{option} lists probabilities, from 0 to 1, not {value!r}.")
