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
import linecache
import marshal
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from importlib import metadata
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec, resolve_name
from types import CodeType, FunctionType
from typing import Any

from riskmatch.files import sha256

DIGITS = 16
"""Hexadecimal digits of a hash."""
_CONSTANTS = (bool, int, float, complex, str, bytes, type(None))
_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_unreadable: set[str] = set()
"""Names whose source could not be read, which is said once."""
_first: dict[str, tuple[Any, str]] = {}
"""Text of each file when it was first read after an import, with the module's specification."""


class EditedError(ValueError):
    """A file was edited after Python had imported it."""


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
        if is_local(home := definition(value).__module__):
            body(home)  # which raises if its file was edited
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
        module, root = value.__module__, value.__qualname__.partition(".")[0]
        if not is_local(module):
            return
        for base in value.__bases__ if isinstance(value, type) else ():
            self.add(base)
        if "<" in value.__qualname__:  # a name that others may have, too
            text = _inner_text(value)
            self.texts[f"{module}:{text}"] = ""
            if body(module) is not None and root == "<lambda>":
                self._add_used(ast.parse(text), module)
        if body(module) is None:  # a notebook: names are those of the cells that ran
            self._add_cell(value)
        elif root != "<lambda>":
            self.add_name(module, root)

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

    def _add_cell(self, value: Any) -> None:
        """Add a definition in a cell of a notebook, and the values that its names have now."""
        module, functions = value.__module__, list(_functions(value))
        code = functions[0].__code__ if functions else None
        tree = _parsed(_text(code.co_filename)) if code else None
        statement = None if tree is None or code is None else _statement(tree, code.co_firstlineno)
        key = f"{module}.{value.__qualname__}"
        if statement is None:
            self.missing += [key] * (key not in self.missing)
        text = "" if statement is None else ast.unparse(statement)
        if f"{key} {text}" in self.texts:
            return
        self.texts[f"{key} {text}"] = ""
        namespace = dict(getattr(sys.modules.get(module), "__dict__", {}))
        for function in functions:
            namespace |= function.__globals__
            cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
            for name, cell in cells:
                with suppress(ValueError):  # not assigned yet
                    namespace[name] = cell.cell_contents
        for first, *_ in dotted_names(ast.parse(text)):
            used = namespace.get(first)
            if isinstance(used, type | FunctionType):
                self.add(used)
            elif _is_constant(used) and first in namespace:
                self.texts[f"{module}:{first}"] = repr(used)


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    return isinstance(value, _CONSTANTS)


def body(module: str) -> list[ast.stmt] | None:
    """Statements of the file of a module; None where it has none."""
    loaded = sys.modules.get(module)
    file, spec = getattr(loaded, "__file__", None), getattr(loaded, "__spec__", None)
    if loaded is None:
        with suppress(ImportError, ValueError, AttributeError):
            there = find_spec(module)
            file = there.origin if there is not None and there.has_location else None
    if file is None or not file.endswith(".py"):
        return None
    text = _text(file)
    if spec is not None:
        known_spec, known_text = _first.get(file, (None, ""))
        same = known_text == text if known_spec is spec else _is_imported(loaded, text)
        if not same:
            raise EditedError(
                f"{file} was edited after Python had imported it, so the code in use is not the "
                "one in the file. Restart Python, or import it again with importlib.reload."
            )
        _first[file] = spec, text
    tree = _parsed(text)
    return None if tree is None else tree.body


