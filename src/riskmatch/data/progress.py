"""Word from work that takes a while."""

from collections.abc import Callable

OnProgress = Callable[[str, int, int | None], None]
"""Told what is being done, how many bytes or images are done, and of how many where that is known.

Who tells says which of the two it counts.
"""
