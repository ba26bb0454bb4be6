"""``riskmatch methods``: list the methods, or describe one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from riskmatch.cli.errors import bad_input
from riskmatch.cli.options import Positional
from riskmatch.cli.parser import parse
from riskmatch.cli.printer import Column, print_line, print_table
from riskmatch.defaults import describe_method, describe_methods
from riskmatch.defaults.describe import without_markup
from riskmatch.validation import format_value

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Methods:
    """List the methods, or describe one: formula, hyper-parameters, defaults and search ranges.

    Methods that installed packages announce are listed with their package; one of your own is named
    package.module:Name.

    Example:
      riskmatch methods rdm
    """

    name: Positional[str | None] = None
    """Name of a method, or package.module:Name."""
    json: bool = False
    """Print JSON."""


def run(words: Sequence[str]) -> int:
    """List the methods, or describe one."""
    options = parse(Methods, "methods", words)
    with bad_input():
        described = describe_method(options.name) if options.name else describe_methods()
    if options.json:
        print(json.dumps(described, indent=2, default=str))
        return 0
    from rich.console import Console

    console = Console(highlight=False)
    if isinstance(described, dict):
        _print_method(console, described)
    else:
        _print_list(described)
        console.print("Formula, citation, settings: riskmatch methods NAME", style="dim")
    return 0


_LIST = (
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


def _print_list(described: Sequence[Mapping[str, Any]]) -> None:
    """Print a line per method, then what cannot be imported."""
    print_table(_LIST, [method for method in described if "error" not in method])
    for method in described:
        if "error" in method:
            print_line(f"{method['name']}: {method['error']}")


def _print_method(console: Console, method: Mapping[str, Any]) -> None:
    from rich.markup import escape
    from rich.padding import Padding

    console.print(f"[bold]{escape(method['name'])}[/]  {escape(plain_text(method['text']))}\n")
    console.print(f"[dim]from[/]   {escape(method['citation'])}")
    console.print(f"[dim]needs[/]  {method['needs']}\n")
    if method["hparams"]:
        _print_values("hyper-parameter", method["hparams"])
    _print_values("training", method["training"])
    for name, preset in method["presets"].items():
        console.print(f"[bold]--preset {name}[/]  {preset['summary']}")
        if preset["choices"]:
            console.print(Padding(_choices(preset["choices"]), (0, 0, 0, 2)))
        by_choices: dict[str, list[str]] = {}
        for data, choices in preset["by_data"].items():
            by_choices.setdefault(_choices(choices), []).append(data)
        for text, data in by_choices.items():
            console.print(Padding(f"[dim]on {', '.join(data)}:[/] {text}", (0, 0, 0, 2)))
        console.print()
    example = f"riskmatch train colored-digits --method {method['name']} --test-domain 0.1"
    console.print(f"[dim]try[/]  {escape(example)}", soft_wrap=True)


def _print_values(title: str, entries: Mapping[str, Any]) -> None:
    rows = [
        row
        for name, entry in entries.items()
        for row in [(name, entry), *((f"  on {d}", there) for d, there in entry["by_data"].items())]
    ]
    print_table(
        [
            Column(title, lambda row: row[0]),
            Column("default", lambda row: format_value(row[1]["default"])),
            Column("searched in", lambda row: row[1]["range"] or ""),
            Column("", lambda row: row[1].get("help", "")),
        ],
        rows,
    )


def _choices(choices: Mapping[str, Any]) -> str:
    from rich.markup import escape

    parts = []
    for name, value in choices.items():
        if isinstance(value, Mapping) and value.keys() == {"default", "range"}:
            parts.append(f"{name} {format_value(value['default'])}, searched in {value['range']}")
        else:
            parts.append(f"{name} {format_value(value)}")
    return escape("; ".join(parts))


def plain_text(docstring: str) -> str:
    """A docstring without reStructuredText: references as words, formulas as Unicode."""
    math = ".. math::"
    return "\n\n".join(
        f"    {plain_formula(part.removeprefix(math))}"
        if part.startswith(math)
        else " ".join(part.split())
        for part in without_markup(docstring).split("\n\n")
    )


SYMBOLS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "eta": "η", "theta": "θ", "epsilon": "ε", "mu": "μ",
    "lambda": "λ", "rho": "ρ", "sigma": "σ", "Phi": "Φ", "nabla": "∇", "partial": "∂", "sum": "Σ",
    "bigcup": "∪", "otimes": "⊗", "circ": "∘", "dots": "…", "leftarrow": "←", "propto": "∝",
    "sim": "~", "in": "∈", "ge": "≥", "le": "≤", "cdot": "·", "lVert": "‖", "rVert": "‖",
}  # fmt: skip
"""Unicode of LaTeX macros; other macros keep their names."""
ACCENTS = {"bar": "\u0304", "hat": "\u0302", "tilde": "\u0303"}


def plain_formula(latex: str) -> str:
    r"""A LaTeX formula as Unicode text, for the terminal.

    Example:
        >>> plain_formula(r"\frac1m \sum_{e=1}^m (\mu_e - \mu)^2 + \lambda\, D(\mathcal T, x_{ij})")
        '1/m Σ_(e=1)^m (μ_e - μ)² + λ D(T, x_ij)'
    """
    text = re.sub(r"\\q?quad", "   ", " ".join(latex.split())).replace(r"\,", " ")
    text = re.sub(r"\\[bB]ig[lr]?(?![a-z])|\\left(?![a-z])|\\right(?![a-z])|\\!", "", text)
    text = re.sub(r"\\(?:mathcal|mathbb) ?", "", text)
    text = re.sub(r"\\(?:operatorname\*?|mathrm|text)\{(\w+)\}", r"\1", text)
    macros = SYMBOLS | {name: rf"\{name}" for name in ACCENTS}
    text = re.sub(r"\\([A-Za-z]+)", lambda match: macros.get(match[1], match[1]), text)
    for name, accent in ACCENTS.items():
        text = re.sub(rf"\\{name} ?(\w)", rf"\1{accent}", text)
    text = re.sub(r"frac\{([^{}]*)\}\{([^{}]*)\}", r"(\1)/\2", text)
    text = re.sub(r"t?frac(\w)(\w)", r"\1/\2", text)
    text = re.sub(r"t?frac(\w)\{([^{}]*)\}", r"\1/\2", text)
    text = re.sub(r"([_^])\{(\w+)\}", r"\1\2", text)
    text = re.sub(r"([_^])\{\(?([^{}]*?)\)?\}", r"\1(\2)", text)
    text = text.replace("^2", "²").replace("^(-1)", "⁻¹").replace(r"\{", "{").replace(r"\}", "}")
    return re.sub(r" {4,}", "   ", re.sub(r"(?<! ) {2}(?! )", " ", text)).strip()
