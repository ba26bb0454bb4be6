"""Values as a reader sees them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

MISSING = "—"


def number(value: float | None) -> str:
    """Three significant digits, one decimal from ten on, with a true minus sign.

    Example:
        >>> number(0.12345), number(-70.0), number(20000.25), number(1.2e-05), number(None)
        ('0.123', '−70.0', '20000.2', '1.2e−05', '—')
    """
    if value is None or not math.isfinite(value):
        return MISSING
    return (f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}").replace("-", "−")


def percent(value: float | None) -> str:
    """A share in per cent, with one decimal.

    Example:
        >>> percent(0.71234), percent(None)
        ('71.2', '—')
    """
    return MISSING if value is None or not math.isfinite(value) else f"{100 * value:.1f}"


def text(value: Any) -> str:
    """A cell of a table: words as they are, numbers as :func:`number` writes them.

    Example:
        >>> text("rdm"), text(3), text(71.25), text(True), text([1, 2]), text("")
        ('rdm', '3', '71.2', 'true', '[1, 2]', '—')
    """
    if value is None or value == "":
        return MISSING
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return number(value)
    return json.dumps(value, ensure_ascii=False)


def settings(config: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Every setting of a configuration by its name; what is within a mapping has a dotted one.

    Example:
        >>> list(settings({"lr": 1e-05, "hparams": {"weight": 5.0}, "data_options": {}}))
        [('lr', '1e-05'), ('hparams.weight', '5.0'), ('data_options', '{}')]
    """
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from settings(value, f"{path}{name}.")
        else:
            yield path + name, value if isinstance(value, str) else json.dumps(value)


def pick(row: Mapping[str, Any], *names: str) -> list[Any]:
    """The entries of these names, as the row of a table."""
    return [row[name] for name in names]