def _is_imported(module: Any, text: str) -> bool:
    """Whether the code of a module is that of a text, as far as can be told.

    Its functions tell, and the bytecode that Python stored when it imported the file, unless
    another process has imported it since. Loaders that change the code are passed over.
    """
    spec = module.__spec__
    if type(spec.loader) is not SourceFileLoader:
        return True
    try:
        whole = compile(text, spec.origin, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    codes, waiting = set[CodeType](), [whole]
    while waiting:
        codes.add(code := waiting.pop())
        waiting += [entry for entry in code.co_consts if isinstance(entry, CodeType)]
    values = [v for v in vars(module).values() if isinstance(v, type | FunctionType)]
    used = [function.__code__ for value in values for function in _functions(value)]
    if any(code not in codes for code in used if code.co_filename == spec.origin):
        return False
    if sys.dont_write_bytecode or not spec.cached or not os.access(spec.cached, os.W_OK):
        return True
    with suppress(OSError, EOFError, ValueError, TypeError), open(spec.cached, "rb") as file:
        file.seek(16)  # past the header
        return bool(marshal.load(file) == whole)
    return True


def concerns(statement: ast.stmt, name: str) -> bool:
    """Whether a statement of a module defines a name, or changes what it stands for."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return False  # followed where the name is used
    if isinstance(statement, _Definition):
        changed = (n.names for n in ast.walk(statement) if isinstance(n, ast.Global))
        return statement.name == name or any(name in names for names in changed)
    inside: list[ast.AST] = [statement]
    while inside:  # not the bodies of definitions, such as those in a branch
        node = inside.pop()
        if isinstance(node, _Definition):
            if node.name == name:
                return True
            continue
        if isinstance(node, ast.Name) and node.id == name:
            return True
        inside += ast.iter_child_nodes(node)
    return False


def imported_names(trees: Iterable[ast.AST], module: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Imported names: module, and the name in it; ``*`` has the modules that are imported whole."""
    names: dict[str, tuple[str, tuple[str, ...]]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    whole = alias.name if alias.asname else alias.name.partition(".")[0]
                    names[alias.asname or whole] = whole, ()
            elif isinstance(node, ast.ImportFrom):
                home = _imported(node, module)
                for alias in node.names:
                    if alias.name == "*":
                        names["*"] = "", (*names.get("*", ("", ()))[1], home)
                    else:
                        names[alias.asname or alias.name] = home, (alias.name,)
    return names


def _imported(statement: ast.ImportFrom, module: str) -> str:
    """Name of the module that a statement imports from."""
    package = sys.modules[module].__package__ or ""
    return resolve_name("." * statement.level + (statement.module or ""), package)


def _functions(value: Any) -> Iterator[FunctionType]:
    """A function itself; those that the body of a class defines, without generated ones."""
    for entry in vars(value).values() if isinstance(value, type) else (value,):
        entry = entry.fget if isinstance(entry, property) else getattr(entry, "__func__", entry)
        entry = getattr(entry, "func", entry)  # of a cached property
        entry = inspect.unwrap(entry) if callable(entry) else entry
        if not isinstance(entry, FunctionType) or entry.__code__.co_filename == "<string>":
            continue
        if entry.__qualname__.startswith(value.__qualname__):
            yield entry


def _statement(tree: ast.Module, line: int) -> ast.stmt | None:
    """The statement of a cell that holds a line; a decorator precedes its definition."""
    after = (entry for entry in tree.body if (entry.end_lineno or 0) >= line)
    return next(after, None)


def _inner_text(value: Any) -> str:
    """The text of a lambda, or of a definition in a function; empty where it cannot be read."""
    code = next((function.__code__ for function in _functions(value)), None)
    tree = None if code is None else _parsed(_text(code.co_filename))
    if code is None or tree is None:
        return ""
    nodes: list[Any] = [n for n in ast.walk(tree) if isinstance(n, _Definition | ast.Lambda)]
    nodes = [n for n in nodes if getattr(n, "name", "<lambda>") == value.__name__]
    nodes = [n for n in nodes if _first_line(n) <= code.co_firstlineno <= n.end_lineno]
    if value.__name__ == "<lambda>":  # there may be several on a line
        nodes = [node for node in nodes if _compiles_to(node, code)] or nodes
    return "\n".join(map(ast.unparse, nodes))


def _first_line(node: Any) -> int:
    lines: list[int] = [entry.lineno for entry in (node, *getattr(node, "decorator_list", ()))]
    return min(lines)


def _compiles_to(node: ast.Lambda, code: CodeType) -> bool:
    made = compile(ast.Expression(node), "", "eval").co_consts[0]
    facts = ("co_code", "co_consts", "co_names")
    return all(getattr(made, fact) == getattr(code, fact) for fact in facts)


def _text(file: str) -> str:
    """Text of a file, or of a cell of a notebook, as it is now."""
    linecache.checkcache(file)
    return "".join(linecache.getlines(file))


@cache
def _parsed(text: str) -> ast.Module | None:
    """Syntax tree of a text without docstrings; None where it is empty or no Python."""
    if not text:
        return None
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        statements = getattr(node, "body", None)
        if isinstance(statements, list):
            statements[:] = [entry for entry in statements if not _is_docstring(entry)]
    return tree


def dotted_names(tree: ast.AST) -> Iterator[list[str]]:
    """Names that a tree reads, with the attributes that follow: ``a.b.c`` as [a, b, c]."""
    inside: set[ast.AST] = set()
    for node in ast.walk(tree):
        attributes: list[str] = []
        if node in inside:
            continue
        while isinstance(node, ast.Attribute):
            attributes.insert(0, node.attr)
            node = node.value
            inside.add(node)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield [node.id, *attributes]


def _is_docstring(node: ast.stmt) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)
