"""Search distributions as values, and hyper-parameters that carry their own.

Every name is drawn from a random stream of its own, seeded by the name and the seed of the draw, so
adding a hyper-parameter never changes how the others are drawn.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Literal

from riskmatch.files import seed_of

Value = float | int | str


class Distribution(ABC):
    """A distribution that hyper-parameters are drawn from."""

    @abstractmethod
    def sample(self, rng: random.Random) -> Value:
        """One draw."""

    @abstractmethod
    def __contains__(self, value: object) -> bool:
        """Whether ``value`` can be drawn."""


@dataclass(frozen=True)
class Uniform(Distribution):
    """Uniform on [low, high]; whole numbers where ``integer``."""

    low: float
    high: float
    integer: bool = False

    def sample(self, rng: random.Random) -> Value:
        """One draw."""
        if self.integer:
            return rng.randint(math.ceil(self.low), math.floor(self.high))
        return rng.uniform(self.low, self.high)

    def __contains__(self, value: object) -> bool:
        number = isinstance(value, int | float) and self.low <= value <= self.high
        return number and (not self.integer or float(value).is_integer())  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"U({self.low:g}, {self.high:g})"


@dataclass(frozen=True)
class LogUniform(Distribution):
    """``base`` to a uniform power in [low, high]; rounded down where ``integer``, or ``up``."""

    low: float
    high: float
    base: int = 10
    integer: bool = False
    up: bool = False

    def sample(self, rng: random.Random) -> Value:
        """One draw."""
        value = float(self.base ** rng.uniform(self.low, self.high))
        return math.ceil(value) if self.up else int(value) if self.integer else value

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | float) or value <= 0:
            return False
        slack = math.log(1 + 1 / value, self.base) if self.integer else 0
        power, low = math.log(value, self.base), self.low - slack * (not self.up)
        return low - 1e-9 <= power <= self.high + slack * self.up + 1e-9

    def __str__(self) -> str:
        return f"{self.base}^U({self.low:g}, {self.high:g})"


@dataclass(frozen=True)
class Choice(Distribution):
    """One of a few values."""

    options: tuple[Value, ...]

    def sample(self, rng: random.Random) -> Value:
        """One draw."""
        return rng.choice(self.options)

    def __contains__(self, value: object) -> bool:
        return value in self.options

    def __str__(self) -> str:
        return "{" + ", ".join(f"{option}" for option in self.options) + "}"


@dataclass(frozen=True)
class Scaled(Distribution):
    """Values of another distribution times a factor; see :func:`times`."""

    distribution: Distribution
    factor: float

    def sample(self, rng: random.Random) -> Value:
        """One draw."""
        return times(self.distribution.sample(rng), self.factor)

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | float):
            return False
        # A whole number stands for all that are rounded to it.
        low, high = math.ceil((value - 0.5) / self.factor), math.floor((value + 0.5) / self.factor)
        return any(number in self.distribution for number in (value / self.factor, low, high))

    def __str__(self) -> str:
        return f"{self.factor:g} · {self.distribution}"


def times(value: Value, factor: float) -> Value:
    """A number times a factor; a whole number stays one, others lose the noise of the last digits.

    Example:
        >>> times(1500, 0.2), times(1.5e-5, 20)
        (300, 0.0003)
    """
    if isinstance(value, str):
        raise TypeError(f"'{value}' is no number.")
    return round(value * factor) if isinstance(value, int) else float(f"{value * factor:.6g}")


@dataclass(frozen=True)
class Tuned:
    """The default of a hyper-parameter and where to search for a better one."""

    default: Value
    range: Distribution
    by_data: Mapping[str, Tuned] = field(default_factory=dict)
    """What differs on a data set, by its name."""

    def on(self, data: str | None) -> Tuned:
        """Default and range on the data set of this name."""
        return self.by_data.get(data or "", self)

    def scaled(self, factor: float) -> Tuned:
        """Default and range times a factor, on every data set."""
        return Tuned(
            times(self.default, factor),
            Scaled(self.range, factor),
            {name: entry.scaled(factor) for name, entry in self.by_data.items()},
        )


@dataclass(frozen=True)
class Interval:
    """Valid values of a number.

    Example:
        >>> 1.0 in Interval(0, 1, "left"), str(Interval(0, 1, "left")), str(POSITIVE)
        (False, 'in [0, 1)', 'positive')
    """

    low: float = -math.inf
    high: float = math.inf
    closed: Literal["both", "left", "right", "neither"] = "both"
    """Which ends belong to it; infinity never does."""

    def __contains__(self, value: object) -> bool:
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not abs(value) < math.inf
        ):
            return False
        if self.low < value < self.high:
            return True
        ends = {"both": (self.low, self.high), "left": (self.low,), "right": (self.high,)}
        return value in ends.get(self.closed, ())

    def __str__(self) -> str:
        if self == POSITIVE:
            return "positive"
        if self.high == math.inf and self.closed == "both":
            return f"at least {self.low:g}"
        start = "[" if self.closed in ("both", "left") else "("
        end = "]" if self.closed in ("both", "right") else ")"
        return f"in {start}{self.low:g}, {self.high:g}{end}"


NOT_NEGATIVE, POSITIVE = Interval(0), Interval(0, closed="neither")


def tuned(
    default: Value,
    range: Distribution,
    valid: Interval | None = None,
    *,
    domainbed: str = "",
    **by_data: Tuned,
) -> Any:
    """A dataclass field with a default and a search range; what differs by data set beside them.

    ``domainbed`` is DomainBed's name of the hyper-parameter, where it is another.

    Data sets are named by keyword, with ``_`` for ``-``: ``domainnet=Tuned(0.5, Uniform(0.1, 1))``.
    Values outside ``valid`` are refused, see :func:`check_valid`.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Method:
        ...     weight: float = tuned(1.0, LogUniform(-1, 1))
        >>> draw(ranges(Method), seed=0)["weight"] == draw(ranges(Method), seed=0)["weight"]
        True
    """
    named = {name.replace("_", "-"): entry for name, entry in by_data.items()}
    metadata = {"tuned": Tuned(default, range, named), "valid": valid, "domainbed": domainbed}
    return field(default=default, metadata=metadata)


def bounded(default: Any, valid: Interval, *, domainbed: str = "") -> Any:
    """A dataclass field that is not searched; values outside ``valid`` are refused."""
    return field(default=default, metadata={"valid": valid, "domainbed": domainbed})


def check_valid(values: Any, name: str = "") -> None:
    """Raise ``ValueError`` unless every field of a dataclass, called ``name``, has a valid value.

    None is valid where it is the default. Configurations, methods and launchers check themselves so
    when they are made.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Method:
        ...     weight: float = tuned(1.0, LogUniform(-1, 1), NOT_NEGATIVE)
        >>> check_valid(Method(weight=-1.0), "Method")
        Traceback (most recent call last):
        ValueError: weight of Method must be at least 0, got -1.0.
    """
    for field_name, (valid, default) in _bounds(values.__class__).items():
        value = getattr(values, field_name)
        if value not in valid and not value is default is None:
            full_name = f"{field_name} of {name}" if name else field_name
            raise ValueError(f"{full_name} must be {valid}, got {value!r}.")


@cache
def _bounds(cls: Any) -> dict[str, tuple[Interval, Any]]:
    """Valid values and default of each field that has the former."""
    bounded = [item for item in fields(cls) if item.metadata.get("valid") is not None]
    return {item.name: (item.metadata["valid"], item.default) for item in bounded}


def ranges(objective: type) -> dict[str, Tuned]:
    """The tuned fields of a dataclass, by name."""
    return {
        item.name: item.metadata["tuned"] for item in fields(objective) if "tuned" in item.metadata
    }


def defaults(space: Mapping[str, Tuned], data: str | None = None) -> dict[str, Value]:
    """The default of every name, on the data set ``data`` where it differs there."""
    return {name: entry.on(data).default for name, entry in space.items()}


def draw(space: Mapping[str, Tuned], seed: int, data: str | None = None) -> dict[str, Value]:
    """One value for every name, each from its own stream."""
    return {
        name: entry.on(data).range.sample(random.Random(seed_of(name, seed)))
        for name, entry in space.items()
    }


TRAINING: dict[str, Tuned] = {
    "lr": Tuned(5e-5, LogUniform(-5, -3.5), {"rotated-mnist": Tuned(1e-3, LogUniform(-4.5, -2.5))}),
    "batch_size": Tuned(
        32,
        LogUniform(3, 5.5, base=2, integer=True),
        {
            "domainnet": Tuned(32, LogUniform(3, 5, base=2, integer=True)),
            "rotated-mnist": Tuned(64, LogUniform(3, 9, base=2, integer=True)),
        },
    ),
    "weight_decay": Tuned(0.0, LogUniform(-6, -2), {"rotated-mnist": Tuned(0.0, Choice((0.0,)))}),
    "dropout": Tuned(0.0, Choice((0.0, 0.1, 0.5))),
}
"""The field's usual defaults and ranges (Gulrajani and Lopez-Paz, ICLR 2021)."""
