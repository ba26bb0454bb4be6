"""Progress of reading and decoding data."""

from collections.abc import Callable

OnProgress = Callable[[str, int, int | None], None]
"""Called with the name of a task, the amount done, and the total where it is known.

The amount is a number of bytes or of images, as the caller documents.
"""


def no_progress(task: str, done: int, total: int | None) -> None:
    """Ignore progress."""
