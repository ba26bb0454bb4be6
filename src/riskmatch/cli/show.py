"""``riskmatch show``: how a run or a sweep went, in the terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tyro.conf import Positional

from riskmatch.cli.errors import BadInput
from riskmatch.cli.parser import parse

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

BLOCKS = " ▁▂▃▄▅▆▇█"
COLUMNS = 8
"""Of a table that fits 80 columns, at most."""


@dataclass(frozen=True)
class Show:
    """Accuracy on the test domain by selection rule, and the risks of every domain.

    Of several runs, methods side by side.

    Examples:
      riskmatch show
      riskmatch show runs/0a1b2c3d4e5f6a7b
      riskmatch show my-sweep
    """

    run: Positional[str | None] = None
    """The folder of a run, of several or of a sweep; or the first digits of the id of a run in
    --out. Without it, the newest run there."""
    out: Path = Path("runs")
    """The folder of all runs."""
    data_dir: Path | None = None
    """A folder in which to look for data first, where predictions must be made again."""
    json: bool = False
    """As JSON."""


def run(words: Sequence[str]) -> int:
    """Print how runs went."""
    options = parse(Show, "show", words)
    from riskmatch.report.findings.glance import glance

    try:
        told = glance([_path(options.run, options.out)], options.data_dir)
    except (OSError, ValueError) as error:
        raise BadInput(str(error)) from error
    if options.json:
        print(json.dumps(told, indent=2, allow_nan=False, ensure_ascii=False))
    else:
        _print(told)
    return 0


def _path(named: str | None, out: Path) -> Path:
    from riskmatch.report.findings.runs import newest

    if named is None:
        found = newest(out)
        if found is None:
            raise BadInput(f"There is no run in {out}/. Name one, or train one: riskmatch train")
        return found
    if Path(named).exists():
        return Path(named)
    alike = sorted(path for path in out.glob(f"{named}*") if path.is_dir())
    if len(alike) == 1:
        return alike[0]
    if alike:
        raise BadInput(f"{len(alike)} runs in {out}/ begin with {named}: give more digits.")
    raise BadInput(f"There is no folder {named}, and no run of that id in {out}/.")


def _print(told: Mapping[str, Any]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.print(told["title"], style="bold", markup=False, soft_wrap=True)
    if told["run"]:
        _print_run(console, told["headline"], told["run"])
    else:
        console.print(_table(told["headline"]["columns"], told["headline"]["rows"]))
        _print_comparison(console, told["comparison"], "run" in told["headline"]["columns"])
    for note in told["notes"]:
        console.print(f"note: {note}", markup=False, soft_wrap=True)


def _print_run(console: Console, headline: Mapping[str, Any], run: Mapping[str, Any]) -> None:
    # The run is in the title already.
    console.print(_table(headline["columns"][1:], [row[1:] for row in headline["rows"]]))
    if run["status"] != "done":
        why = f": {run['error']}" if run["error"] else ""
        console.print(f"The run is {run['status']}{why}", markup=False, soft_wrap=True)
    if not run["domains"]:
        return
    tests = {row[1] for row in headline["rows"]}
    columns = ["domain", "accuracy,\ntrain", "\nval", "mean risk,\nval"]
    shapes = run["histograms"] or {"shares": {}}
    if shapes["shares"]:
        columns.append(f"risks, val,\nfrom 0 to {shapes['edges'][-1]:.3g}")
    rows = []
    for name, scores in run["domains"].items():
        accuracy, risk = scores["accuracy"], scores["risk"]
        row = [
            f"{name} (test)" if name in tests else name,
            *(None if accuracy.get(s) is None else 100 * accuracy[s] for s in ("train", "val")),
            None if risk.get("val") is None else f"{risk['val']:.3f}",
        ]
        if shapes["shares"]:
            row.append(blocks(shapes["shares"].get(name, [])))
        rows.append(row)
    console.print(f"At step {run['step']}:")
    console.print(_table(columns, rows, left=("domain", columns[-1] if len(columns) > 4 else "")))
    if shapes["shares"] and shapes["step"] != run["step"]:
        console.print(f"The risks are those of step {shapes['step']}.")
    if run["worst"]:
        line = spells(run["worst"])
        console.print(f"worst training domain: {line}", markup=False, soft_wrap=True)


def _print_comparison(console: Console, comparison: Mapping[str, Any], by_run: bool) -> None:
    """Methods by test domain; the differences from ERM too, unless the headline has them."""
    if 2 < len(comparison["columns"]) <= COLUMNS:
        console.print(_table(comparison["columns"], comparison["rows"]))
    for one in comparison["differences"] if by_run else ():
        told = f"{one['mean']:+.1f}".replace("-", "−")
        if one["low"] is not None:
            told += f", 95 % interval {one['low']:.1f} to {one['high']:.1f}".replace("-", "−")
        pairs = f"{one['pairs']} pair{'s' * (one['pairs'] != 1)}"
        line = f"{one['method']} against {one['against']}: {told} ({pairs})"
        console.print(line, markup=False, soft_wrap=True)


def _table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], left: Sequence[str] = ()
) -> Table:
    """A table of text and numbers; all but the first column, or those of ``left``, to the right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(columns):
        plain = column in left if left else place == 0
        table.add_column(Text(column), justify="left" if plain else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    return table


def _cell(value: Any) -> str:
    if value is None:
        return "—"
    return f"{value:.1f}".replace("-", "−") if isinstance(value, float) else str(value)


def blocks(shares: Sequence[float]) -> str:
    """A histogram in one line, whose tallest bin is a full block.

    Example:
        >>> blocks([0.0, 0.01, 0.4, 0.8])
        ' ▁▄█'
    """
    steps, tallest = len(BLOCKS) - 1, max(shares, default=0)
    heights = (max(1, round(steps * share / tallest)) if share else 0 for share in shares)
    return "".join(BLOCKS[height] for height in heights)


def spells(worst: Sequence[Mapping[str, Any]], most: int = 6) -> str:
    """Which domain was worst over time, in a line; in the middle some may be left out.

    Example:
        >>> spells([{"domain": "a", "from": 10, "to": 30}, {"domain": "b", "from": 40, "to": 40}])
        'a (steps 10–30), then b (step 40)'
    """
    told = [
        f"{one['domain']} (step {one['from']})"
        if one["from"] == one["to"]
        else f"{one['domain']} (steps {one['from']}–{one['to']})"
        for one in worst
    ]
    if len(told) > most:
        half = most // 2
        told = [*told[:half], f"{len(told) - 2 * half} changes more", *told[-half:]]
    return ", then ".join(told)
