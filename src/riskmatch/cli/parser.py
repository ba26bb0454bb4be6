"""Parse the words of a command with argparse; errors are one line."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from riskmatch.cli.errors import BadInput, HelpPrinted, unknown
from riskmatch.cli.options import Option, options_of

Command = TypeVar("Command")


def parse(
    command: type[Command],
    name: str,
    words: Sequence[str],
    text: str | None = None,
) -> Command:
    """Parse the words after ``riskmatch NAME`` into a value of the dataclass ``command``.

    Its fields are the options; one without a default must be given. The help is ``text``, by
    default the docstring of ``command``.
    """
    return parse_groups(command, name, words, {}, text)[0]


def parse_groups(
    command: type[Command],
    name: str,
    words: Sequence[str],
    groups: Mapping[str, Iterable[Option]],
    text: str | None = None,
) -> tuple[Command, dict[str, Any]]:
    """As :func:`parse`, with further groups of options, whose given values are returned by name."""
    options = options_of(command)
    parser = Parser(f"riskmatch {name}", text or inspect.getdoc(command) or "", options)
    for title, group in groups.items():
        parser.add(title, group)
    given = parser.parse(words)
    for option in options:
        if option.required and option.name not in given:
            raise BadInput(f"{parser.prog} needs {option.label}: {option.help}")
    fields = {option.name: given.pop(option.name) for option in options if option.name in given}
    return command(**fields), given


class Parser(argparse.ArgumentParser):
    """Parses words into the values that were given, without defaults."""

    def __init__(self, prog: str, text: str, options: Iterable[Option], help: bool = True) -> None:
        self.options = list(options)
        """Options of all groups."""
        self.hints: Mapping[str, str] = {}
        """Errors for flags that belong elsewhere, by flag."""
        names = " ".join(option.label for option in self.options if option.positional)
        super().__init__(
            prog,
            f"{prog} [options] {names}",
            text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            argument_default=argparse.SUPPRESS,
            add_help=help,
            allow_abbrev=False,
        )
        self._negative_number_matcher = re.compile(r"-\.?\d")  # as in Python 3.14: also -1e4
        for option in self.options:
            option.add_to(self)

    def add(self, title: str, options: Iterable[Option]) -> None:
        """Add a group of options under a title.

        Raises:
            ValueError: there is an option of the same name already.
        """
        group = self.add_argument_group(f"{title} options")
        for option in options:
            try:
                option.add_to(group)
            except argparse.ArgumentError:
                message = f"{self.prog} has two options {option.label}; rename one."
                raise ValueError(message) from None
            self.options.append(option)

    def parse(self, words: Sequence[str]) -> dict[str, Any]:
        """Values that were given, by name. ``--help`` prints the help and ends the command."""
        # Intermixed, so that names may follow options; then Python knows no words after "--".
        parse = self.parse_known_args if "--" in words else self.parse_known_intermixed_args
        parsed, rest = parse(list(words))
        for flag in (word.partition("=")[0] for word in rest if re.match("--?[A-Za-z]", word)):
            if flag in self.hints:
                raise BadInput(self.hints[flag])
            raise unknown("option", flag, self._option_string_actions, self.prog)
        given = self._collected(parsed)
        if rest:
            positional = [option for option in self.options if option.positional]
            got = " ".join([*(str(given[o.name]) for o in positional if o.name in given), *rest])
            takes = " ".join(option.label for option in positional) or "no name"
            raise BadInput(f"{self.prog} takes {takes}, got {got}. See {self.prog} --help.")
        return given

    def parse_known(self, words: Sequence[str]) -> dict[str, Any]:
        """Values that were given for the options of this parser; other words are ignored."""
        return self._collected(self.parse_known_args(list(words))[0])

    def _collected(self, parsed: argparse.Namespace) -> dict[str, Any]:
        given, options = vars(parsed), {option.name: option for option in self.options}
        absent = {o.name for o in self.options if o.positional and not given.get(o.name)}
        return {n: options[n].collect(value) for n, value in given.items() if n not in absent}

    def error(self, message: str) -> NoReturn:
        """Raise the error that argparse would print."""
        flag, _, cause = message.removeprefix("argument ").partition(": ")
        causes = {"expected": f"{flag} needs a value.", "ignored": f"{flag} takes no value."}
        cause = causes.get(cause.partition(" ")[0], cause)
        raise BadInput(f"{cause} See {self.prog} --help.")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End the command after its help."""
        raise HelpPrinted
