"""What training costs: the paper's efficiency tables, of DomainNet and of the other benchmarks."""

from __future__ import annotations

from typing import NamedTuple


class Cost(NamedTuple):
    """A method on a data set, every method on the same GPU and at equal settings."""

    seconds: int
    """Of training."""
    memory: float
    """GiB, per step."""
    accuracy: float
    """Per cent."""


EFFICIENCY: dict[str, dict[str, Cost]] = {
    "pacs": {
        "fish": Cost(7_566, 7.97, 85.5),
        "coral": Cost(4_485, 21.81, 86.2),
        "rdm variance": Cost(4_783, 21.87, 86.6),
        "rdm": Cost(4_214, 21.71, 87.2),
    },
    "vlcs": {
        "fish": Cost(13_493, 7.97, 77.8),
        "coral": Cost(6_329, 21.81, 78.8),
        "rdm variance": Cost(9_441, 21.87, 77.8),
        "rdm": Cost(6_151, 21.71, 78.4),
    },
    "officehome": {
        "fish": Cost(9_035, 7.97, 68.6),
        "coral": Cost(4_762, 21.81, 68.7),
        "rdm variance": Cost(5_467, 21.87, 67.0),
        "rdm": Cost(4_588, 21.71, 67.3),
    },
    "terraincognita": {
        "fish": Cost(6_019, 4.08, 45.1),
        "coral": Cost(2_973, 10.21, 47.6),
        "rdm variance": Cost(4_040, 10.17, 47.1),
        "rdm": Cost(2_697, 10.11, 47.5),
    },
    "domainnet": {
        "fish": Cost(11_502, 5.26, 42.7),
        "coral": Cost(11_504, 17.00, 41.5),
        "rdm variance": Cost(9_854, 16.94, 43.1),
        "rdm": Cost(7_749, 16.23, 43.4),
    },
}
"""By data set and method: ``rdm`` matches the worst domain (L̂), ``rdm variance`` every one (L)."""
