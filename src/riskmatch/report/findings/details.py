"""One run in full."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from riskmatch.data.progress import OnProgress
from riskmatch.report.findings.calibration import calibration
from riskmatch.report.findings.confusion import confusion
from riskmatch.report.findings.curves import curves
from riskmatch.report.findings.examples import Examples
from riskmatch.report.findings.hardest import hardest
from riskmatch.report.findings.reproduce import command
from riskmatch.report.findings.runs import RunOnFile
from riskmatch.report.findings.samples import UNREADABLE, NotOnFileError, validation
from riskmatch.report.findings.snapshots import ByStep, snapshots
from riskmatch.report.findings.sources import Sources
from riskmatch.runs.predictions import Predictions
from riskmatch.selection import domains_of


class Details:
    """Turns runs into what a report shows of them, and notes what it cannot show.

    Args:
        data_dir: where files of data sets are looked for first.
        on_progress: told of images that are read, decoded or embedded.
    """

    def __init__(self, data_dir: Path | None = None, on_progress: OnProgress | None = None) -> None:
        self.notes: list[str] = []
        self._sources = Sources(data_dir, on_progress)

    def of(self, run: RunOnFile, title: str) -> dict[str, Any]:
        """The run as page data."""
        config, record = run.config, run.record
        again = command(config)
        said = self._said(run, title, again)
        last = said[max(said)] if said else {}
        examples = self._examples(run, title) if said else None
        classes = _classes(examples, last)
        return {
            "id": config.id,
            "title": title,
            "method": config.method,
            "data": config.data,
            "training_domains": [d for d in domains_of(record) if d not in config.test_domains],
            "test_domains": list(config.test_domains),
            "classes": classes,
            "status": record.status,
            "error": record.error,
            "config": config.to_json(),
            "reproduce": again,
            "curves": curves(record),
            "snapshots": snapshots(said),
            "confusion": {domain: confusion(found, len(classes)) for domain, found in last.items()},
            "calibration": {domain: calibration(found) for domain, found in last.items()},
            "hardest": self._hardest(last, classes, examples, title),
        }

    def _said(self, run: RunOnFile, title: str, again: str) -> ByStep:
        try:
            return validation(run, self._sources)
        except UNREADABLE as error:
            note = f"{title}: no risk distributions, confusion or calibration ({error})."
            if again and isinstance(error, NotOnFileError):
                note += f" This command gives them: {again} --out again"
            self.notes.append(note)
            return {}

    def _examples(self, run: RunOnFile, title: str) -> Examples | None:
        try:
            return self._sources.examples(run.config)
        except UNREADABLE as error:
            self.notes.append(f"{title}: the hardest examples without pictures ({error})")
            return None

    def _hardest(
        self,
        last: Mapping[str, Predictions],
        classes: list[str],
        examples: Examples | None,
        title: str,
    ) -> dict[str, list[dict[str, Any]]]:
        try:
            return hardest(last, classes, examples.of if examples else None)
        except (*UNREADABLE, KeyError, IndexError) as error:
            self.notes.append(f"{title}: the hardest examples without pictures ({error})")
            return hardest(last, classes, None)


def _classes(examples: Examples | None, last: Mapping[str, Predictions]) -> list[str]:
    """Their names; numbers where the data set is not at hand."""
    seen = [int(values.max()) for p in last.values() for values in (p.label, p.predicted)]
    named = list(examples.classes) if examples else []
    return named if len(named) > max(seen, default=-1) else [str(k) for k in range(max(seen) + 1)]
