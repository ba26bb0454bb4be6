"""Results of an examination, and their display."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from riskmatch.data.images.index import ImageIndex
from riskmatch.files import printable

if TYPE_CHECKING:
    from riskmatch.data.doctor.tables import TableSummary

Severity = Literal["fault", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("fault", "warning", "note")
"""A fault makes results wrong or loses images; a warning may; a note is information."""
_STYLES: dict[Severity, str] = {"fault": "bold red", "warning": "yellow", "note": "cyan"}


@dataclass(frozen=True)
class Finding:
    """One observation about a data set, with its cure."""

    kind: str
    """Identifier such as "truncated"."""
    severity: Severity
    message: str
    """Predicate of a sentence whose subject is the path, the column or the domain."""
    cure: str
    path: str | None = None
    """File or folder relative to the root; None where the finding concerns more than one."""
    domain: str | None = None
    other: str | None = None
    """File that it is compared with."""
    column: str | None = None
    """Column of a table."""

    @property
    def subject(self) -> str:
        """The path, the column, the domain, or "the data set"."""
        return self.path or self.column or self.domain or "the data set"


@dataclass(frozen=True)
class Examination:
    """The result of examining a data set."""

    index: ImageIndex | TableSummary
    """Images in their proper place, intact or not; or the rows of a table."""
    benchmark: str | None
    """Title of the published data set that this is a copy of."""
    published: Mapping[str, int]
    """Published number of images, by the names of the domains here; empty without a benchmark."""
    findings: tuple[Finding, ...]
    """Sorted by severity, kind and subject; drift of columns by its size."""

    @property
    def samples(self) -> str:
        """What the samples are: ``images`` or ``rows``."""
        return "images" if isinstance(self.index, ImageIndex) else "rows"

    def tally(self) -> dict[Severity, int]:
        """Number of findings by severity."""
        counts = Counter(finding.severity for finding in self.findings)
        return {severity: counts[severity] for severity in SEVERITIES}

    @property
    def exit_code(self) -> int:
        """1 if there is a fault, else 0."""
        return 1 if self.tally()["fault"] else 0

    def to_json(self) -> str:
        """The examination as JSON."""
        content = {
            "name": self.index.name,
            "root": str(self.index.root),
            self.samples: len(self.index),
            "benchmark": self.benchmark,
            "counts": self.index.counts(),
            "published": dict(self.published),
            "tally": self.tally(),
            "findings": [asdict(finding) for finding in self.findings],
        }
        return json.dumps(content, indent=2)


def print_examination(examination: Examination, console: Console) -> None:
    """Print the counts by domain, then every finding with its subject and its cure."""
    index = examination.index
    copy = f", a copy of {examination.benchmark}" if examination.benchmark else ""
    root = printable(str(index.root))
    console.print(Text(f"{root}: {len(index):,} {examination.samples}{copy}"), soft_wrap=True)
    console.print(_counts(examination))
    for line in (*_finding_lines(examination), _summary(examination)):
        console.print(line, soft_wrap=True)  # paths are not broken


def _counts(examination: Examination) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("domain", overflow="fold")
    published = ("published",) if examination.published else ()
    regression = all(list(classes) == [""] for classes in examination.index.counts().values())
    classes_of = () if regression else ("classes", "smallest class", "largest class")
    for column in (examination.samples, *published, *classes_of):
        table.add_column(column, justify="right", overflow="fold")
    for domain, classes in examination.index.counts().items():
        images, expected = sum(classes.values()), examination.published.get(domain)
        present = {name: count for name, count in classes.items() if count}
        extremes = [pick(present.items(), key=lambda item: item[1]) for pick in (min, max)]
        balance = [
            Text(f"{len(present)} of {len(classes)}"),
            *(Text(f"{printable(name)} {count:,}") for name, count in extremes),
        ]
        table.add_row(
            Text(printable(domain)),
            Text(f"{images:,}", style="red" if expected not in (None, images) else ""),
            *(Text("" if expected is None else f"{expected:,}") for _ in published),
            *([] if regression else balance),
        )
    return table


def _finding_lines(examination: Examination) -> Iterator[Text]:
    for (severity, kind), group in groupby(
        examination.findings, lambda finding: (finding.severity, finding.kind)
    ):
        findings = list(group)
        heading = Text(f"\n{kind}", style=_STYLES[severity])
        yield heading.append(f"  {_number(len(findings), severity)}", style="dim")
        cures = {finding.cure for finding in findings}
        for finding in findings:
            line = Text("  ").append(printable(finding.subject), style="bold")
            line.append(f" {printable(finding.message)}")
            if len(cures) > 1:
                line.append(f"\n    → {printable(finding.cure)}", style="green")
            yield line
        if len(cures) == 1:
            yield Text(f"  → {printable(cures.pop())}", style="green")


def _summary(examination: Examination) -> Text:
    tally = examination.tally()
    if not any(tally.values()):
        return Text("\nNo faults, warnings or notes.", style="green")
    parts = [_number(count, severity) for severity, count in tally.items() if count]
    verdict = "" if tally["fault"] else "; no fault"
    return Text(f"\n{', '.join(parts)}{verdict}.", style="red" if tally["fault"] else "green")


def _number(count: int, severity: Severity) -> str:
    return f"{count:,} {severity}{'' if count == 1 else 's'}"
