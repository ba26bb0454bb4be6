"""Where to compute."""

from __future__ import annotations

from riskmatch.cli.errors import BadInput


def device_of(name: str) -> str:
    """The device that ``--device NAME`` means; ``auto`` is a GPU if there is one."""
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        cause = str(error).splitlines()[0].rstrip(".")
        raise BadInput(f"--device {name}: {cause}. Try --device cpu.") from error
    return name
