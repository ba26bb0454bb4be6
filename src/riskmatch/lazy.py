"""Public names that a package imports on first use, so that torch is loaded only if needed."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # typing takes longer to import than all of this
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions ``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: name of the package.
        homes: module that defines a name, by name, relative to the package.

    Example:
        >>> load, names = lazy_names("riskmatch", {"mmd2": "divergence"})
        >>> load("mmd2").__name__, "mmd2" in names()
        ('mmd2', True)
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    def names() -> list[str]:
        return sorted({*vars(import_module(package)), *homes})

    return load, names
