"""Identify the source code of a user's part, so that an edited part is recognised as another one.

A part of an installed distribution is identified by the version of that distribution, any other by
a hash of its source: the syntax trees, without docstrings and comments, of the statements that
define or change the class or function and the names that it uses, its bases among them. Names are
followed through all modules that no distribution holds.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
import warnings
from contextlib import suppress
from functools import cache, partial
from importlib import metadata
from types import FunctionType
from typing import Any

from riskmatch.files import sha256
from riskmatch.syntax import (
    body,
    concerns,
    dotted_names,
    imported_names,
    methods_of,
    tree_of,
)

DIGITS = 16
"""Hexadecimal digits of a hash."""
_CONSTANTS = (bool, int, float, complex, str, bytes, type(None))
_unreadable: set[str] = set()
"""Names whose source could not be read, which is said once."""


def source_hash(value: object, module: str = "", name: str = "") -> str | None:
    """Hash of the source of a part; None where it is installed or built in.

    Args:
        value: a class, a function, or an instance, which has the source of its class.
        module: module that holds the part, where it is a value that is assigned there.
        name: name to which it is assigned.

    Raises:
        EditedError: the file on disk is not the one that Python imported.

    Example:
        >>> import json
        >>> source_hash(json.JSONDecoder) is None
        True
    """
    sources = _Sources()
    if module and not is_local(module):
        return None
    if name and body(module) is not None:
        sources.add_name(module, name)
        if is_local((part := definition(value)).__module__):
            tree_of(part)  # which raises if its file was edited
    else:
        sources.add(value)
    if unseen := [name for name in sources.missing if name not in _unreadable]:
        _unreadable.update(unseen)
        warnings.warn(
            f"The source of {', '.join(unseen)} cannot be read, so an edit of it is not noticed: a "
            "run that was finished before the edit counts as done. Define it in a file.",
            stacklevel=2,
        )
    text = "\n".join(f"{name}: {text}" for name, text in sorted(sources.texts.items()))
    return sha256(text)[:DIGITS] if sources.texts else None


def distribution_of(module: str) -> str | None:
    """The installed distribution that holds a module; None for other files.

    One that is installed in editable mode counts as files, because its version stays when they are
    edited; riskmatch itself is none, because its parts are built in.
    """
    top = module.partition(".")[0]
    name = next(iter(_distributions().get(top, ())), None)
    return None if name in (None, "riskmatch") or is_editable(str(name)) else name


def is_local(module: str) -> bool:
    """Whether a module is a file of the user: not installed, and not of Python or riskmatch."""
    top = module.partition(".")[0]
    return top not in (*sys.stdlib_module_names, "riskmatch") and not distribution_of(module)


@cache
def _distributions() -> dict[str, list[str]]:
    """Installed distributions by the top-level modules that they hold."""
    by_module = dict(metadata.packages_distributions())
    if sys.version_info < (3, 11):  # it knows none without a file top_level.txt
        for distribution in metadata.distributions():
            files = () if distribution.read_text("top_level.txt") else distribution.files or ()
            for name in {file.parts[0] for file in files if file.suffix == ".py"}:
                by_module.setdefault(name.removesuffix(".py"), [distribution.metadata["Name"]])
    return by_module


@cache
def is_editable(distribution: str) -> bool:
    """Whether a distribution is installed from a folder in which its files are edited."""
    origin = metadata.distribution(distribution).read_text("direct_url.json")
    return origin is not None and bool(json.loads(origin).get("dir_info", {}).get("editable"))


def definition(value: Any) -> Any:
    """The class or function that defines a part: itself, what it wraps, or its class."""
    while isinstance(value, partial):
        value = value.func
    value = inspect.unwrap(value) if callable(value) else value
    return value if isinstance(value, type | FunctionType) else type(value)


class _Sources:
    """Statements that a part depends on, by module and name."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.missing: list[str] = []

    def add(self, value: Any) -> None:
        """Add the definition of a class or function, and what it uses."""
        value = definition(value)
        if not is_local(value.__module__):
            return
        name = f"{value.__module__}.{value.__qualname__}"
        tree = tree_of(value)
        if tree is None:
            if name not in self.missing:
                self.missing.append(name)
                self.texts[name] = ""
            return
        key = f"{name} {ast.unparse(tree)}"
        if key in self.texts:
            return
        self.texts[key] = ""
        for base in value.__bases__ if isinstance(value, type) else ():
            self.add(base)
        root = value.__qualname__.partition(".")[0]
        if body(value.__module__) is None:  # a notebook: names are those of the cells that ran
            self._add_values(tree, _namespace(value), value.__module__)
        elif root == "<lambda>":
            self._add_used(tree, value.__module__)
        else:
            self.add_name(value.__module__, root)

    def add_name(self, module: str, name: str = "") -> None:
        """Add what a module says about a name, or all of it without one, and what that uses."""
        key = f"{module}:{name}"
        if key in self.texts:
            return
        self.texts[key] = ""
        for statement in body(module) or ():
            if not name or concerns(statement, name):
                self.texts[key] += ast.unparse(statement) + "\n"
                self._add_used(statement, module)
        if name and not self.texts[key]:  # imported there
            self._add_used(ast.parse(name), module)

    def _add_used(self, tree: ast.AST, module: str) -> None:
        """Add what the names in a tree stand for: in its module, or in one that is imported."""
        imports = imported_names([*(body(module) or ()), tree], module)
        for first, *attributes in dotted_names(tree):
            if first not in imports:
                if any(concerns(statement, first) for statement in body(module) or ()):
                    self.add_name(module, first)
                else:  # perhaps of `from module import *`
                    for home in filter(is_local, imports.get("*", ("", ()))[1]):
                        self.add_name(home, first)
                continue
            home, names = imports[first]
            while attributes and not names and body(f"{home}.{attributes[0]}") is not None:
                home = f"{home}.{attributes.pop(0)}"
            name = names[0] if names else attributes[0] if attributes else ""
            if not is_local(home):
                continue
            if names and body(f"{home}.{name}") is not None:  # a module of a package
                home, name = f"{home}.{name}", attributes[0] if attributes else ""
            self.add_name(home, name)

    def _add_values(self, tree: ast.AST, namespace: dict[str, Any], module: str) -> None:
        """Add the values of names that have no file to look them up in."""
        for first, *_ in dotted_names(tree):
            value = namespace.get(first)
            if isinstance(value, type | FunctionType):
                self.add(value)
            elif _is_constant(value) and first in namespace:
                self.texts[f"{module}:{first}"] = repr(value)


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    return isinstance(value, _CONSTANTS)


def _namespace(value: Any) -> dict[str, Any]:
    """Names that a definition sees: those of its module, and those of enclosing functions."""
    functions = [value] if isinstance(value, FunctionType) else methods_of(value)
    names = dict(getattr(sys.modules.get(value.__module__), "__dict__", {}))
    for function in functions:
        names |= function.__globals__
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            with suppress(ValueError):  # not assigned yet
                names[name] = cell.cell_contents
    return names
