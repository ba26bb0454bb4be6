"""``riskmatch import``: other people's sweeps into our records."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from riskmatch.cli.errors import BadInput
from riskmatch.cli.parser import call_verb, parse

EXAMPLE = "riskmatch import domainbed train_output --out runs"


def run(words: Sequence[str]) -> int:
    """Read a sweep, write its records and show its tables."""
    return call_verb("import", {"domainbed": _domainbed}, words, EXAMPLE)


@dataclass(frozen=True)
class DomainBed:
    """A sweep of DomainBed, or of a fork of it, into records of ours; then its tables.

    Reads every results.jsonl below DIR, gzipped or behind links too, and never writes there. What
    cannot be read is left out and reported. A second call changes nothing.

    Example:
      riskmatch import domainbed train_output --out runs
    """

    dir: Positional[Path]
    """The folder of the sweep."""
    out: Path = Path("runs")
    """Where the records go, each run in a folder of its id."""
    select: str = "train-val"
    """The rule that chooses runs and steps for the tables."""
    quiet: bool = False
    """Print nothing but errors and what was left out."""
    json: bool = False
    """The tables and what was left out, as JSON."""


def _domainbed(words: Sequence[str]) -> int:
    """Sweeps of DomainBed and its forks."""
    options = parse(DomainBed, "import domainbed", words)
    from riskmatch.report.comparison import tables_of_frame
    from riskmatch.runs.domainbed import FILE, read_domainbed, write_runs
    from riskmatch.runs.frame import frame_of
    from riskmatch.selection import find_rule

    try:
        rule = find_rule(options.select)
    except ValueError as error:
        raise BadInput(str(error)) from error
    if not options.dir.exists():
        raise BadInput(f"There is no {options.dir}. Give the folder of a sweep of DomainBed.")
    sweep = read_domainbed(options.dir)
    for fault in sweep.faults:
        print(f"riskmatch: {fault}", file=sys.stderr)
    if not sweep.files:
        raise BadInput(f"{options.dir} holds no {FILE}. Give the folder of a sweep of DomainBed.")
    if not sweep.runs:
        raise BadInput(f"None of the {FILE} in {options.dir} holds a run that can be read.")
    changed = write_runs(sweep.runs, options.out)
    tables = tables_of_frame(frame_of(sweep.runs), rule)
    if options.json:
        faults = [str(fault) for fault in sweep.faults]
        told = {
            "runs": len(sweep.runs),
            "faults": faults,
            "tables": [table.to_json() for table in tables],
        }
        print(json.dumps(told, indent=2))
    elif not options.quiet:
        unchanged = len(sweep.runs) - changed
        there = f", {unchanged} of them there already" if unchanged else ""
        runs, files = _counted(len(sweep.runs), "run"), _counted(sweep.files, "file")
        print(f"Read {runs} from {files} into {options.out}{there}.")
        if sweep.faults:
            print(f"{_counted(len(sweep.faults), 'fault')} listed above.")
        for table in tables:
            print(f"\n{table.markdown()}")
        more = shlex.join(["riskmatch", "sweep", "table", str(options.out)])
        print(f"\nOther rules (--select), costs (--costs) and formats (--format): {more}")
    return 0


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
