"""The command line, one file per command; nothing else in the library knows of it.

A command's module is imported when the command is called, and torch only where it is needed, so
that help answers at once.

A new command is a module here with a dataclass and a function ``run``, and a line in
:data:`riskmatch.cli.app.COMMANDS`. The dataclass says what can be given: its docstring is the help,
a field with a docstring is an option, one marked ``tyro.conf.Positional`` is told by its place, and
one without a default must be given. ``run`` takes the words after the command, makes them a value
of the dataclass with :func:`riskmatch.cli.parser.parse` and returns the exit code; a command with
verbs, such as ``data get``, passes one such function per verb to :func:`riskmatch.cli.verbs.call`.
"""

from riskmatch.cli.app import main

__all__ = ["main"]
