"""``riskmatch methods``: what there is to train with."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from tyro.conf import Positional

from riskmatch.cli.errors import check_name
from riskmatch.cli.options import docs, range_of
from riskmatch.cli.parser import parse
from riskmatch.cli.values import shown
from riskmatch.runs.config import RunConfig
from riskmatch.space import TRAINING, Tuned, ranges

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from riskmatch.objectives import Objective


@dataclass(frozen=True)
class Methods:
    """The methods, or all there is to know of one.

    Hyper-parameters with defaults and search ranges, and where each comes from.

    Example:
      riskmatch methods rdm
    """

    name: Positional[str | None] = None
    """A method."""
    json: bool = False
    """As JSON."""


def run(words: Sequence[str]) -> int:
    """List the methods, or describe one."""
    options = parse(Methods, "methods", words)
    from riskmatch.objectives import methods

    name, found = options.name, dict(sorted(methods().items()))
    if name is not None:
        check_name("method", name, found)
    described = [describe(n, found[n]) for n in ([name] if name else found)]
    if options.json:
        print(json.dumps(described[0] if name else described, indent=2))
        return 0
    from rich.console import Console

    console = Console(highlight=False)
    if name is None:
        console.print(_table(described))
        console.print("All there is to know of one: riskmatch methods NAME", style="dim")
    else:
        _detail(console, described[0])
    return 0


def describe(name: str, method: type[Objective]) -> dict[str, Any]:
    """A method as plain JSON values."""
    from riskmatch.defaults import ON_DATA, PRESETS
    from riskmatch.defaults import on_data as values_on

    on_data = {data: values_on(name, data) for data in ON_DATA}

    def entry(key: str, tuned: Tuned | None, default: Any, help: Mapping[str, str]) -> Any:
        by_data = {
            data: {"default": there.default, "range": range_of(there) or None}
            for data, there in (tuned.by_data if tuned else {}).items()
        } | {
            data: {"default": choices[key], "range": None}
            for data, choices in on_data.items()
            if key in choices
        }
        range = range_of(tuned) if tuned else None
        return {"default": default, "range": range, "help": help.get(key, ""), "by_data": by_data}

    space, own_help, run_help = ranges(method), docs(method), docs(RunConfig)
    return {
        "name": name,
        "text": inspect.cleandoc(method.__doc__ or ""),
        "needs": method.needs,
        "citation": method.citation,
        "hparams": {
            field.name: entry(field.name, space.get(field.name), field.default, own_help)
            for field in fields(method)
        },
        "training": {
            key: entry(key, tuned, tuned.default, run_help)
            for key, tuned in method.training.items()
        },
        "presets": {key: asdict(preset) for key, preset in PRESETS.get(name, {}).items()},
    }


def _table(described: Sequence[Mapping[str, Any]]) -> Table:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("method")
    for title in ("hyper-parameter", "default", "searched in"):
        table.add_column(title, no_wrap=True)
    for method in described:
        rows = [*method["hparams"].items(), *_unusual(method["training"])]
        citation = escape(method["citation"])
        table.add_row(
            f"[bold]{method['name']}[/], needs {method['needs']}\n[dim]{citation}[/]",
            "\n".join(name for name, _ in rows),
            "\n".join(shown(entry["default"]) for _, entry in rows),
            "\n".join(entry["range"] or "" for _, entry in rows),
        )
        table.add_row()
    return table


def _unusual(training: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What a method trains with where that differs from the usual."""
    for name, entry in training.items():
        usual = TRAINING.get(name)
        if usual is None or (entry["default"], entry["range"]) != (usual.default, range_of(usual)):
            yield name, entry


def _detail(console: Console, method: Mapping[str, Any]) -> None:
    from rich.markup import escape
    from rich.padding import Padding

    console.print(f"[bold]{method['name']}[/]  {escape(_plain(method['text']))}\n")
    console.print(f"[dim]from[/]   {escape(method['citation'])}")
    console.print(f"[dim]needs[/]  {method['needs']}\n")
    if method["hparams"]:
        console.print(_entries("hyper-parameter", method["hparams"]))
    console.print(_entries("training", method["training"]))
    for name, preset in method["presets"].items():
        console.print(f"[bold]--preset {name}[/]  {preset['summary']}")
        console.print(Padding(_choices(preset["choices"]), (0, 0, 0, 2)))
        alike: dict[str, list[str]] = {}
        for data, choices in preset["by_data"].items():
            alike.setdefault(_choices(choices), []).append(data)
        for text, data in alike.items():
            console.print(Padding(f"[dim]on {', '.join(data)}:[/] {text}", (0, 0, 0, 2)))
        console.print()
    example = f"riskmatch train colored-digits --method {method['name']} --test-domain 0.1"
    console.print(f"[dim]try[/]  {example}", soft_wrap=True)


def _entries(title: str, entries: Mapping[str, Any]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(title, no_wrap=True)
    table.add_column("default", no_wrap=True)
    table.add_column("searched in", no_wrap=True)
    table.add_column("", ratio=1)
    for name, entry in entries.items():
        table.add_row(name, shown(entry["default"]), entry["range"] or "", entry["help"])
        for data, there in entry["by_data"].items():
            table.add_row(
                f"  on {data}", shown(there["default"]), there["range"] or "", style="dim"
            )
    return table


def _choices(choices: Mapping[str, Any]) -> str:
    from rich.markup import escape

    return escape(", ".join(f"{name} {shown(value)}" for name, value in choices.items()))


def _plain(text: str) -> str:
    """A docstring for the terminal: its formula as LaTeX, its references as words."""
    text = re.sub(r":\w+:`~?([^`]*)`", r"\1", text).replace("``", "")
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        part.replace(".. math::", "   ") if part.startswith(".. math::") else " ".join(part.split())
        for part in paragraphs
    )
