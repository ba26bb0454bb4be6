"""``riskmatch show``: summary of a run or a sweep in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import riskmatch
from riskmatch.cli.options import Positional
from riskmatch.cli.parser import Command, Compared
from riskmatch.cli.printer import (
    Amount,
    Cell,
    Column,
    Table,
    number,
    print_differences,
    print_facts,
    print_json,
    print_line,
    print_table,
)

BLOCKS = " ▁▂▃▄▅▆▇█"
MAX_COLUMNS = 8
"""Most columns of a table that fits 80 characters."""


@dataclass
class Show(Compared, Command):
    """Show the metric on the test domain by selection rule, and the risks of every domain.

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
    json: bool = False
    """Print JSON."""

    def execute(self) -> None:
        """Print a summary of runs."""
        path = riskmatch.find_run(self.run, self.out)
        summary = riskmatch.summarise(path, **self.arguments("run", "out"))
        if self.json:
            print_json({name: _plain(value) for name, value in summary.items()})
        else:
            _print(summary)


def _plain(value: Any) -> Any:
    """Tables as JSON values."""
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return value.to_json() if isinstance(value, Table) else value


def _print(summary: Mapping[str, Any]) -> None:
    print_line(summary["title"], "bold")
    print_facts(summary["verdict"])
    headline, comparison = summary["headline"], summary["comparison"]
    if summary["run"]:  # the title names it already
        rows = tuple(row[1:] for row in headline.rows)
        headline = replace(headline, columns=headline.columns[1:], rows=rows)
    if headline.rows:
        print_table(headline)
    if summary["run"]:
        _print_run(summary["run"], summary["metric"])
    elif 2 < len(comparison.columns) <= MAX_COLUMNS:
        print_table(comparison)
    if "run" in headline.columns and summary["differences"]:
        print_differences(summary["differences"], summary["metric"]["decimals"])
    for table in summary.get("groups", ()):
        print_table(table)
        print_line(f"note: {table.caption}")
    for note in summary["notes"]:
        print_line(f"note: {note}")


def _print_run(run: Mapping[str, Any], metric: Mapping[str, Any]) -> None:
    if run["status"] != "done":
        print_line(f"Status: {run['status']}{': ' if run['error'] else ''}{run['error'] or ''}")
    if not run["domains"]:
        return
    first, second = run["parts"].values()
    histograms = run["histograms"] or {"shares": {}, "edges": [0.0]}

    def value(name: str, split: str) -> Cell:
        value = run["domains"][name][metric["name"]].get(split)
        scaled = 100 * value if metric["percent"] and value is not None else value
        return number(scaled, metric["decimals"])

    columns = [
        Column("domain", lambda name: f"{name} (test)" if name in run["test_domains"] else name),
        Column(f"{metric['title']},\n{first}", lambda name: value(name, "train")),
        Column(f"\n{second}", lambda name: value(name, "val")),
        Column(
            f"mean risk,\n{second}", lambda name: Amount(run["domains"][name]["risk"].get("val"), 3)
        ),
        Column(
            f"risks, {second},\nfrom 0 to {histograms['edges'][-1]:.3g}",
            lambda name: blocks(histograms["shares"].get(name, [])),
            optional=True,
        ),
    ]
    print_line(f"At step {run['step']}:")
    print_table(columns, run["domains"])
    if histograms["shares"] and histograms["step"] != run["step"]:
        print_line(f"The risks are from step {histograms['step']}.")
    print_line(f"checkpoint: {run['checkpoint'] or 'none of this step'}")
    if run["worst"]:
        print_line(f"worst training domain: {worst_periods(run['worst'])}")


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
