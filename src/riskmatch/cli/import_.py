"""``riskmatch import``: convert sweeps of other codebases to records."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import riskmatch
from riskmatch.cli.options import Positional
from riskmatch.cli.parser import Command, Printed
from riskmatch.cli.printer import counted, print_json, printable


@dataclass
class DomainBed(Printed, Command):
    """Convert a sweep of DomainBed, or of a fork of it, to records, and print its tables.

    Reads every results.jsonl below DIR, gzipped and linked ones too, and writes nothing there.
    Files and lines that cannot be read are reported and skipped. A second call changes nothing.

    Example:
      riskmatch import domainbed train_output --out runs
    """

    dir: Positional[Path]
    """Folder of the sweep."""
    out: Path = Path("runs")
    """Folder of the records, one folder per run."""
    select: str = "train-val"
    """Rule that chooses runs and steps for the tables."""

    def execute(self) -> None:
        """Convert a sweep of DomainBed or of a fork of it."""
        rule = riskmatch.find_rule(self.select)
        sweep, changed = riskmatch.import_domainbed(
            self.dir,
            self.out,
            on_fault=lambda fault: print(f"riskmatch: {printable(fault)}", file=sys.stderr),
        )
        folders = [self.out / run.config.id for run in sweep.runs]
        tables = riskmatch.tables_of(folders, rule) if folders else []
        if self.json:
            values = {
                "runs": len(sweep.runs),
                "faults": [str(fault) for fault in sweep.faults],
                "tables": [table.to_json() for table in tables],
            }
            print_json(values)
        elif not self.quiet:
            known = len(sweep.runs) - changed
            already = f", {known} of them there already" if known else ""
            runs, files = counted(len(sweep.runs), "run"), counted(sweep.files, "file")
            print(f"Read {runs} from {files} into {printable(self.out)}{already}.")
            if sweep.faults:
                print(f"{counted(len(sweep.faults), 'fault')} listed above.")
            for table in tables:
                print(f"\n{table.markdown()}")
            more = printable(shlex.join(["riskmatch", "sweep", "table", str(self.out)]))
            print(f"\nOther rules (--select), costs (--costs) and formats (--format): {more}")


VERBS = {"domainbed": DomainBed}
EXAMPLE = "riskmatch import domainbed train_output --out runs"
