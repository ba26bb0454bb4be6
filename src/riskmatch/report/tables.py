"""Tables as values: columns, cells, and their text in every format."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from statistics import fmean, pstdev, stdev
from typing import TYPE_CHECKING, Any, ClassVar

from riskmatch.files import csv_text, printable
from riskmatch.report.published import Published

if TYPE_CHECKING:
    import rich.table

    from riskmatch.statistics import PairedGain, Unit

DECIMALS = 6
"""Decimals of numbers for programs; rounding to fewer starts from these."""
ERROR = "mean ± standard error over n trials (standard deviation with denominator n, over √n)"
"""What :class:`Trials` are, in captions."""
LEVEL = 0.05
"""A method is better or worse than its control where its adjusted p-value is below."""
MISSING = "—"
"""The text of an empty cell."""
MAX_UNBROKEN = 24
"""Longest text of a cell that is not broken in the terminal."""
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
    "<": r"$<$",
    "√": r"$\surd$",
    "²": r"$^2$",
    "…": r"\dots{}",
    "—": "---",
    "–": "--",
}


@dataclass(frozen=True)
class Spread:
    """Several measurements of one quantity: mean ± standard deviation.

    A spread that rounds to zero is printed as ``<0.1``, and of two values not at all.

    Example:
        >>> str(Spread((70.0, 72.0))), str(Spread((71.25,))), str(Spread(()))
        ('71.0 ± 1.4', '71.2', '—')
        >>> str(Spread((99.2, 99.2))), str(Spread((99.2, 99.2, 99.2)))
        ('99.2', '99.2 ± <0.1')
        >>> str(Spread((0.3512, 0.3634), decimals=4))
        '0.3573 ± 0.0086'
    """

    values: tuple[float, ...]
    decimals: int = 1
    sign: ClassVar[str] = ""
    """``+`` where positive means carry a sign."""

    @property
    def measure(self) -> str:
        """Name of the number after ±, in the header of a CSV column."""
        return "sd"

    @property
    def mean(self) -> float | None:
        """The mean; None without values."""
        return fmean(self.values) if self.values else None

    @property
    def sd(self) -> float | None:
        """The standard deviation of the sample (n − 1 below); None for fewer than two values."""
        return stdev(self.values) if len(self.values) > 1 else None

    @property
    def error(self) -> float | None:
        """The number after ±; None for fewer than two values."""
        return self.sd

    def __str__(self) -> str:
        if self.mean is None:
            return MISSING
        mean = fixed(self.mean, self.decimals, self.sign)
        if self.error is None:
            return mean
        smallest = 10**-self.decimals
        if self.error >= smallest / 2:
            return f"{mean} ± {fixed(self.error, self.decimals)}"
        # Two equal values are no evidence of a small spread.
        return f"{mean} ± <{fixed(smallest, self.decimals)}" if len(self.values) > 2 else mean


@dataclass(frozen=True)
class Trials(Spread):
    """Measurements in several trials, as the field prints them: mean ± standard error.

    The standard error is the standard deviation with n below, not n − 1, over √n.

    Example:
        >>> str(Trials((70.0, 72.0)))
        '71.0 ± 0.7'
    """

    @property
    def measure(self) -> str:
        """Name of the number after ±."""
        return "se"

    @property
    def error(self) -> float | None:
        """The standard error; None for fewer than two values."""
        n = len(self.values)
        return pstdev(self.values) / n**0.5 if n > 1 else None


@dataclass(frozen=True)
class Gain(Spread):
    """Paired differences: mean ± half of its 95 % t-interval, and the unit of that.

    Of *a new domain* the values are the means of domains. Of *these domains* they are those of the
    trials, domain by domain, see :func:`riskmatch.statistics.paired_gain`.

    Example:
        >>> str(Gain((1.0, 2.0, 3.0))), str(Gain((-3.0,)))
        ('+2.0 ± 2.5', '−3.0')
        >>> str(Gain.of([[1.0, 2.0], [3.0, 4.0]], "domains", p=0.02))
        '+2.5 ± 1.5'
    """

    trials: tuple[int, ...] = ()
    """Number of values of each of *these domains*; empty where each value is a domain."""
    p: float | None = None
    """Two-sided p-value, adjusted for all methods that are compared."""
    sign: ClassVar[str] = "+"

    @classmethod
    def of(
        cls,
        table: Sequence[Sequence[float]],
        unit: Unit = "domains",
        p: float | None = None,
        decimals: int = 1,
    ) -> Gain:
        """The gain of differences by domain and trial, of which NaN are missing."""
        known = [[value for value in row if not math.isnan(value)] for row in table]
        rows = list(filter(None, known))
        if unit == "new-domain":
            return cls(tuple(map(fmean, rows)), decimals, p=p)
        return cls(tuple(chain.from_iterable(rows)), decimals, tuple(map(len, rows)), p)

    @property
    def significant(self) -> bool:
        """Whether the adjusted p-value is below ``LEVEL``."""
        return self.p is not None and self.p < LEVEL

    @property
    def unit(self) -> Unit:
        """What the interval generalises over."""
        return "domains" if self.trials else "new-domain"

    @property
    def measure(self) -> str:
        """Name of the number after ±, with its unit."""
        from riskmatch.statistics import UNITS

        return f"95 % ± of {UNITS[self.unit]}"

    @cached_property
    def _paired(self) -> PairedGain:
        from riskmatch.statistics import paired_gain  # imports numpy

        values = iter(self.values)
        rows = [list(islice(values, n)) for n in self.trials or [1] * len(self.values)]
        return paired_gain(rows, self.unit)

    @property
    def mean(self) -> float | None:
        """The mean over domains; None without values."""
        return self._paired.mean if self.values else None

    @property
    def error(self) -> float | None:
        """Half of the 95 % interval; None without a degree of freedom."""
        return self._paired.half if self.values else None


@dataclass(frozen=True)
class Amount:
    """One measurement, printed with a given number of decimals, or in three significant digits.

    Example:
        >>> str(Amount(46.31, 0)), str(Amount(4.631, 1))
        ('46', '4.6')
        >>> str(Amount(-0.12345)), str(Amount(70.0)), str(Amount(math.nan))
        ('−0.123', '70.0', '—')
    """

    value: float | None
    decimals: int | None = None
    """Number of decimals; None gives three significant digits below 10, above one decimal."""

    def __str__(self) -> str:
        if self.value is None or not math.isfinite(self.value):
            return MISSING
        if self.decimals is not None:
            return fixed(self.value, self.decimals)
        small = abs(self.value) < 10
        return f"{self.value:.3g}".replace("-", "−") if small else fixed(self.value)


@dataclass(frozen=True)
class PValue(Amount):
    """A p-value, with three decimals.

    Example:
        >>> str(PValue(0.0312)), str(PValue(0.00005)), str(PValue(None))
        ('0.031', '<0.001', '—')
    """

    decimals: int | None = 3

    def __str__(self) -> str:
        tiny = self.value is not None and self.value < 0.0005
        return "<0.001" if tiny else super().__str__()


def fixed(value: float, decimals: int = 1, sign: str = "") -> str:
    """A number as all tables print it: the number of :meth:`Table.csv`, rounded to few decimals.

    Args:
        value: a finite number.
        decimals: number of decimals.
        sign: ``+`` for a sign before positive numbers.

    Example:
        >>> fixed(29.849999999999998), fixed(-0.31), fixed(2.0, sign="+"), fixed(0.35126, 3)
        ('29.9', '−0.3', '+2.0', '0.351')
    """
    return f"{_rounded(value, decimals):{sign}.{decimals}f}".replace("-", "−")


def _rounded(value: float, decimals: int | None) -> float:
    """A number for programs, with two decimals more than are shown, and at least ``DECIMALS``."""
    return round(value, max(DECIMALS, (decimals or 0) + 2))


def number(value: float | None, decimals: int = 1) -> Cell:
    """The cell of a number with some decimals; numbers alone have one."""
    return value if decimals == 1 or value is None else Amount(value, decimals)


def decimals_of(values: Iterable[float]) -> int:
    """Decimals with which the largest of some numbers has four digits.

    Example:
        >>> decimals_of([3.25, 12.5]), decimals_of([0.04]), decimals_of([45210.0]), decimals_of([])
        (2, 5, 0, 1)
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return max(0, 3 - math.floor(math.log10(largest))) if largest else 1


