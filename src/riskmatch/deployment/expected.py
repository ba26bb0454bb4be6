"""The accuracy to expect on a new domain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from riskmatch.validation import check_values


@dataclass(frozen=True)
class Expected:
    """Accuracy to expect on an unseen domain, with a prediction interval."""

    accuracy: float
    low: float
    high: float
    level: float = 0.9
    """Probability that the accuracy on one new domain is between ``low`` and ``high``."""

    def __post_init__(self) -> None:
        check_values("expected", asdict(self), dict.fromkeys(asdict(self), float))
        if not 0 <= self.low <= self.accuracy <= self.high <= 1 or not 0 < self.level < 1:
            raise ValueError(
                "expected needs 0 ≤ low ≤ accuracy ≤ high ≤ 1 and a level in (0, 1), got "
                f"{asdict(self)}."
            )

    def __str__(self) -> str:
        return f"{self.accuracy:.3f} [{self.low:.3f}, {self.high:.3f}] ({self.level:.0%})"


def expected_from_json(values: Any) -> Expected:
    """Expected accuracy from JSON values; further values are ignored."""
    names = [item.name for item in fields(Expected)]
    if not isinstance(values, Mapping) or not {*names} <= values.keys():
        raise ValueError(f"expected must be a table with {', '.join(names)}, got {values!r}.")
    return Expected(**{name: values[name] for name in names})
