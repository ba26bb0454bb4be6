"""``riskmatch import``: other people's sweeps into our records."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from riskmatch.cli.errors import BadInput
from riskmatch.cli.parser import parse
from riskmatch.cli.verbs import call
from riskmatch.selection import Rule

if TYPE_CHECKING:
    from riskmatch.importing.domainbed import Sweep
    from riskmatch.report.tables import Table

EXAMPLE = "riskmatch import domainbed train_output --out runs"


def run(words: Sequence[str]) -> int:
    """Read a sweep, write its records and show its tables."""
    return call("import", {"domainbed": _domainbed}, words, EXAMPLE)


@dataclass(frozen=True)
class DomainBed:
    """A sweep of DomainBed, or of a fork of it, into records of ours; then its tables.

    Reads every results.jsonl below DIR and never writes there. What cannot be read is left out and
    reported. A second call changes nothing.

    Example:
      riskmatch import domainbed train_output --out runs
    """

    dir: Positional[Path]
    """The folder of the sweep."""
    out: Path = Path("runs")
    """Where the records go, each run in a folder of its id."""
    select: Rule = "train-val"
    """The rule that chooses runs and steps for the tables."""
    quiet: bool = False
    """Print nothing but errors and what was left out."""
    json: bool = False
    """The tables and what was left out, as JSON."""


def _domainbed(words: Sequence[str]) -> int:
    """Sweeps of DomainBed and its forks."""
    options = parse(DomainBed, "import domainbed", words)
    from riskmatch.importing.domainbed import FILE, read_domainbed, write_runs

    if not options.dir.exists():
        raise BadInput(f"There is no {options.dir}. Give the folder of a sweep of DomainBed.")
    sweep = read_domainbed(options.dir)
    if not sweep.files:
        raise BadInput(f"{options.dir} holds no {FILE}. Give the folder of a sweep of DomainBed.")
    for fault in sweep.faults:
        print(f"riskmatch: {fault}", file=sys.stderr)
    if not sweep.runs:
        raise BadInput(f"None of the {FILE} in {options.dir} holds a run that can be read.")
    changed = write_runs(sweep.runs, options.out)
    if options.json:
        tables = [
            {"caption": table.caption, "rows": list(csv.DictReader(table.csv().splitlines()))}
            for table in _tables(sweep, options)
        ]
        faults = [str(fault) for fault in sweep.faults]
        print(json.dumps({"runs": len(sweep.runs), "faults": faults, "tables": tables}, indent=2))
    elif not options.quiet:
        unchanged = len(sweep.runs) - changed
        told = f", {unchanged} of them there already" if unchanged else ""
        print(f"{len(sweep.runs)} runs from {sweep.files} files are in {options.out}{told}.")
        if sweep.faults:
            print(f"{len(sweep.faults)} faults, listed above, were left out.")
        for table in _tables(sweep, options):
            print(f"\n{table.markdown()}")
    return 0


def _tables(sweep: Sweep, options: DomainBed) -> list[Table]:
    """A table per data set; the overview too where there are several."""
    from riskmatch.report.comparison import overview_table, per_domain_table
    from riskmatch.report.titles import DATA, in_order

    names = in_order({run.config.data for run in sweep.runs}, DATA)
    tables = [per_domain_table(sweep.runs, data, options.select) for data in names]
    return [*tables, overview_table(sweep.runs, options.select)] if len(names) > 1 else tables
