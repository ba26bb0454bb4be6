"""Results of an examination."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from riskmatch.data.images.index import ImageIndex

if TYPE_CHECKING:
    from riskmatch.data.doctor.tables import TableSummary

Severity = Literal["fault", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("fault", "warning", "note")
"""A fault makes results wrong or loses images; a warning may; a note is information."""


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

    def contact_sheet(self, file: Path) -> None:
        """Write a PNG with one image of each class in each domain.

        Raises:
            ValueError: the data are a table, or the file is one of the images.
        """
        from riskmatch.data.doctor.contact_sheet import contact_sheet

        if not isinstance(self.index, ImageIndex):
            raise ValueError("A contact sheet is for images; leave it out for a table.")
        contact_sheet(self.index, file)

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
