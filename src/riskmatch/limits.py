"""Limits on files of others: none of them may exhaust memory or time.

All limits are multiplied by the environment variable ``RISKMATCH_LIMIT_FACTOR``, which is 1 where
it is not set.
"""

from __future__ import annotations

import csv
import math
import os
from pathlib import Path

VARIABLE = "RISKMATCH_LIMIT_FACTOR"
MEMORY = 10**9
"""Bytes that the contents of a file may take in memory."""
EXPANSION = 10
"""Times its own size that the contents of a file may take in memory, whatever its size."""
COLUMNS = 100_000
"""Columns of a table."""
FIELD = 16 * 10**6
"""Bytes of a field, and of a line, of a CSV file."""
ENTRIES = 10_000
"""Entries of a list that describes a network, such as the widths of its layers."""
_BLOCK = 1 << 20


class LimitError(ValueError):
    """Something is larger than its limit; the message states both, and how to raise the limit."""


def allowed(limit: float) -> float:
    """A limit multiplied by ``RISKMATCH_LIMIT_FACTOR``."""
    text = os.environ.get(VARIABLE) or "1"
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not factor > 0:
        raise ValueError(f"{VARIABLE} must be a positive number, got {text!r}.")
    return limit * factor


def check_limit(subject: str, amount: float, limit: float, unit: str = "bytes") -> None:
    """Raise :class:`LimitError` if ``amount`` exceeds a limit.

    Example:
        >>> check_limit("wide.csv has", 10**6, COLUMNS, "columns")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        riskmatch.limits.LimitError: wide.csv has 1,000,000 columns; the limit is 100,000. ...
    """
    if amount > allowed(limit):
        raise LimitError(
            f"{subject} {_amount(amount, unit)}{f' {unit}' * (unit != 'bytes')}; the limit is "
            f"{_amount(allowed(limit), unit)}. To allow it, raise all limits: "
            f"{VARIABLE}={math.ceil(amount / limit)}."
        )


def check_memory(path: Path, amount: float, note: str = "") -> None:
    """Raise :class:`LimitError` if the contents of a file take more memory than they may."""
    check_limit(f"{path}{note} unpacks to", amount, max(MEMORY, EXPANSION * path.stat().st_size))


def check_fields(path: Path) -> None:
    """Raise :class:`LimitError` if a CSV file has a line or a field that is too long.

    The file is read in blocks, and parsed only if quotes may join many lines to one field.
    """
    line = longest = row = quoted = 0
    joined = False
    with open(path, "rb") as file:
        while block := file.read(_BLOCK).replace(b"\r", b"\n"):
            first, last = block.find(b"\n"), block.rfind(b"\n")
            longest = max(longest, line + (len(block) if first < 0 else first))
            line = line + len(block) if last < 0 else len(block) - last - 1
            parts = block.split(b'"')
            row = 0 if any(b"\n" in part for part in parts[quoted::2]) else row + len(block)
            quoted = (quoted + len(parts) - 1) % 2
            joined |= row > allowed(FIELD)
    check_limit(f"{path} has a line of", longest, FIELD)
    if not joined:
        return
    before = csv.field_size_limit(int(min(allowed(FIELD), 2**31 - 1)))
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as text:
            delimiter = delimiter_of(text.readline())
            text.seek(0)
            rows = csv.reader(text, delimiter=delimiter, skipinitialspace=True)
            for _ in rows:
                pass
    except csv.Error as error:
        if "field limit" in str(error):  # whoever reads the file names other errors
            subject = f"{path} has in line {rows.line_num} a field of up to"
            check_limit(subject, path.stat().st_size, FIELD)
    finally:
        csv.field_size_limit(before)


def delimiter_of(line: str) -> str:
    """Delimiter of a CSV file: that which its first line holds most often."""
    return max(",;\t|", key=line.count)


def _amount(value: float, unit: str) -> str:
    if unit != "bytes":
        return f"{value:,.0f}"
    return f"{value / 1e9:,.1f} GB" if value >= 1e8 else f"{value / 1e6:,.0f} MB"
