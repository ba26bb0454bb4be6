"""What an examination found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from riskmatch.data.images.index import ImageIndex

Severity = Literal["fault", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("fault", "warning", "note")
"""A fault makes results wrong or loses images; a warning may; a note is good to know."""


@dataclass(frozen=True)
class Finding:
    """One thing that was found, and what to do about it."""

    kind: str
    """Such as "truncated"."""
    severity: Severity
    message: str
    """What is so, in words that follow the path or the domain."""
    cure: str
    path: str | None = None
    """Of the file or folder it is about, relative to the root; None where it is about more."""
    other: str | None = None
    """Of the file it is compared with."""
    domain: str | None = None

    @property
    def place(self) -> str:
        """The path, the domain, or that it is about all of the data."""
        return self.path or self.domain or "the data set"


@dataclass(frozen=True)
class Examination:
    """A data set after it has been examined."""

    index: ImageIndex
    """The images that lie where they should, whole or not."""
    benchmark: str | None
    """The published data set this is a copy of, by its names of domains and classes."""
    published: Mapping[str, int]
    """Images by domain as published, by the names of the domains here; empty for no benchmark."""
    findings: tuple[Finding, ...]
    """The gravest first, then by kind and place."""

    def tally(self) -> dict[Severity, int]:
        """How many findings there are of each severity."""
        found = Counter(finding.severity for finding in self.findings)
        return {severity: found[severity] for severity in SEVERITIES}

    @property
    def exit_code(self) -> int:
        """1 where there is a fault; warnings and notes leave it at 0."""
        return 1 if self.tally()["fault"] else 0

    def to_json(self) -> str:
        """Everything, as JSON."""
        content = {
            "name": self.index.name,
            "root": str(self.index.root),
            "images": len(self.index),
            "benchmark": self.benchmark,
            "counts": self.index.counts(),
            "published": dict(self.published),
            "tally": self.tally(),
            "findings": [asdict(finding) for finding in self.findings],
        }
        return json.dumps(content, indent=2)


def in_order(findings: list[Finding]) -> tuple[Finding, ...]:
    """The gravest first, then by kind and place."""
    return tuple(
        sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), f.kind, f.place, f.message))
    )
