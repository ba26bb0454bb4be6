"""How much room text takes, so that it fits."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import wrap

from riskmatch.report.style import SMALL

PAD = 0.04
"""Inches around everything."""
EM = 0.58
"""The width of a letter as a share of its size, in the mean."""
SAMPLE = 5 * SMALL
"""The width of the line beside a label of a key, with the room around it, in points."""


def tall(lines: int, points: float) -> float:
    """The height of so many lines with some air, in inches."""
    return 1.3 * points / 72 * lines + 2 * PAD if lines else 0.0


def side_by_side(labels: Iterable[str], inches: float) -> int:
    """How many entries of a key fit in a row; one where none does."""
    lengths = [len(label) for label in labels]
    room = int(72 * inches / (max(lengths, default=0) * SMALL * EM + SAMPLE))
    return max(1, min(room, len(lengths)))


def clipped(label: str, inches: float) -> str:
    """A label in one line that fits.

    Example:
        >>> clipped("a name that nobody can read", 1.0)
        'a name that nobo…'
    """
    label, most = " ".join(label.split()), int(72 * inches / (SMALL * EM))
    return label if len(label) <= most else label[: most - 1] + "…"


def wrapped(text: str, inches: float, points: float, most: int | None = None) -> str:
    """Text in lines that fit, at most so many, all about as long.

    Example:
        >>> print(wrapped("ticks mark their means", 1.2, 8))
        ticks mark
        their means
    """
    letters = int(72 * inches / (points * EM))
    lines = wrap(text, letters, max_lines=most, placeholder=" …", break_on_hyphens=False)
    if most is None:
        even = (wrap(text, fewer, break_on_hyphens=False) for fewer in range(letters // 2, letters))
        lines = next((found for found in even if len(found) == len(lines)), lines)
    return "\n".join(lines)
