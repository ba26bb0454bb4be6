"""What can go wrong on the command line, each with its exit code."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from riskmatch.validation import check_option


class CommandError(Exception):
    """An error with an exit code; its message is one line of cause and cure."""

    code = 2


class BadInput(CommandError):
    """What was asked for makes no sense or does not exist."""


class RunFailed(CommandError):
    """A run failed or was interrupted; the message says how to go on."""

    code = 3


def check_name(kind: str, word: str, names: Iterable[str]) -> None:
    """Raise :class:`BadInput` unless ``word`` is one of a few ``names``."""
    try:
        check_option(kind, word, names)
    except ValueError as error:
        raise BadInput(str(error)) from None


def unknown(kind: str, word: str, names: Iterable[str], command: str = "riskmatch") -> BadInput:
    """The error for a word that is none of many ``names``.

    Example:
        >>> str(unknown("option", "--wieght", ["--weight", "--warmup"]))
        "Unknown option '--wieght'. Did you mean '--weight'?"
        >>> str(unknown("option", "--budget", ["--weight", "--warmup"]))
        "Unknown option '--budget'. See riskmatch --help."
    """
    near = difflib.get_close_matches(word, list(names), n=1)
    cure = f"Did you mean '{near[0]}'?" if near else f"See {command} --help."
    return BadInput(f"Unknown {kind} '{word}'. {cure}")
