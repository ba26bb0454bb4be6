"""Decide which parts named ``package.module:Name`` may be imported, as importing one runs its code.

A name that the user typed on the command line or passed in Python is imported. A name that was read
from a file (a model folder, a record, a plan, an advice) is imported only

1. if the user typed or passed the same name in this process,
2. if it was typed or passed when that folder was made on this machine, which :func:`remember` notes
   in the user's state folder, as ``git`` does with ``safe.directory``,
3. or if the caller trusts the file: ``--trust``, in Python ``trust=True``.

Functions that only read are decorated with :func:`imports_nothing` and import no part, not even
those that installed packages announce, but for a ``metric`` that the caller names.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import ParamSpec, TypeVar

from riskmatch.files import make_folder, read_file, try_lock, user_folder, write_whole

MAX_FOLDERS = 10_000
"""Most folders whose names are remembered; the oldest are dropped."""
_NAME = re.compile(r"(?!timm:)[A-Za-z_][\w.]*:[A-Za-z_]\w*")

_typed: ContextVar[set[str] | None] = ContextVar("typed", default=None)
"""Names that a command may import; None outside of commands, where code may import any."""
_everything: ContextVar[bool] = ContextVar("everything", default=False)
"""Whether the user gave ``--trust``."""
_reading: ContextVar[bool] = ContextVar("reading", default=False)
"""Whether no part may be imported."""
_passed: set[str] = set()
"""Names that were imported on behalf of Python code in this process."""

_named: ContextVar[frozenset[str]] = ContextVar("named", default=frozenset())
"""The only names that may be imported where no others are."""
P = ParamSpec("P")
R = TypeVar("R")


class UntrustedError(ValueError):
    """A file names a part that the user did not name."""


def is_own(name: str) -> bool:
    """Whether a name has the form ``package.module:Name``.

    Example:
        >>> is_own("my_methods:Robust"), is_own("rdm"), is_own("timm:resnet50")
        (True, False, False)
    """
    return _NAME.fullmatch(name) is not None


@contextmanager
def command(words: Iterable[str], everything: bool = False) -> Iterator[None]:
    """Within a command, allow the names among its words alone, or all names with ``--trust``.

    Words that are paths are no names, whatever they look like.
    """
    names, trust = _typed.set(set()), _everything.set(everything)
    try:
        type_names(words)
        yield
    finally:
        _typed.reset(names)
        _everything.reset(trust)


def type_names(words: Iterable[str]) -> None:
    """Allow the names among words of a command line, or of a file given as ``--config``.

    Example:
        >>> with command(["train", "--method=mine:Robust", "--log", "csv,mine:Log"]):
        ...     sorted(_typed.get())
        ['mine:Log', 'mine:Robust']
    """
    typed = _typed.get()
    if typed is not None:
        for word in words:
            value = word.partition("=")[2] if word.startswith("-") else word
            if not os.path.exists(value):  # a path is no name, whatever it looks like
                texts = (text.strip('"') for text in re.split("[=,]", value))
                typed |= {text for text in texts if is_own(text) and not os.path.exists(text)}


def may_import(name: str, announced: bool = False) -> bool:
    """Whether the part of this name may be imported here.

    Args:
        name: its name.
        announced: whether an installed package announces it, which is trusted.
    """
    if _reading.get():
        return name in _named.get()
    typed = _typed.get()
    if announced or _everything.get():
        return True
    if typed is None:
        _passed.add(name)
        return True
    return name in typed


def reason() -> str:
    """Why a part may not be imported here."""
    if _reading.get():
        return "this command only reads"
    return "it was not named on the command line; add --trust if you trust the file that names it"


def admit(names: Iterable[str], file: Path, trust: bool = False) -> None:
    """Allow the names of parts that were read from ``file``, or raise.

    Args:
        names: names of parts; those that are not ``package.module:Name`` need no trust.
        file: the file that holds them.
        trust: whether the caller trusts the file.

    Raises:
        UntrustedError: one is not trusted, see :mod:`riskmatch.trust`.
    """
    if _reading.get():
        return  # importing one raises
    typed = _typed.get()
    user_parts = {name for name in names if is_own(name)}
    if not (trust or _everything.get()) and user_parts - (_passed if typed is None else typed):
        known = (_passed if typed is None else typed) | remembered(file)
        if refused := sorted(user_parts - known):
            raise UntrustedError(
                f"{file} names {', '.join(refused)}, and importing it would run its code. If you "
                "trust this file, add --trust (in Python trust=True)."
            )
    if typed is not None:
        typed |= user_parts


def imports_nothing(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that reads files of others: no part is imported while it runs.

    A part that the caller names as ``metric`` or ``rule`` is.
    """
    known = signature(function)

    @wraps(function)
    def reading(*args: P.args, **kwargs: P.kwargs) -> R:
        given = known.bind_partial(*args, **kwargs).arguments
        texts = (given.get(name) for name in ("metric", "rule"))
        named = frozenset(text for text in texts if isinstance(text, str))
        name = _named.set(_named.get() if _reading.get() else named)
        token = _reading.set(True)
        try:
            return function(*args, **kwargs)
        finally:
            _reading.reset(token)
            _named.reset(name)

    return reading


def remember(folder: Path, names: Iterable[str]) -> None:
    """Trust these names in files of ``folder`` from now on, as the user named them for it.

    Names that this process may not import are left out. Where the state folder cannot be written, a
    warning says that the names have to be given again.
    """
    typed = _typed.get()
    user_parts = {name for name in names if is_own(name) and (typed is None or name in typed)}
    key = str(folder.resolve())
    if not user_parts - {*_read(state_file()).get(key, ())}:
        return
    file = state_file()
    try:
        make_folder(file.parent)
        with try_lock(file.with_suffix(".lock"), timeout=10):
            folders = _read(file)
            known = folders.pop(key, [])  # the newest come last
            folders[key] = sorted({*known, *user_parts})
            kept = dict(
                [item for item in folders.items() if os.path.exists(item[0])][-MAX_FOLDERS:]
            )
            write_whole(file, (json.dumps({**kept, key: folders[key]}, indent=1) + "\n").encode())
    except OSError as error:
        warnings.warn(
            f"{file} cannot be written ({error.strerror}): commands on {folder} will ask for "
            "--trust, because it uses parts of your own.",
            stacklevel=2,
        )


def remembered(path: Path) -> set[str]:
    """Names that are trusted in ``path``: those of its folder, or of a folder with runs or a model.

    Other folders inside, such as one that was unpacked there, are not trusted with it.
    """
    names: set[str] = set()
    folders, path = _read(state_file()), path.resolve()
    for folder in (path, *path.parents):
        inside = path.relative_to(folder).parts
        if len(inside) <= 1 or inside[0] in ("runs", "model"):
            names.update(folders.get(str(folder), ()))
    return names


def state_file() -> Path:
    """File of the remembered names."""
    return user_folder("state") / "trusted.json"


def _read(file: Path) -> dict[str, list[str]]:
    """Remembered names by folder; empty where the file is missing or damaged."""
    from msgspec.json import decode

    try:
        return decode(read_file(file), type=dict[str, list[str]])
    except (OSError, ValueError, RecursionError):
        return {}
