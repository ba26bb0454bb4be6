"""Values of the wrong kind are refused; of what nobody said, nothing is asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from riskmatch.validation import check_options

if TYPE_CHECKING:
    from nowhere import Nothing


def annotated(*, size: int = 1, at: Path | None = None, any=3, sizes: list[Path] = ()):
    """Kinds that people type, and others."""


def hidden(*, size: int = 1, other: Nothing = None):
    """An annotation that cannot be looked up."""


def test_what_has_no_kind_that_one_types_may_be_anything():
    check_options("it", {"at": "a/b", "any": "x", "sizes": [1]}, annotated)
    check_options("it", {"size": "big", "other": 3}, hidden)
    with pytest.raises(ValueError, match="Option size of it: 'big' is not a whole number"):
        check_options("it", {"size": "big"}, annotated)
