"""What a reader should know of the tables."""

from __future__ import annotations

from riskmatch.report.findings.cases import Cases
from riskmatch.report.findings.naming import data_title
from riskmatch.report.findings.runs import Found
from riskmatch.report.gaps import missing
from riskmatch.report.selected import Selected

GAPS = 5
"""With more, what is missing is counted and not named."""


def notes_of(found: Found, cases: Cases, shown: int) -> list[str]:
    """How to read the tables, and what they lack."""
    notes = []
    if shown < len(found.runs):
        notes.append(
            f"{shown} of {len(found.runs)} runs are shown in detail: one per method, chosen by "
            "train-val. To see another, name its folder."
        )
    if cases.renumbered:
        notes.append("Runs that differ in their seeds alone count as trials.")
    left_out = [name for name in cases.data if name not in cases.main_data]
    if left_out:
        notes.append(f"Methods are not compared on {'; '.join(left_out)}, which few runs share.")
    alone = {r.config.data for r in cases.records if len(r.config.test_domains) == 1}
    if apart := [data_title(name) for name in cases.data if name not in alone]:
        notes.append(
            f"Runs on {'; '.join(apart)} have several test domains each and train on different "
            "ones, so none is compared. To see one, name its folder."
        )
    open_runs = sum(run.record.status != "done" for run in found.runs)
    if open_runs:
        notes.append(f"{open_runs} of {len(found.runs)} runs are not done; what they have counts.")
    gone = {config.id for config in found.plan} - {run.config.id for run in found.runs}
    if gone:
        phrases = [
            phrase
            for data in cases.main_data
            for phrase in missing(Selected.of(cases.records, data, "train-val", cases.plan))
        ]
        told = f": {'; '.join(phrases)}" if len(phrases) <= GAPS else ""
        notes.append(f"{len(gone)} of {len(found.plan)} planned runs are missing{told}.")
    return [*notes, *found.damaged]
