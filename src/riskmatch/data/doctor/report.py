"""An examination, for a person to read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from riskmatch.data.doctor.examination import Examination, Finding, Severity

_STYLES: dict[Severity, str] = {"fault": "bold red", "warning": "yellow", "note": "cyan"}


def report(examination: Examination, console: Console) -> None:
    """Print the domains and their counts, then every finding with its place and its cure."""
    index = examination.index
    copy = f", a copy of {examination.benchmark}" if examination.benchmark else ""
    root = _visible(str(index.root))
    console.print(Text(f"{root}: {len(index):,} images{copy}"), soft_wrap=True)
    console.print(_counts(examination))
    for line in (*_findings(examination), _sum(examination)):
        console.print(line, soft_wrap=True)  # a path stays in one piece


def _counts(examination: Examination) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("domain", overflow="fold")
    for column in ("images", "published", "classes", "fewest", "most"):
        table.add_column(column, justify="right", overflow="fold")
    for domain, classes in examination.index.counts().items():
        images, published = sum(classes.values()), examination.published.get(domain)
        present = {name: count for name, count in classes.items() if count}
        extremes = [pick(present.items(), key=lambda item: item[1]) for pick in (min, max)]
        table.add_row(
            Text(_visible(domain)),
            Text(f"{images:,}", style="red" if published not in (None, images) else ""),
            Text("" if published is None else f"{published:,}"),
            Text(f"{len(present)} of {len(classes)}"),
            *(Text(f"{_visible(name)} {count:,}") for name, count in extremes),
        )
    return table


def _findings(examination: Examination) -> Iterator[Text]:
    for (severity, kind), group in groupby(
        examination.findings, lambda finding: (finding.severity, finding.kind)
    ):
        findings = list(group)
        heading = Text(f"\n{kind}", style=_STYLES[severity])
        yield heading.append(f"  {_number(len(findings), severity)}", style="dim")
        cures = {finding.cure for finding in findings}
        for finding in findings:
            yield _line(finding, None if len(cures) == 1 else finding.cure)
        if len(cures) == 1:
            yield Text(f"  → {_visible(cures.pop())}", style="green")


def _line(finding: Finding, cure: str | None) -> Text:
    line = Text("  ").append(_visible(finding.place), style="bold")
    line.append(f" {_visible(finding.message)}")
    return line.append(f"\n    → {_visible(cure)}", style="green") if cure else line


def _sum(examination: Examination) -> Text:
    tally = examination.tally()
    if not any(tally.values()):
        return Text("\nNothing is wrong.", style="green")
    parts = [_number(count, severity) for severity, count in tally.items() if count]
    verdict = "" if tally["fault"] else "; no fault"
    return Text(f"\n{', '.join(parts)}{verdict}.", style="red" if tally["fault"] else "green")


def _number(count: int, severity: Severity) -> str:
    return f"{count:,} {severity}{'' if count == 1 else 's'}"


def _visible(text: str) -> str:
    """Names of files may hold what moves the cursor of a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
