"""Identify the source code of a user's part, so that an edited part is recognised as another one.

A part of an installed distribution is identified by the version of that distribution, any other by
a hash of its source: the syntax trees, without docstrings and comments, of the statements that
define or change the class or function and the names that it uses, its bases among them. Names are
followed through all modules that no distribution holds.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import linecache
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from importlib import metadata
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec, resolve_name
from types import CodeType, FunctionType, ModuleType
from typing import Any

DIGITS = 16
"""Hexadecimal digits of a hash."""
_CONSTANTS = (bool, int, float, complex, str, bytes, type(None))
_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_first: dict[str, tuple[Any, str]] = {}
"""Text of each file when it was first read after an import, with the module's specification."""
_unreadable: set[str] = set()
"""Names whose source could not be read, which is said once."""


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
    if name and _body(module) is not None:
        sources.add_name(module, name)
        if is_local((part := definition(value)).__module__):
            _tree_of(part)  # which raises if its file was edited
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
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
    return digest[:DIGITS] if sources.texts else None


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
    found = dict(metadata.packages_distributions())
    if sys.version_info < (3, 11):  # it knows none without a file top_level.txt
        for distribution in metadata.distributions():
            files = () if distribution.read_text("top_level.txt") else distribution.files or ()
            for name in {file.parts[0] for file in files if file.suffix == ".py"}:
                found.setdefault(name.removesuffix(".py"), [distribution.metadata["Name"]])
    return found


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
        tree = _tree_of(value)
        if tree is None:
            if name not in self.missing:
                self.missing.append(name)
                self.texts[name] = ""
            return
        key = f"{name} {_text(tree)}"
        if key in self.texts:
            return
        self.texts[key] = ""
        for base in value.__bases__ if isinstance(value, type) else ():
            self.add(base)
        root = value.__qualname__.partition(".")[0]
        if _body(value.__module__) is None:  # a notebook: names are those of the cells that ran
            self._add_values(tree, _namespace(value), value.__module__)
        elif root == "<lambda>":
            self._add_used(tree, value.__module__)
        else:
            self.add_name(value.__module__, root)

    def add_name(self, module: str, name: str) -> None:
        """Add the statements of a module that define or change a name, and what they use."""
        key = f"{module}:{name}"
        if key in self.texts:
            return
        self.texts[key] = ""
        for statement in _body(module) or ():
            if _concerns(statement, name):
                self.texts[key] += _text(statement) + "\n"
                self._add_used(statement, module)
        if not self.texts[key]:  # imported there
            self._add_used(ast.parse(name), module)

    def add_module(self, module: str) -> None:
        """Add all of a module."""
        if f"{module}:" in self.texts:
            return
        self.texts[f"{module}:"] = ""
        for statement in _body(module) or ():
            self.texts[f"{module}:"] += _text(statement) + "\n"
            self._add_used(statement, module)

    def _add_used(self, tree: ast.AST, module: str) -> None:
        """Add what the names in a tree stand for: in its module, or in one that is imported."""
        imports = _imports([*(_body(module) or ()), tree], module)
        for first, *attributes in _dotted_names(tree):
            if first not in imports:
                if any(_concerns(statement, first) for statement in _body(module) or ()):
                    self.add_name(module, first)
                else:  # perhaps of `from module import *`
                    for home in filter(is_local, imports.get("*", ("", ()))[1]):
                        self.add_name(home, first)
                continue
            home, names = imports[first]
            while attributes and not names and _body(f"{home}.{attributes[0]}") is not None:
                home = f"{home}.{attributes.pop(0)}"
            name = names[0] if names else attributes[0] if attributes else ""
            if not is_local(home):
                continue
            if names and _body(f"{home}.{name}") is not None:  # a module of a package
                home, name = f"{home}.{name}", attributes[0] if attributes else ""
            if name:
                self.add_name(home, name)
            else:
                self.add_module(home)

    def _add_values(self, tree: ast.AST, namespace: dict[str, Any], module: str) -> None:
        """Add the values of names that have no file to look them up in."""
        for first, *_ in _dotted_names(tree):
            value = namespace.get(first)
            if isinstance(value, type | FunctionType):
                self.add(value)
            elif _is_constant(value) and first in namespace:
                self.texts[f"{module}:{first}"] = repr(value)


