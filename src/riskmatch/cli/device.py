"""Resolve ``--device``."""

from __future__ import annotations

from riskmatch.cli.errors import BadInput


def device_of(name: str) -> str:
    """The device that ``--device NAME`` means; ``auto`` is a GPU if there is one."""
    from riskmatch.engine.device import resolve_device

    try:
        return resolve_device(name)
    except ValueError as error:
        raise BadInput(str(error)) from error
