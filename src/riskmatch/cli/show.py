"""``riskmatch show``: summary of a run or a sweep in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from riskmatch.cli.errors import bad_input
from riskmatch.cli.options import Positional
from riskmatch.cli.parser import parse
from riskmatch.cli.printer import print_json, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

BLOCKS = " ▁▂▃▄▅▆▇█"
MAX_COLUMNS = 8
"""Most columns of a table that fits 80 characters."""


@dataclass(frozen=True)
class Show:
    """Show the accuracy on the test domain by selection rule, and the risks of every domain.

    Several runs are compared by method.

    Examples:
      riskmatch show
      riskmatch show runs/0a1b2c3d4e5f6a7b
      riskmatch show my-sweep
    """

    run: Positional[str | None] = None
    """Folder of a run, of several runs or of a sweep, or the first digits of the id of a run in
    --out. By default the newest run there."""
    out: Path = Path("runs")
    """Folder of all runs."""
    data_dir: Path | None = None
    """Folder in which to look for data first, where predictions must be computed."""
    json: bool = False
    """Print JSON."""


def run(words: Sequence[str]) -> int:
    """Print a summary of runs."""
    options = parse(Show, "show", words)
    from riskmatch.report import find_run, summarise

    with bad_input():
        path = find_run(options.run, options.out)
        summary = summarise(path, data_dir=options.data_dir)
    if options.json:
        print_json(summary)
    else:
        _print(summary)
    return 0


def _print(summary: Mapping[str, Any]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.print(printable(summary["title"]), style="bold", markup=False, soft_wrap=True)
    if summary["verdict"]:
        console.print(printable(summary["verdict"]["text"]), markup=False, soft_wrap=True)
    if summary["run"]:
        _print_run(console, summary["headline"], summary["run"])
    else:
        console.print(_table(summary["headline"]["columns"], summary["headline"]["rows"]))
        _print_comparison(console, summary["comparison"], "run" in summary["headline"]["columns"])
    for note in summary["notes"]:
        console.print(f"note: {printable(note)}", markup=False, soft_wrap=True)


def _print_run(console: Console, headline: Mapping[str, Any], run: Mapping[str, Any]) -> None:
    if headline["rows"]:  # the title names the run already
        console.print(_table(headline["columns"][1:], [row[1:] for row in headline["rows"]]))
    if run["status"] != "done":
        cause = f": {printable(run['error'])}" if run["error"] else ""
        console.print(f"Status: {run['status']}{cause}", markup=False, soft_wrap=True)
    if not run["domains"]:
        return
    tests = {row[1] for row in headline["rows"]}
    first, second = run["parts"].values()
    columns = ["domain", f"accuracy,\n{first}", f"\n{second}", f"mean risk,\n{second}"]
    histograms = run["histograms"] or {"shares": {}}
    if histograms["shares"]:
        columns.append(f"risks, {second},\nfrom 0 to {histograms['edges'][-1]:.3g}")
    rows = []
    for name, scores in run["domains"].items():
        accuracy, risk = scores["accuracy"], scores["risk"]
        row = [
            f"{name} (test)" if name in tests else name,
            *(None if accuracy.get(s) is None else 100 * accuracy[s] for s in ("train", "val")),
            None if risk.get("val") is None else f"{risk['val']:.3f}",
        ]
        if histograms["shares"]:
            row.append(blocks(histograms["shares"].get(name, [])))
        rows.append(row)
    console.print(f"At step {run['step']}:")
    console.print(_table(columns, rows, left=("domain", columns[-1] if len(columns) > 4 else "")))
    if histograms["shares"] and histograms["step"] != run["step"]:
        console.print(f"The risks are from step {histograms['step']}.")
    checkpoint = printable(run["checkpoint"] or "none of this step")
    console.print(f"checkpoint: {checkpoint}", markup=False, soft_wrap=True)
    if run["worst"]:
        line = printable(worst_periods(run["worst"]))
        console.print(f"worst training domain: {line}", markup=False, soft_wrap=True)


def _print_comparison(console: Console, comparison: Mapping[str, Any], by_run: bool) -> None:
    """Print accuracy by method and test domain, and differences from ERM where ``by_run``."""
    from riskmatch.report.tables import one_decimal

    if 2 < len(comparison["columns"]) <= MAX_COLUMNS:
        columns = [printable(name) for name in comparison["columns"]]
        console.print(_table(columns, comparison["rows"]))
    for row in comparison["differences"] if by_run else ():
        mean = one_decimal(row["mean"], "+")
        if row["low"] is not None:
            mean += f", 95 % interval {one_decimal(row['low'])} to {one_decimal(row['high'])}"
        pairs = f"{row['pairs']} pair{'s' * (row['pairs'] != 1)}"
        line = f"gain of {row['method']} over {row['against']}: {mean} ({pairs})"
        console.print(printable(line), markup=False, soft_wrap=True)


def _table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], left: Sequence[str] = ()
) -> Table:
    """Table of text and numbers, right-aligned except the first column, or those in ``left``."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from riskmatch.report.tables import format_cell

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(columns):
        text = column in left if left else place == 0
        table.add_column(Text(column), justify="left" if text else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(format_cell(value)) for value in row))
    return table


def blocks(shares: Sequence[float]) -> str:
    """Histogram in one line; the highest bin is a full block.

    Example:
        >>> blocks([0.0, 0.01, 0.4, 0.8])
        ' ▁▄█'
    """
    levels, highest = len(BLOCKS) - 1, max(shares, default=0)
    heights = (max(1, round(levels * share / highest)) if share else 0 for share in shares)
    return "".join(BLOCKS[height] for height in heights)


def worst_periods(periods: Sequence[Mapping[str, Any]], limit: int = 6) -> str:
    """Worst training domain over the steps in one line, shortened in the middle.

    Example:
        >>> first = {"domain": "a", "from": 10, "to": 30}
        >>> worst_periods([first, {"domain": "b", "from": 40, "to": 40}])
        'a (steps 10–30), then b (step 40)'
    """
    parts = [
        f"{period['domain']} (step {period['from']})"
        if period["from"] == period["to"]
        else f"{period['domain']} (steps {period['from']}–{period['to']})"
        for period in periods
    ]
    if len(parts) > limit:
        half = limit // 2
        parts = [*parts[:half], f"{len(parts) - 2 * half} more changes", *parts[-half:]]
    return ", then ".join(parts)
