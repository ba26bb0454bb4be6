"""Ctrl-C between two steps, never inside one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def held_interrupts() -> Iterator[Callable[[], None]]:
    """Hold back the first interrupt until the function given is called; the second one strikes.

    Outside the main thread, which alone receives interrupts, nothing changes.
    """
    held = False

    def check() -> None:
        if held:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield check
        return
    before = signal.getsignal(signal.SIGINT)

    def hold(number: int, frame: FrameType | None) -> None:
        nonlocal held
        held = True
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, hold)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)
