"""The methods, one file each; a file in this folder that defines an objective is a method.

>>> sorted(methods())[:3]
['causirl', 'coral', 'eqrm']
>>> from riskmatch.objectives import RDM
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache

from riskmatch.contract import Objective

__all__ = ["Objective", "methods"]


@cache
def methods() -> dict[str, type[Objective]]:
    """Every method by the name of its file."""
    found: dict[str, type[Objective]] = {}
    for module in pkgutil.iter_modules(__path__):
        home = f"{__name__}.{module.name}"
        for member in vars(importlib.import_module(home)).values():
            own = inspect.isclass(member) and member.__module__ == home
            if own and issubclass(member, Objective):
                found[module.name] = member
    return found


def __getattr__(name: str) -> type[Objective]:
    for method in methods().values():
        if method.__name__ == name:
            return method
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