@cache
def _body_of(text: str) -> tuple[ast.stmt, ...] | None:
    tree = _parsed(text)
    return None if tree is None else tuple(tree.body)


def _body(module: str) -> tuple[ast.stmt, ...] | None:
    """Statements of the file of a module; None where it has none."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None and module not in sys.modules:
        with suppress(ImportError, ValueError, AttributeError):
            spec = find_spec(module)
            file = spec.origin if spec is not None and spec.has_location else None
    if file is None or not str(file).endswith(".py"):
        return None
    linecache.checkcache(str(file))
    text, spec = (
        "".join(linecache.getlines(str(file))),
        getattr(sys.modules.get(module), "__spec__", None),
    )
    if spec and _first.setdefault(str(file), (spec, text)) != (spec, text):
        if _first[str(file)][0] is spec:
            raise _edited(str(file))
        _first[str(file)] = spec, text  # it was imported again
    return _body_of(text)


def _concerns(statement: ast.stmt, name: str) -> bool:
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


def _imports(trees: Iterable[ast.AST], module: str) -> dict[str, tuple[str, tuple[str, ...]]]:
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


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    return isinstance(value, _CONSTANTS)


def _namespace(value: Any) -> dict[str, Any]:
    """Names that a definition sees: those of its module, and those of enclosing functions."""
    functions = [value] if isinstance(value, FunctionType) else _methods(value)
    names = dict(getattr(sys.modules.get(value.__module__), "__dict__", {}))
    for function in functions:
        names |= function.__globals__
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            with suppress(ValueError):  # not assigned yet
                names[name] = cell.cell_contents
    return names


def _methods(value: type) -> list[FunctionType]:
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


def _tree_of(value: Any) -> ast.AST | None:
    """Syntax tree of a class or function; None where its source cannot be read."""
    methods = [value] if isinstance(value, FunctionType) else _methods(value)
    module = sys.modules.get(value.__module__)
    file = methods[0].__code__.co_filename if methods else getattr(module, "__file__", None)
    if file is None or (tree := _tree(file)) is None:
        return None
    _check_current(file, module, methods)
    if isinstance(value, FunctionType):
        line = value.__code__.co_firstlineno
        functions = [n for _, n in _definitions(tree) if not isinstance(n, ast.ClassDef)]
        found = [node for node in functions if _first_line(node) == line]
        if len(found) > 1:  # lambdas on one line
            found = [n for n in found if _compiles_to(n, value.__code__)] or found
        return ast.Tuple(found, ast.Load()) if len(found) > 1 else next(iter(found), None)
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


def _tree(file: str) -> ast.Module | None:
    linecache.checkcache(file)
    return _parsed("".join(linecache.getlines(file)))


@cache
def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text) if text else None
    except (SyntaxError, ValueError):
        return None


def _check_current(file: str, module: ModuleType | None, functions: list[FunctionType]) -> None:
    """Raise unless the code of functions is what their file would compile to now."""
    if type(getattr(module, "__loader__", None)) is not SourceFileLoader:
        return  # a notebook, or a loader that changes the code
    codes = _codes("".join(linecache.getlines(file)), file)
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


def _dotted_names(tree: ast.AST) -> Iterator[list[str]]:
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


def _text(tree: ast.AST) -> str:
    """Source of a tree without docstrings and comments, whatever its layout."""
    tree = ast.parse(ast.unparse(tree))  # a copy
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [entry for entry in body if not _is_docstring(entry)]  # type: ignore[attr-defined]
    return ast.unparse(tree)


def _is_docstring(node: ast.stmt) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)
