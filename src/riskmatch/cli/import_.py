"""``riskmatch import``: convert sweeps of other codebases to records."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import riskmatch
from riskmatch.cli.app import call_verb
from riskmatch.cli.errors import bad_input
from riskmatch.cli.options import Positional
from riskmatch.cli.parser import parse
from riskmatch.cli.printer import print_json, printable

EXAMPLE = "riskmatch import domainbed train_output --out runs"


def run(words: Sequence[str]) -> int:
    """Convert a sweep and print its tables."""
    return call_verb("import", {"domainbed": _domainbed}, words, EXAMPLE)


@dataclass(frozen=True)
class DomainBed:
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
    quiet: bool = False
    """Print nothing but errors and what was skipped."""
    json: bool = False
    """Print the tables and what was skipped as JSON."""


def _domainbed(words: Sequence[str]) -> int:
    """Convert a sweep of DomainBed or of a fork of it."""
    options = parse(DomainBed, "import domainbed", words)
    with bad_input():
        rule = riskmatch.find_rule(options.select)
        sweep, changed = riskmatch.import_domainbed(
            options.dir,
            options.out,
            on_fault=lambda fault: print(f"riskmatch: {printable(fault)}", file=sys.stderr),
        )
        folders = [options.out / run.config.id for run in sweep.runs]
        tables = riskmatch.tables_of(folders, rule) if folders else []
    if options.json:
        values = {
            "runs": len(sweep.runs),
            "faults": [str(fault) for fault in sweep.faults],
            "tables": [table.to_json() for table in tables],
        }
        print_json(values)
    elif not options.quiet:
        known = len(sweep.runs) - changed
        already = f", {known} of them there already" if known else ""
        runs, files = _count(len(sweep.runs), "run"), _count(sweep.files, "file")
        print(f"Read {runs} from {files} into {printable(options.out)}{already}.")
        if sweep.faults:
            print(f"{_count(len(sweep.faults), 'fault')} listed above.")
        for table in tables:
            print(f"\n{table.markdown()}")
        more = printable(shlex.join(["riskmatch", "sweep", "table", str(options.out)]))
        print(f"\nOther rules (--select), costs (--costs) and formats (--format): {more}")
    return 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