def capitalised(label: str) -> str:
    """A label at the start of a sentence; names such as train-val and visits.csv stay as they are.

    Example:
        >>> capitalised("gain over ERM"), capitalised("train-val")
        ('Gain over ERM', 'train-val')
    """
    return label[:1].upper() + label[1:] if label.replace(",", " ").split()[0].isalpha() else label


Cell = str | int | float | Amount | Spread | Published | None


def format_cell(cell: Any) -> str:
    """The text of a cell, in every format and in the terminal.

    Args:
        cell: text, a number, a :class:`Spread`, any JSON value; None, NaN and "" are missing.

    Example:
        >>> format_cell(71.26), format_cell(None), format_cell(Trials((70.0, 72.0)))
        ('71.3', '—', '71.0 ± 0.7')
        >>> format_cell(True), format_cell([1, 2])
        ('true', '[1, 2]')
    """
    if cell is None or cell == "" or (isinstance(cell, float) and not math.isfinite(cell)):
        return MISSING
    if isinstance(cell, float):
        return fixed(cell)
    if isinstance(cell, str | Spread | Amount | Published):
        return printable(cell)
    return json.dumps(cell, ensure_ascii=False)


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    title: str
    cell: Callable[[Any], Cell]
    """The cell of a row."""
    description: str = ""
    """What the caption says about the column, after its title."""
    optional: bool = False
    """Leave the column out if all its cells are missing."""


