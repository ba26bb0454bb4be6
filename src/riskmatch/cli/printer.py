"""Print tables and lines of text on the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from riskmatch.files import printable as printable
from riskmatch.files import to_json
from riskmatch.report.tables import Amount as Amount
from riskmatch.report.tables import Cell as Cell
from riskmatch.report.tables import Column as Column
from riskmatch.report.tables import Table as Table
from riskmatch.report.tables import number as number
from riskmatch.report.titles import model_title as model_title
from riskmatch.validation import format_value as format_value


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


def print_text(text: object, indent: int = 0) -> None:
    """Print text, wrapped to the width of the terminal."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    Console(highlight=False).print(Padding(Text(str(text)), (0, 0, 0, indent)))


def _print(value: Any) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable

    Console(highlight=False).print(value, soft_wrap=not isinstance(value, RichTable))


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    Example:
        >>> counted(1, "run"), counted(1200, "fault")
        ('1 run', '1,200 faults')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def print_facts(facts: Any) -> None:
    """Print the verdict of a summary, without its rule."""
    from riskmatch.report.facts import lines

    for line in lines(facts)[:-1]:
        print_line(line)


def print_differences(differences: Any, decimals: int) -> None:
    """Print the differences between the methods of a summary."""
    from riskmatch.report.headline import differences_table

    print_table(differences_table(differences, decimals))


def plain_text(docstring: str) -> str:
    """A docstring without reStructuredText: references as words, formulas as Unicode."""
    from riskmatch.defaults.describe import without_markup

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
    "tau": "τ", "delta": "δ", "ell": "ℓ", "ne": "≠", "langle": "⟨", "rangle": "⟩",
    "lvert": "|", "rvert": "|", "odot": "⊙", "vee": "∨",
}  # fmt: skip
"""Unicode of LaTeX macros; other macros keep their names."""
ACCENTS = {"bar": "\u0304", "hat": "\u0302", "tilde": "\u0303"}


def plain_formula(latex: str) -> str:
    r"""A LaTeX formula as Unicode text, for the terminal.

    Example:
        >>> plain_formula(r"\frac1m \sum_{e=1}^m (\mu_e - \mu)^2 + \lambda\, D(\mathcal T, x_{ij})")
        '1/m Σ_(e=1)^m (μ_e - μ)² + λ D(T, x_ij)'
    """
    text = re.sub(r"\\q?quad", "   ", " ".join(latex.split()))
    text = re.sub(r"\\[,;]", " ", text)
    text = re.sub(r"\\[bB]ig[lr]?(?![a-z])|\\left(?![a-z])|\\right(?![a-z])|\\!", "", text)
    text = re.sub(r"\\(?:mathcal|mathbb) ?", "", text)
    text = re.sub(r"\\(?:operatorname\*?|mathrm|text)\{([\w:]+)\}", r"\1", text)
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
