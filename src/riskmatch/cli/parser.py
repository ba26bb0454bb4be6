"""A parser of options."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, get_origin

from riskmatch.cli.errors import BadInput, unknown
from riskmatch.cli.options import Option


class Parser(argparse.ArgumentParser):
    """Returns what was given and nothing else; says what is wrong in one line."""

    def __init__(self, command: str, usage: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=f"riskmatch {command}",
            usage=f"riskmatch {command} {usage}",
            description=description,
            epilog=epilog,
            add_help=False,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
                prog, max_help_position=30
            ),
        )
        self.known: dict[str, Option] = {}
        self.elsewhere: dict[str, str] = {}
        """What to say of an option that another command or method has, by its flag."""

    def add(self, title: str, options: Iterable[Option], description: str | None = None) -> None:
        """Add options under a title."""
        group = self.add_argument_group(title, description)
        for option in options:
            if option.name in self.known:
                raise ValueError(f"Two options of {self.prog} are called {option.flag}.")
            self.known[option.name] = option
            option.add_to(group)

    def parse(self, argv: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
        """The things that the command is about, and the options that were given."""
        namespace, rest = self.parse_known_args(list(argv))
        for word in rest:
            if word.startswith("-") and word != "--":
                flag = word.partition("=")[0]
                if flag in self.elsewhere:
                    raise BadInput(self.elsewhere[flag])
                flags = [text for action in self._actions for text in action.option_strings]
                raise unknown("option", flag, flags, self.prog)
        given = vars(namespace)
        for name, value in given.items():
            if self.known[name].many:
                pairs = get_origin(self.known[name].kind) is Mapping
                given[name] = dict(value) if pairs else tuple(value)
        return [word for word in rest if word != "--"], given

    def error(self, message: str) -> NoReturn:
        """Raise what argparse found as bad input."""
        raise BadInput(f"{message.removeprefix('argument ').rstrip('.')}. See {self.prog} --help.")
