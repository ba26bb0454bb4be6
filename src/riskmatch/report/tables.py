"""A table as a value, and its Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev, stdev
from typing import ClassVar

from riskmatch.report.difference import Difference
from riskmatch.report.published import Published

MISSING = "—"
_TEX = {
    "\\": r"\textbackslash{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "λ": r"$\lambda$",
    "η": r"$\eta$",
    "α": r"$\alpha$",
    "−": r"$-$",
    "√": r"$\surd$",
    "…": r"\dots{}",
    "—": "---",
    "–": "--",
}


@dataclass(frozen=True)
class Spread:
    """Several measurements of one thing.

    Example:
        >>> str(Spread((70.0, 72.0))), str(Spread((71.25,))), str(Spread(()))
        ('71.0 ± 1.4', '71.2', '—')
    """

    values: tuple[float, ...]
    measure: ClassVar[str] = "sd"
    """What stands after ±."""

    @property
    def mean(self) -> float | None:
        """None where there is no value."""
        return fmean(self.values) if self.values else None

    @property
    def sd(self) -> float | None:
        """The standard deviation of the sample (n − 1); None where there are fewer than two."""
        return stdev(self.values) if len(self.values) > 1 else None

    @property
    def error(self) -> float | None:
        """What stands after ±; None where there are fewer than two values."""
        return self.sd

    @property
    def numbers(self) -> tuple[float | None, float | None, int]:
        """The mean, what stands after ±, and of how many."""
        return self.mean, self.error, len(self.values)

    def __str__(self) -> str:
        if self.mean is None:
            return MISSING
        return f"{self.mean:.1f}" + ("" if self.error is None else f" ± {self.error:.1f}")


@dataclass(frozen=True)
class Trials(Spread):
    """Measurements of one thing, printed as the field prints trials.

    After ± stands the standard error of the mean: the standard deviation with n below, not n − 1,
    over √n.

    Example:
        >>> str(Trials((70.0, 72.0)))
        '71.0 ± 0.7'
    """

    measure: ClassVar[str] = "se"

    @property
    def error(self) -> float | None:
        """The standard error; None where there are fewer than two values."""
        n = len(self.values)
        return pstdev(self.values) / n**0.5 if n > 1 else None


@dataclass(frozen=True)
class Amount:
    """One measurement, printed with as many decimals as it deserves.

    Example:
        >>> str(Amount(46.31, 0)), str(Amount(4.631, 1))
        ('46', '4.6')
    """

    value: float
    decimals: int

    def __str__(self) -> str:
        return f"{self.value:.{self.decimals}f}"


Cell = str | int | float | Amount | Spread | Difference | Published | None


@dataclass(frozen=True)
class Table:
    """Rows under titled columns; the first column holds names, the others are set to the right.

    Example:
        >>> print(Table("Accuracy", ("method", "at 0.9"), (("ERM", 27.9),)).markdown())
        Accuracy
        <BLANKLINE>
        | method | at 0.9 |
        | :----- | -----: |
        | ERM    |   27.9 |
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"A row has {len(row)} cells, not {len(self.columns)}: {row}")

    def markdown(self) -> str:
        """The table, aligned, under its caption."""
        rows = [self.columns, *([_text(cell).replace("|", r"\|") for cell in r] for r in self.rows)]
        widths = [max(3, *(len(row[k]) for row in rows)) for k in range(len(self.columns))]
        lines = [_aligned(row, widths) for row in rows]
        rules = [
            ":" + "-" * (w - 1) if k == 0 else "-" * (w - 1) + ":" for k, w in enumerate(widths)
        ]
        return "\n".join([self.caption, "", lines[0], _line(rules), *lines[1:]])

    def latex(self) -> str:
        """The table for the package booktabs."""
        rows = [" & ".join(_tex(_text(cell)) for cell in row) + r" \\" for row in self.rows]
        return "\n".join(
            [
                r"\begin{table}",
                r"\centering",
                rf"\caption{{{_tex(self.caption)}}}",
                rf"\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}",
                r"\toprule",
                " & ".join(map(_tex, self.columns)) + r" \\",
                r"\midrule",
                *rows,
                r"\bottomrule",
                r"\end{tabular}",
                r"\end{table}",
            ]
        )

    def csv(self) -> str:
        """The table for programs: mean, error and n are columns, and nothing is rounded away."""
        spread = [
            next((cell.measure for cell in column if isinstance(cell, Spread | Difference)), None)
            for column in (zip(*self.rows, strict=True) if self.rows else [()] * len(self.columns))
        ]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(
            title
            for name, wide in zip(self.columns, spread, strict=True)
            for title in ((f"{name} mean", f"{name} {wide}", f"{name} n") if wide else (name,))
        )
        for row in self.rows:
            writer.writerow(
                value
                for cell, wide in zip(row, spread, strict=True)
                for value in (_numbers(cell) if wide else (_number(cell),))
            )
        return text.getvalue()


def _numbers(cell: Cell) -> tuple[Cell, ...]:
    if isinstance(cell, Published):
        return (*cell, None)
    if not isinstance(cell, Spread | Difference):
        return (_number(cell), None, None)
    mean, error, n = cell.numbers
    return _number(mean), _number(error), n


def _number(cell: Cell) -> Cell:
    value = cell.value if isinstance(cell, Amount) else cell
    return round(value, 6) if isinstance(value, float) else value


def _text(cell: Cell) -> str:
    if cell is None:
        return MISSING
    return f"{cell:.1f}" if isinstance(cell, float) else str(cell)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    return _line(
        [
            cells[k].ljust(width) if k == 0 else cells[k].rjust(width)
            for k, width in enumerate(widths)
        ]
    )


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _tex(text: str) -> str:
    return "".join(_TEX.get(letter, letter) for letter in text)
