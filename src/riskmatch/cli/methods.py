"""``riskmatch methods``: list the methods, or describe one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import riskmatch
from riskmatch.cli.options import Positional
from riskmatch.cli.parser import Command
from riskmatch.cli.printer import (
    Column,
    format_value,
    plain_text,
    print_json,
    print_line,
    print_table,
    print_text,
)


@dataclass
class Methods(Command):
    """List the methods, or describe one: formula, idea, citation, defaults, ranges and cost.

    Methods that installed packages announce are listed with their package; one of your own is named
    package.module:Name.

    Example:
      riskmatch methods rdm
    """

    name: Positional[str | None] = None
    """Name of a method, or package.module:Name."""
    json: bool = False
    """Print JSON."""

    def execute(self) -> None:
        """List the methods, or describe one."""
        if self.name:
            method = riskmatch.describe_method(self.name)
            (print_json if self.json else _print_method)(method)
            return
        methods = riskmatch.describe_methods()
        if self.json:
            print_json(methods)
            return
        print_table(_COLUMNS, [method for method in methods if "error" not in method])
        for method in methods:
            if "error" in method:
                print_line(f"{method['name']}: {method['error']}")
        print_line("Formula, citation, settings: riskmatch methods NAME", "dim")


_COLUMNS = (
    Column("method", lambda method: method["name"]),
    Column("idea", lambda method: method["idea"]),
    Column("needs", lambda method: method["needs"]),
    Column("title", lambda method: method["title"]),
    Column(
        "package",
        lambda method: "" if method["package"] == "riskmatch" else method["package"],
        optional=True,
    ),
)


def _print_method(method: Mapping[str, Any]) -> None:
    print_line(method["name"], "bold")
    print_text(plain_text(method["text"]) + "\n")
    print_text(f"from   {method['citation']}")
    print_text(f"idea   {method['idea']}")
    print_text(f"needs  {method['needs']}")
    if cost := method["step_cost"]:
        print_text(f"step   {cost['value']:.2f} × the time of ERM's ({cost['measured_on']})")
    print()
    _print_values("hyper-parameter", method["hparams"])
    _print_values("training", method["training"])
    for name, preset in method["presets"].items():
        print_text(f"--preset {name}  {preset['summary']}")
        if preset["choices"]:
            print_text(_choices(preset["choices"]), indent=2)
        by_choices: dict[str, list[str]] = {}
        for data, choices in preset["by_data"].items():
            by_choices.setdefault(_choices(choices), []).append(data)
        for text, data in by_choices.items():
            print_text(f"on {', '.join(data)}: {text}", indent=2)
        print()
    example = f"riskmatch train colored-digits --method {method['name']} --test-domain 0.1"
    print_line(f"try  {example}")


def _print_values(title: str, entries: Mapping[str, Any]) -> None:
    rows = [
        row
        for name, entry in entries.items()
        for row in [(name, entry), *((f"  on {d}", there) for d, there in entry["by_data"].items())]
    ]
    columns = [
        Column(title, lambda row: row[0]),
        Column("default", lambda row: format_value(row[1]["default"])),
        Column("searched in", lambda row: row[1]["range"] or ""),
        Column("", lambda row: row[1].get("help", "")),
    ]
    if rows:
        print_table(columns, rows)


def _choices(choices: Mapping[str, Any]) -> str:
    parts = []
    for name, value in choices.items():
        if isinstance(value, Mapping) and value.keys() == {"default", "range"}:
            range_ = value["range"] and f", searched in {value['range']}"
            parts.append(f"{name} {format_value(value['default'])}{range_}")
        else:
            parts.append(f"{name} {format_value(value)}")
    return "; ".join(parts)
