"""Build a network of another origin within a limit of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from riskmatch.limits import allowed, check_limit

_FACTORIES: set[Callable[..., Any]] = {
    torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn
}  # fmt: skip


@contextmanager
def bounded_build(subject: str, limit: float) -> Iterator[None]:
    """Raise ``LimitError`` if the tensors that are created inside take more than ``limit`` bytes.

    Tensors beyond the limit are created without memory, on the meta device, so that all are
    counted.

    Example:
        >>> with bounded_build("The network takes", 10**6):  # doctest: +ELLIPSIS
        ...     layer = torch.nn.Linear(10**6, 10**6)
        Traceback (most recent call last):
        riskmatch.limits.LimitError: The network takes 4,000.0 GB; the limit is 1 MB. ...
    """
    counting = _Counting(allowed(limit))
    try:
        with counting:
            yield
    finally:
        check_limit(subject, counting.bytes, limit)


class _Counting(TorchFunctionMode):
    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit, self.bytes = limit, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _FACTORIES:
            meta = {**kwargs, "device": "meta"}
            self.bytes += func(*args, **meta).nbytes
            kwargs = meta if self.bytes > self.limit else kwargs
        return func(*args, **kwargs)
