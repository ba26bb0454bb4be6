"""Type checks of options; annotations that cannot be checked are skipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from riskmatch.validation import check_options, mismatch

if TYPE_CHECKING:
    from nowhere import Nothing


def plain(*, size: int = 1, path: Path | None = None, anything=3, paths: list[Path] = ()):
    """Options with and without annotations that can be checked."""


def unresolvable(*, size: int = 1, other: Nothing = None):
    """An annotation that cannot be evaluated."""


class Network:
    """A class whose constructor has options."""

    depth: str

    def __init__(self, shape, *, depth: int = 1):
        self.depth = str(depth)


def test_unchecked_annotations_accept_any_value():
    check_options("it", {"path": "a/b", "anything": "x", "paths": [1]}, plain)
    check_options("it", {"size": "big", "other": 3}, unresolvable)


@pytest.mark.parametrize(
    ("options", "make"),
    [
        ({"size": "big"}, plain),
        ({"size": "big"}, partial(plain, path=None)),
        ({"depth": "big"}, Network),
    ],
)
def test_wrong_type_names_option_owner_and_value(options, make):
    (name,) = options
    with pytest.raises(ValueError, match=f"^{name} of it must be an integer, got 'big'"):
        check_options("it", options, make)


def test_unknown_option_names_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'depth'"):
        check_options("it", {"dpeth": 1}, Network)


@pytest.mark.parametrize(
    ("value", "type_", "expected"),
    [
        (True, int, "an integer"),
        (1, bool, "true or false"),
        ("yes", bool | None, "true, false or None"),
        ([1, "b"], Sequence[int], "a list of integers"),
        ([0.1], tuple[float, ...], "a list of numbers"),
        (3, Mapping[str, int], "a table"),
        ("x", int | float, "an integer or a number"),
        ((1, 2), Sequence[int], None),
        (None, str | None, None),
        (1, float, None),
        (10**30, int, "below 2^63"),
        ({"weight": [10**30]}, Mapping[str, Any], "finite"),
    ],
)
def test_mismatch_names_the_expected_type(value, type_, expected):
    assert mismatch(value, type_) == expected