@dataclass(frozen=True)
class Table:
    """Rows under titled columns; the first column holds names, the others are set to the right.

    Example:
        >>> columns = [Column("method", str.upper), Column("at 0.9", {"erm": 27.9}.get)]
        >>> print(Table.of("Accuracy", columns, ["erm"]).markdown())
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

    @classmethod
    def of(cls, caption: str, columns: Iterable[Column], rows: Iterable[Any]) -> Table:
        """Build a table from its columns and what its rows are about."""
        rows = list(rows)
        cells = [(column, [column.cell(row) for row in rows]) for column in columns]
        kept = [
            (column, values)
            for column, values in cells
            if not column.optional or any(format_cell(value) != MISSING for value in values)
        ]
        notes = [f"{capitalised(c.title)}: {c.description}." for c, _ in kept if c.description]
        body = zip(*(values for _, values in kept), strict=True)
        return cls(
            " ".join(filter(None, [caption, *notes])), tuple(c.title for c, _ in kept), tuple(body)
        )

    def markdown(self) -> str:
        """The table, aligned, under its caption."""
        texts = [[format_cell(cell).replace("|", r"\|") for cell in row] for row in self.rows]
        rows = [[printable(column) for column in self.columns], *texts]
        widths = [max(3, *(len(row[k]) for row in rows)) for k in range(len(self.columns))]
        lines = [
            [cell.rjust(width) if k else cell.ljust(width) for k, (cell, width) in enumerate(pairs)]
            for pairs in (list(zip(row, widths, strict=True)) for row in rows)
        ]
        rule = ["-" * (w - 1) + ":" if k else ":" + "-" * (w - 1) for k, w in enumerate(widths)]
        shown = (f"| {' | '.join(cells)} |" for cells in (lines[0], rule, *lines[1:]))
        return "\n".join([printable(self.caption), "", *shown])

    def latex(self) -> str:
        """The table for the package booktabs."""
        return "\n".join(
            [
                r"\begin{table}",
                r"\centering",
                rf"\caption{{{_tex(self.caption)}}}",
                rf"\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}",
                r"\toprule",
                _tex_row(self.columns),
                r"\midrule",
                *map(_tex_row, self.rows),
                r"\bottomrule",
                r"\end{tabular}",
                r"\end{table}",
            ]
        )

    def terminal(self) -> rich.table.Table:
        """The table without its caption, for a terminal; the cell "" is left empty."""
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        shown = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
        texts = [["" if cell == "" else format_cell(cell) for cell in row] for row in self.rows]
        for place, title in enumerate(self.columns):
            values = [row[place] for row in texts if row[place] not in ("", MISSING)]
            right = place and all(re.match(r"[−+<]?[\d.]", value) for value in values)
            unbroken = values if right else [word for value in values for word in value.split()]
            width = min(MAX_UNBROKEN, max(map(len, unbroken), default=0))
            shown.add_column(
                Text("\n".join(map(printable, title.splitlines()))),
                justify="right" if right else "left",
                overflow="fold",
                min_width=width,
            )
        for row in texts:
            shown.add_row(*map(Text, row))
        return shown

    def _values(self) -> list[tuple[Cell, ...]]:
        """Columns for programs, each after its title: mean, error and n have one each."""
        columns = list(zip(*self.rows, strict=True)) or [()] * len(self.columns)
        values: list[tuple[Cell, ...]] = []
        for name, cells in zip(self.columns, columns, strict=True):
            measure = next((cell.measure for cell in cells if isinstance(cell, Spread)), None)
            if measure:
                header = (f"{name} mean", f"{name} {measure}", f"{name} n")
                values += zip(header, *map(_numbers, cells), strict=True)
            else:
                values.append((name, *map(_number, cells)))
        return values

    def csv(self) -> str:
        """The table for programs: mean, error and n have columns of their own, to six decimals."""
        text = io.StringIO()
        rows = zip(*self._values(), strict=True)
        csv.writer(text, lineterminator="\n").writerows(
            [csv_text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows
        )
        return text.getvalue()

    def to_json(self) -> dict[str, Any]:
        """The caption, and the rows of :meth:`csv` as mappings to numbers, text and None."""
        names, *rows = zip(*self._values(), strict=True)
        return {"caption": self.caption, "rows": [dict(zip(names, r, strict=True)) for r in rows]}


def _numbers(cell: Cell) -> tuple[Cell, Cell, Cell]:
    """Mean, error and n of a cell."""
    if isinstance(cell, Published):
        return cell.mean, cell.error, None
    if isinstance(cell, Spread):
        numbers = (Amount(value, cell.decimals) for value in (cell.mean, cell.error))
        return *map(_number, numbers), len(cell.values)  # type: ignore[return-value]
    return _number(cell), None, None


def _number(cell: Cell) -> Cell:
    value, decimals = (cell.value, cell.decimals) if isinstance(cell, Amount) else (cell, None)
    return _rounded(value, decimals) if isinstance(value, float) else value


def _tex_row(cells: Sequence[Cell]) -> str:
    return " & ".join(_tex(format_cell(cell)) for cell in cells) + r" \\"


def _tex(text: str) -> str:
    return "".join(_TEX.get(letter, letter) for letter in printable(text))
