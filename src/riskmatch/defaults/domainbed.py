"""Hyper-parameters as DomainBed draws them, value by value.

Defaults and ranges are those of the preset ``domainbed``. A value is drawn with NumPy's legacy
generator, seeded by the hash of the draw's seed and of DomainBed's name of the hyper-parameter, so
it depends on no other value, and on the method only as far as its range does.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np

from riskmatch.defaults.resolution import method_class, name_of, search_space
from riskmatch.defaults.values import NOT_OF_DOMAINBED, PRESETS, data_key
from riskmatch.files import seed_hash
from riskmatch.registry import built_in
from riskmatch.runs.domainbed_hparams import field_by_name
from riskmatch.space import Value
from riskmatch.validation import listed

if TYPE_CHECKING:
    from riskmatch.defaults.resolution import Method


class _LegacyRandom(random.Random):
    """Draws of NumPy's ``RandomState``."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._state = np.random.RandomState(seed)

    def uniform(self, a: float, b: float) -> float:
        """A float in [a, b)."""
        return float(self._state.uniform(a, b))

    def randint(self, a: int, b: int) -> int:
        """A float in [a, b), rounded down."""
        return int(self.uniform(a, b))

    def choice(self, seq: Any) -> Any:
        """One of the values."""
        return seq[self._state.choice(len(seq))]


def domainbed_draw(method: Method, data: str, number: int, trial: int) -> dict[str, Value]:
    """Fields of a method and of its run in a draw of DomainBed.

    Args:
        method: name or class of the method.
        data: name or path of the data set.
        number: DomainBed's ``hparams_seed``; 0 gives the defaults.
        trial: its ``trial_seed``.

    Raises:
        ValueError: DomainBed lacks the method, or has no ranges for such data.

    Example:
        >>> domainbed_draw("groupdro", "pacs", 0, trial=0)["eta"]
        0.01
        >>> domainbed_draw("erm", "pacs", 1, 0)["lr"] == domainbed_draw("irm", "vlcs", 1, 0)["lr"]
        True
    """
    methods = sorted(built_in("method").keys() - set(NOT_OF_DOMAINBED))
    if name_of(method) not in methods:
        raise ValueError(
            f"DomainBed does not draw for {name_of(method)}; name methods that it has (--methods): "
            f"{listed(methods)}."
        )
    if data_key(data) not in PRESETS["domainbed"].by_data:
        raise ValueError(
            f"DomainBed has no ranges for '{data}', only for images in folders, colored-mnist "
            "and rotated-mnist. Draw from the ranges of riskmatch: give draws as a number."
        )
    names = {field: name for name, field in field_by_name(method_class(method)).items()}
    space = search_space(method, data, preset="domainbed")
    ranges = {field: tuned.on(data) for field, tuned in space.items()}
    if number == 0:
        return {field: tuned.default for field, tuned in ranges.items()}
    seed = seed_hash(number, trial)
    return {
        field: tuned.range.sample(_LegacyRandom(seed_hash(seed, names[field])))
        for field, tuned in ranges.items()
    }
