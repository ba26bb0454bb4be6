"""Resolve device names."""

from __future__ import annotations


def resolve_device(name: str) -> str:
    """Device that ``name`` means; ``auto`` is a GPU if there is one, else the CPU.

    Example:
        >>> resolve_device("cpu")
        'cpu'

    Raises:
        ValueError: the device does not exist.
    """
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        cause = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"Device {name} is not available: {cause}. Try cpu.") from error
    return name
