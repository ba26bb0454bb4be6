"""Errors of the command line, each with its exit code."""

from __future__ import annotations

import difflib
import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from riskmatch.validation import check_option

_CURES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), " Free some space, or write elsewhere."),
    **dict.fromkeys((errno.EACCES, errno.EPERM), " Allow it with chmod, or use another path."),
    errno.EROFS: " Write elsewhere.",
}
"""Cures of errors of the operating system."""


class CommandError(Exception):
    """An error with an exit code; the message is one line of cause and cure."""

    code = 2


class Ended(Exception):
    """The command ends with an exit code, and there is nothing to print."""

    def __init__(self, code: int = 0) -> None:
        super().__init__()
        self.code = code


class BadInput(CommandError):
    """An option, a name or a file is wrong."""


class RunFailed(CommandError):
    """A run failed or was interrupted; the message says how to continue."""

    code = 3


@contextmanager
def bad_input() -> Iterator[None]:
    """Report wrong values, missing files and missing packages as :class:`BadInput`.

    Errors with the exit code 3, and processes that are lost, are :class:`RunFailed`.

    Example:
        >>> with bad_input():
        ...     raise ValueError("lr must be positive, got -1.")
        Traceback (most recent call last):
        riskmatch.cli.errors.BadInput: lr must be positive, got -1.
    """
    try:
        yield
    except BrokenPipeError:  # of the reader of the output
        raise
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        code = 3 if isinstance(error, ChildProcessError) else getattr(error, "code", 2)
        if isinstance(error, RuntimeError) and not hasattr(error, "code"):
            raise  # a fault, not bad input
        raise (RunFailed if code == RunFailed.code else BadInput)(cause_of(error)) from error


def cause_of(error: BaseException) -> str:
    """Message of an error; for those of the operating system the file, the reason and a cure.

    Example:
        >>> cause_of(IsADirectoryError(21, "Is a directory", "runs/a"))
        'runs/a: Is a directory.'
        >>> cause_of(OSError(28, "No space left on device", "out.csv"))
        'out.csv: No space left on device. Free some space, or write elsewhere.'
    """
    if isinstance(error, OSError) and error.filename and error.strerror:
        cure = _CURES.get(error.errno or 0, "")
        return f"{os.fsdecode(error.filename)}: {error.strerror}.{cure}"
    return str(error)


def unknown(noun: str, name: str, names: Iterable[str], command: str = "riskmatch") -> BadInput:
    """The error for a name that is not among ``names``, which are too many to list.

    Example:
        >>> str(unknown("option", "--wieght", ["--weight", "--warmup"]))
        "Unknown option '--wieght'. Did you mean '--weight'?"
        >>> str(unknown("option", "--bogus", ["--out", "--jobs"]))
        "Unknown option '--bogus'. See riskmatch --help."
    """
    spelt = {known.lstrip("-"): known for known in names}  # all options have dashes in common
    near = difflib.get_close_matches(name.lstrip("-"), spelt, n=1)
    cure = f"Did you mean '{spelt[near[0]]}'?" if near else f"See {command} --help."
    return BadInput(f"Unknown {noun} '{name}'. {cure}")


def prepare_output(file: Path, option: str, suffixes: tuple[str, ...]) -> None:
    """Create the folder of an output file; refuse other file types.

    Called before any work, so that no work is lost.
    """
    check_option(f"file type of {option}", file.suffix, suffixes)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(file.parent, os.W_OK):
            raise PermissionError(errno.EACCES, "No permission to write; use another path")
    except OSError as error:
        raise BadInput(f"{option} {file}: {error.strerror} ({file.parent}).") from error
