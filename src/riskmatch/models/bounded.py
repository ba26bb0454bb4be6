"""Networks of other origin: built within a limit of memory, and with finite weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
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


def check_finite(weights: Mapping[str, Tensor], network: nn.Module) -> None:
    """Raise ``ValueError`` if a weight is not finite; a buffer may hold −∞, as masks do."""
    parameters = {name for name, _ in network.named_parameters()}
    for name, value in weights.items():
        wrong = ~value.isfinite()
        if name not in parameters:
            wrong &= value != -torch.inf
        if count := int(wrong.sum()):
            raise ValueError(
                f"{count:,} of {value.numel():,} values of {name!r} are infinite or NaN. Train the "
                "model again, with a lower learning rate if its risk diverged."
            )


class _Counting(TorchFunctionMode):
    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit, self.bytes = limit, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _FACTORIES and "out" not in kwargs:
            meta = {k: v for k, v in kwargs.items() if k not in ("generator", "pin_memory")}
            meta["device"] = "meta"
            self.bytes += func(*args, **meta).nbytes
            kwargs = meta if self.bytes > self.limit else kwargs
        return func(*args, **kwargs)
