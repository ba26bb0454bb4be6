"""``riskmatch data``: list data sets, fetch the files of one, examine one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import riskmatch
from riskmatch.cli.errors import RunFailed, prepare_output
from riskmatch.cli.options import Positional
from riskmatch.cli.parser import Command, Printed, Quiet, TableColumns
from riskmatch.cli.printer import Column, counted, print_json, print_line, print_table, printable
from riskmatch.cli.progress import Display

if TYPE_CHECKING:
    from riskmatch.data.doctor import Examination


@dataclass
class List(TableColumns, Command):
    """List the data sets: domains, classes, size, licence, whether each is on this machine.

    Data sets that installed packages announce are listed with their package. With DATA, list that
    one alone; of a table also the columns, with their types and missing values.

    Example:
      riskmatch data list visits.csv --label late --domain airport
    """

    data: Positional[str | None] = None
    """Name or path of one data set."""
    data_dir: Path | None = None
    """Folder searched first for data sets, before $RISKMATCH_DATA and the cache folder."""
    json: bool = False
    """Print JSON."""

    def execute(self) -> None:
        """List the data sets, and whether each is on this machine."""
        rows = riskmatch.describe_data(self.data, self.data_options, self.data_dir)
        if self.json:
            print_json(rows)
            return
        print_table(_COLUMNS, rows)
        for row in rows:
            if columns := row.get("columns"):
                print_table(_TABLE_COLUMNS, columns)
            if labels := row.get("labels"):
                print_table(_LABEL_COLUMNS, labels.items())
        if cures := _cures(rows):
            print("\nTo make the others available:", *cures, sep="\n  ")


@dataclass
class Get(Quiet, Command):
    """Download the files of a data set and verify them.

    An interrupted download continues where it stopped.

    Example:
      riskmatch data get pacs
    """

    name: Positional[str]
    """Name of a data set, such as pacs."""
    data_dir: Path | None = None
    """Folder of data sets; by default the cache folder."""
    mirrors: tuple[str, ...] = ()
    """URL of a folder with the files."""

    def execute(self) -> None:
        """Download the files of a data set and verify them."""
        try:
            with Display(self.quiet, "bytes") as display:
                folder = riskmatch.download_data(**self.arguments(), on_progress=display.progress)
        except KeyboardInterrupt as error:
            raise RunFailed(
                f"Interrupted. To continue the download: riskmatch data get {self.name}"
            ) from error
        if not self.quiet:
            print(f"{self.name} is in {printable(folder)}, verified")


@dataclass
class Doctor(Printed, TableColumns, Command):
    """Examine every image of a data set and list faults, each with its path and its cure.

    Counts are compared with the published ones. Of a table: columns that determine the label or
    name the domain, domains of one class, duplicates across domains, drift of columns. Columns and
    file names that look like groups are named, with what a random split would leak. The exit code
    is 1 if there is a fault.

    Examples:
      riskmatch data doctor pacs --sheet pacs.png
      riskmatch data doctor visits.csv --label late --domain airport
    """

    data: Positional[str]
    """Name of a benchmark, or path of a folder domain/class/image, of a manifest (a CSV, JSON or
    Parquet file with columns path, label and domain) or of a table."""
    sheet: Path | None = None
    """PNG file to write, with one image of each class in each domain."""
    data_dir: Path | None = None
    """Folder searched first for a benchmark."""

    def execute(self) -> int:
        """Examine the images of a data set: each fault with its path and its cure."""
        sheet = self.sheet
        if sheet is not None:
            lower = sheet.parent / (sheet.stem + sheet.suffix.lower())
            prepare_output(lower, "--sheet", (".png",))
        with Display(self.quiet) as display:
            examination = riskmatch.examine_data(
                self.data, self.data_dir, options=self.data_options, on_progress=display.progress
            )
        if self.json:
            print(examination.to_json())
        elif not self.quiet:
            print_examination(examination)
        if sheet is not None:
            examination.contact_sheet(sheet)
            if not (self.json or self.quiet):
                print(f"The contact sheet is {printable(sheet)}")
        return examination.exit_code


VERBS = {"list": List, "get": Get, "doctor": Doctor}
EXAMPLE = "riskmatch data get mnist"

_COLUMNS = [
    Column("data set", lambda row: row["name"]),
    Column("here", lambda row: "yes" if row["here"] else "no"),
    Column("classes", lambda row: row["classes"] or ""),
    Column("samples", lambda row: f"{row['samples']:,}" if row["samples"] else ""),
    Column("domains", lambda row: ", ".join(row["domains"])),
    Column("licence", lambda row: row["licence"]),
    Column(
        "package",
        lambda row: row["package"] if row["package"] != "riskmatch" else "",
        optional=True,
    ),
]
_LABEL_COLUMNS = [
    Column("domain", itemgetter(0)),
    Column("labels", lambda row: _label_text(row[1])),
]
_TABLE_COLUMNS = [
    Column("column", lambda row: row["name"]),
    Column("type", lambda row: row["type"]),
    Column("missing", lambda row: f"{row['missing']:,}" if row["missing"] else ""),
    Column("values", lambda row: row["values"]),
]


def _label_text(values: Mapping[str, float]) -> str:
    """Mean and spread of the labels of a domain, or its rarest and its most frequent tag."""
    if not values:
        return ""
    if values.keys() == {"mean", "spread"}:
        return f"mean {values['mean']:.4g}, spread {values['spread']:.4g}"
    shares = sorted((share, tag) for tag, share in values.items() if not math.isnan(share))
    return "tags from " + " to ".join(
        f"{tag} {share:.1%}" for share, tag in shares[:: max(1, len(shares) - 1)]
    )


def _cures(rows: Sequence[dict[str, Any]]) -> list[str]:
    """One line per command that makes data sets available."""
    cures = dict[str, list[str]]()
    for row in rows:
        if cure := row["cure"]:
            names_data = cure.endswith(f" get {row['name']}")
            key = cure.replace(row["name"], "NAME") if names_data else cure
            cures.setdefault(key, []).append(row["name"])
    width = max(map(len, cures), default=0)
    return [f"{cure:<{width}}   {', '.join(names)}" for cure, names in cures.items()]


def print_examination(examination: Examination) -> None:
    """Print the counts by domain, then every finding with its subject and its cure."""
    published, counts = examination.published, examination.counts
    copy = f", a copy of {examination.benchmark}" if examination.benchmark else ""
    print_line(f"{examination.root}: {len(examination):,} {examination.samples}{copy}")
    labels = examination.labels
    present = {
        domain: [(n, name) for name, n in classes.items() if n and name and not labels]
        for domain, classes in counts.items()
    }

    def extreme(domain: str, pick: Callable[..., tuple[int, str]]) -> str | None:
        if not present[domain]:
            return None
        n, name = pick(present[domain], key=itemgetter(0))
        return f"{name} {n:,}"

    columns = [
        Column("domain", str),
        Column(examination.samples, lambda domain: f"{examination.sizes[domain]:,}"),
        Column(
            "published",
            lambda domain: f"{published[domain]:,}" if domain in published else None,
            optional=True,
        ),
        Column(
            "classes",
            lambda domain: (
                f"{len(present[domain])} of {len(counts[domain])}" if present[domain] else None
            ),
            optional=True,
        ),
        Column("smallest class", lambda domain: extreme(domain, min), optional=True),
        Column("largest class", lambda domain: extreme(domain, max), optional=True),
        Column("labels", lambda domain: _label_text(labels.get(domain, {})), optional=True),
    ]
    print_table(columns, counts)
    styles = {"fault": "bold red", "warning": "yellow", "note": "cyan"}
    for (severity, type_), group in groupby(
        examination.findings, lambda finding: (finding.severity, finding.kind)
    ):
        findings = list(group)
        print_line(f"{type_}  {counted(len(findings), severity)}", styles[severity])
        for place, finding in enumerate(findings, 1):
            print_line(f"  {finding.subject} {finding.message}")
            if place == len(findings) or findings[place].cure != finding.cure:
                print_line(f"  → {finding.cure}", "green")
    tally = examination.tally()
    parts = [counted(count, severity) for severity, count in tally.items() if count]
    verdict = "" if tally["fault"] else "; no fault"
    line = f"{', '.join(parts)}{verdict}." if parts else "No faults, warnings or notes."
    print_line(line, "red" if tally["fault"] else "green")
