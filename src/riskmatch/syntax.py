"""Read the source of classes and functions: their files, syntax trees and the names they use."""

from __future__ import annotations

import ast
import inspect
import linecache
import marshal
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec, resolve_name
from types import CodeType, FunctionType, ModuleType
from typing import Any

_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_first: dict[str, tuple[Any, str]] = {}
"""Text of each file when it was first read after an import, with the module's specification."""


class EditedError(ValueError):
    """A file was edited after Python had imported it."""


def body(module: str) -> list[ast.stmt] | None:
    """Statements of the file of a module; None where it has none."""
    loaded = sys.modules.get(module)
    file, spec = getattr(loaded, "__file__", None), getattr(loaded, "__spec__", None)
    if loaded is None:
        with suppress(ImportError, ValueError, AttributeError):
            found = find_spec(module)
            file = found.origin if found is not None and found.has_location else None
    if file is None or not file.endswith(".py"):
        return None
    text = _text(file)
    if spec is not None:
        known_spec, known_text = _first.get(file, (None, ""))
        if known_text != text if known_spec is spec else _differs_from_bytecode(spec, text):
            raise _edited(file)
        _first[file] = spec, text
    tree = _parsed(text)
    return None if tree is None else tree.body


def _differs_from_bytecode(spec: Any, text: str) -> bool:
    """Whether the bytecode that Python stored when it imported a file is that of another text.

    It tells of edits between the import and now, but for one that another process imported, too.
    """
    if sys.dont_write_bytecode or type(spec.loader) is not SourceFileLoader or not spec.cached:
        return False
    try:
        if not os.access(spec.cached, os.W_OK):
            return False
        with open(spec.cached, "rb") as file:
            file.seek(16)  # past the header
            return bool(marshal.load(file) != compile(text, spec.origin, "exec", dont_inherit=True))
    except (OSError, EOFError, ValueError, TypeError, SyntaxError):
        return False


def concerns(statement: ast.stmt, name: str) -> bool:
    """Whether a statement of a module defines a name, or changes what it stands for."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return False  # followed where the name is used
    if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        changed = (n.names for n in ast.walk(statement) if isinstance(n, ast.Global))
        return statement.name == name or any(name in names for names in changed)
    inside: list[ast.AST] = [statement]
    while inside:  # not the bodies of definitions, such as those in a branch
        node = inside.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
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


def methods_of(value: type) -> list[FunctionType]:
    """Functions that the body of a class defines, without those that a decorator generated."""
    methods = []
    for entry in vars(value).values():
        entry = entry.fget if isinstance(entry, property) else getattr(entry, "__func__", entry)
        entry = getattr(entry, "func", entry)  # of a cached property
        entry = inspect.unwrap(entry) if callable(entry) else entry
        if isinstance(entry, FunctionType) and entry.__qualname__.startswith(value.__qualname__):
            methods.append(entry)
    file = getattr(sys.modules.get(value.__module__), "__file__", None)
    files = [method.__code__.co_filename for method in methods]
    return [m for m, of in zip(methods, files, strict=True) if of == (file or of) != "<string>"]


def tree_of(value: Any) -> ast.AST | None:
    """Syntax tree of a class or function; None where its source cannot be read."""
    methods = [value] if isinstance(value, FunctionType) else methods_of(value)
    module = sys.modules.get(value.__module__)
    file = methods[0].__code__.co_filename if methods else getattr(module, "__file__", None)
    if file is None or (tree := _parsed(_text(file))) is None:
        return None
    _check_current(file, module, methods)
    if isinstance(value, FunctionType):
        line = value.__code__.co_firstlineno
        functions = [n for _, n in _definitions(tree) if not isinstance(n, ast.ClassDef)]
        nodes = [node for node in functions if _first_line(node) == line]
        if len(nodes) > 1:  # lambdas on one line
            nodes = [n for n in nodes if _compiles_to(n, value.__code__)] or nodes
        return ast.Tuple(nodes, ast.Load()) if len(nodes) > 1 else next(iter(nodes), None)
    lines = {method.__code__.co_firstlineno for method in methods}
    classes = [node for path, node in _definitions(tree) if path == value.__qualname__]
    if lines:
        classes = [n for n in classes if any(n.lineno <= line <= n.end_lineno for line in lines)]
    return classes[-1] if classes else None


def _compiles_to(node: Any, code: CodeType) -> bool:
    made = compile(ast.Expression(node), "", "eval").co_consts[0]
    facts = ("co_code", "co_consts", "co_names")
    return all(getattr(made, fact) == getattr(code, fact) for fact in facts)


def _definitions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Classes and functions of a tree with their qualified names."""
    for node in ast.iter_child_nodes(tree):
        inside = prefix
        if isinstance(node, _Definition):
            name = prefix + getattr(node, "name", "<lambda>")
            yield name, node
            inside = f"{name}." if isinstance(node, ast.ClassDef) else f"{name}.<locals>."
        yield from _definitions(node, inside)


def _first_line(node: Any) -> int:
    lines: list[int] = [entry.lineno for entry in (node, *getattr(node, "decorator_list", ()))]
    return min(lines)


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


def _check_current(file: str, module: ModuleType | None, functions: list[FunctionType]) -> None:
    """Raise unless the code of functions is what their file would compile to now."""
    if type(getattr(module, "__loader__", None)) is not SourceFileLoader:
        return  # a notebook, or a loader that changes the code
    codes = _codes(_text(file), file)
    if any(function.__code__ not in codes for function in functions):
        raise _edited(file)


def _edited(file: str) -> EditedError:
    return EditedError(
        f"{file} was edited after Python had imported it, so the code in use is not the one in the "
        "file. Restart Python, or import it again with importlib.reload."
    )


@cache
def _codes(text: str, file: str) -> frozenset[CodeType]:
    """Every code object of a file."""
    codes, waiting = set[CodeType](), [compile(text, file, "exec", dont_inherit=True)]
    while waiting:
        code = waiting.pop()
        codes.add(code)
        waiting += [entry for entry in code.co_consts if isinstance(entry, CodeType)]
    return frozenset(codes)


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
