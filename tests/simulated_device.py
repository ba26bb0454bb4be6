"""A simulated accelerator that counts what makes the host wait for a device.

Tensors of device ``meta`` hold their numbers on the CPU, so that code takes the paths of a device
and its results can be compared. Every operation passes :class:`SimulatedDevice`, below autograd and
in backward passes too. Reads of a number, operations whose result has a size that depends on the
values, and copies between host and device are counted, with the line that asked; operations on
tensors of two devices raise, as they do on a GPU.
"""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import fields

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

from riskmatch.contract import Memory, OptimSpec
from riskmatch.data import Batch
from riskmatch.engine.step import Stepper, StepSettings
from riskmatch.models import MLP
from riskmatch.registry import find

DEVICE = torch.device("meta")
HOST = torch.device("cpu")
aten = torch.ops.aten
_WAITS = {
    aten._local_scalar_dense.default: "read",
    aten.nonzero.default: "nonzero",
    aten.masked_select.default: "nonzero",
    aten._unique2.default: "unique",
    aten.unique_dim.default: "unique",
    aten.unique_consecutive.default: "unique",
    aten.bincount.default: "bincount",
    aten.equal.default: "read",
    aten.is_nonzero.default: "read",
}
"""Operations whose result the host waits for."""
_INDEXING = aten.index.Tensor, aten.index_put_.default, aten.index_put.default
_COPIES = aten._to_copy.default, aten.copy_.default


class SimulatedTensor(Tensor):
    """A tensor of the simulated device; ``inner`` holds its numbers."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> SimulatedTensor:
        made = Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            inner.stride(),
            inner.storage_offset(),
            dtype=inner.dtype,
            device=DEVICE,
            requires_grad=False,
        )
        made.inner = inner
        return made

    def __repr__(self, **_):
        return f"SimulatedTensor({self.inner!r})"

    def tolist(self):
        return self.cpu().tolist()

    def new_tensor(self, data, dtype=None):
        return torch.tensor(data, dtype=dtype or self.dtype).to(DEVICE)

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise RuntimeError(f"{func} outside of SimulatedDevice.")


class SimulatedDevice(TorchDispatchMode):
    """Counts waits by kind and place while it is entered.

    ``waits`` are transfers to the host and operations that need a number there; ``uploads`` are
    copies to the device that are not marked as non-blocking.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits, self.uploads = Counter[str](), Counter[str]()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        leaves = tree_leaves((args, kwargs))
        simulated = [leaf for leaf in leaves if isinstance(leaf, SimulatedTensor)]
        plain = [leaf for leaf in leaves if type(leaf) is not SimulatedTensor]
        plain = [leaf for leaf in plain if isinstance(leaf, Tensor)]
        if func in _COPIES:
            return self._copy(func, args, kwargs)
        target = kwargs.get("device")
        makes = target is not None and torch.device(target) == DEVICE
        if not simulated and not makes:
            return func(*args, **kwargs)
        if func in _WAITS:
            self.waits[f"{_WAITS[func]} {_place()}"] += 1
        if func in _INDEXING:
            indices = [index for index in args[1] if index is not None]
            if any(index.dtype in (torch.bool, torch.uint8) for index in indices):
                self.waits[f"boolean index {_place()}"] += 1
            if any(index.ndim for index in indices if type(index) is not SimulatedTensor):
                self.uploads[f"index {_place()}"] += 1
        elif func is aten.repeat_interleave.Tensor and kwargs.get("output_size") is None:
            self.waits[f"repeat_interleave {_place()}"] += 1
        elif simulated and any(leaf.ndim for leaf in plain):
            raise RuntimeError(f"{func}: tensors on two devices, at {_place()}.")
        generator = kwargs.get("generator")
        if generator is not None and makes:
            raise RuntimeError(f"{func}: a generator of the CPU for the device, at {_place()}.")
        if makes:
            kwargs["device"] = HOST
        out = func(*tree_map(_inner, args), **tree_map(_inner, kwargs))
        if func in _WAITS and func is aten._local_scalar_dense.default:
            return out
        wrapped = tree_map(_wrapped, out)
        if not simulated:
            return wrapped
        return return_and_correct_aliasing(func, args, kwargs, wrapped)

    def _copy(self, func, args, kwargs):
        if func is aten.copy_.default:
            target, source = args[:2]
            to_device, from_device = (isinstance(t, SimulatedTensor) for t in (target, source))
            asynchronous = bool(args[2]) if len(args) > 2 else kwargs.get("non_blocking", False)
            self._count(from_device, to_device, asynchronous)
            _inner(target).copy_(_inner(source))
            return target
        (source,), device = args, kwargs.pop("device", None)
        from_device = isinstance(source, SimulatedTensor)
        to_device = from_device if device is None else torch.device(device) == DEVICE
        self._count(from_device, to_device, kwargs.get("non_blocking", False))
        kwargs.pop("pin_memory", None)
        out = aten._to_copy.default(_inner(source), **kwargs)
        return _wrapped(out) if to_device else out

    def _count(self, from_device: bool, to_device: bool, asynchronous: bool) -> None:
        if from_device and not to_device and not asynchronous:
            self.waits[f"copy to host {_place()}"] += 1
        if to_device and not from_device and not asynchronous:
            self.uploads[f"copy {_place()}"] += 1

    def to(self, value: Tensor) -> Tensor:
        """A tensor on the device, not counted."""
        return SimulatedTensor(value.detach().clone())


def _inner(value):
    return value.inner if isinstance(value, SimulatedTensor) else value


def _wrapped(value):
    plain = isinstance(value, Tensor) and not isinstance(value, SimulatedTensor)
    return SimulatedTensor(value) if plain else value


def _place() -> str:
    """File and line of riskmatch that asked; of the caller where none is."""
    others = __file__, "/torch/"
    frames = [f for f in traceback.extract_stack() if not any(o in f.filename for o in others)]
    ours = [frame for frame in frames if "/riskmatch/" in frame.filename]
    frame = (ours or frames)[-1]
    return f"{frame.filename.split('/riskmatch/')[-1]}:{frame.lineno}"


def count_of_a_step(method: str, batch: int = 8) -> tuple[Counter[str], Counter[str]]:
    """Waits and uploads of the third step of a method, once it acts, on three domains.

    The numbers of the terms are read in another step, see ``log_every``.
    """
    objective = find("method", method).value
    acts = {"warmup": 0} if "warmup" in {item.name for item in fields(objective)} else {}
    torch.manual_seed(0)
    x, y = torch.randn(3 * batch, 6), torch.arange(3 * batch) % 3
    network, settings = MLP((6,), 3), StepSettings(log_every=100)
    stepper = Stepper(network, objective(**acts), Memory(), settings)
    stepper.memory.base = OptimSpec("adam", lr=1e-3)
    with SimulatedDevice() as device:
        network.to(DEVICE)
        samples = Batch(x.to(DEVICE), y.to(DEVICE), (batch,) * 3)
        for _ in range(3):
            device.waits.clear()
            device.uploads.clear()
            stepper.advance(samples)
    return device.waits, device.uploads
