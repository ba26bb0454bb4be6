"""Print tables and lines of text on the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from riskmatch.files import printable, to_json
from riskmatch.report.tables import Amount, Column, Table
from riskmatch.report.titles import part_titles

__all__ = [
    "Amount",
    "Column",
    "Table",
    "part_titles",
    "print_differences",
    "print_facts",
    "print_json",
    "print_line",
    "print_table",
    "printable",
]


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    print(to_json(value, indent=2))


def print_table(columns: Iterable[Column] | Table, rows: Iterable[Any] = ()) -> None:
    """Print a table, given as such or by its columns and rows, without its caption."""
    table = columns if isinstance(columns, Table) else Table.of("", columns, rows)
    _print(table.terminal())


def print_line(text: object, style: str = "") -> None:
    """Print text on one line, however long; control characters are escaped."""
    from rich.text import Text

    _print(Text(printable(text), style=style))


def _print(value: Any) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable

    Console(highlight=False).print(value, soft_wrap=not isinstance(value, RichTable))


def print_facts(facts: Any) -> None:
    """Print the verdict of a summary, without its rule."""
    from riskmatch.report.facts import lines

    for line in lines(facts)[:-1]:
        print_line(line)


def print_differences(differences: Any) -> None:
    """Print the differences between the methods of a summary."""
    from riskmatch.report.headline import differences_table

    print_table(differences_table(differences))
