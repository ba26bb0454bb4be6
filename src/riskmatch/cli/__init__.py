"""The command line, one file per command; nothing else in the library knows of it.

A command's module is imported when the command is called, and torch only where it is needed, so
that help answers at once.
"""

from riskmatch.cli.app import main

__all__ = ["main"]
