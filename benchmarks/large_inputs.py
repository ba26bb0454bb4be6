"""Time and memory of `monitor` on a million rows and of `report` on 200 domains.

    python benchmarks/large_inputs.py FOLDER [LABEL]

writes tables, models and runs to FOLDER unless they are there, and adds a row per command under
LABEL to ``results/bench/large_inputs.json``. Memory is the peak of the process. Under the label
``now`` it fails if a command takes more than 1 GB, or the report more than 8 s of processor time or
3 MB.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import measure
import numpy as np
import pandas as pd

METHODS = ("erm", "rdm", "vrex", "irm")
COLUMNS = ["--label", "late", "--domain", "site"]
SMALL = ["--steps", "300", "--model-option", "widths=[8]", "--batch-size", "4", "--quiet"]
COMMANDS = {
    "monitor, 1,000,000 rows of CSV": ["monitor", "model", "rows.csv"],
    "monitor --unlabelled": ["monitor", "model", "rows.csv", "--unlabelled"],
    "monitor, 1,000,000 rows of Parquet": ["monitor", "model", "rows.parquet"],
    "report, 4 runs on 200 domains": ["report", "runs", "-o", "report.html"],
}


NOTE = "Measured while other programs ran. MB is the peak memory of the process."


def visits(rows: int, sites: int) -> pd.DataFrame:
    """A table of numbers, categories and dates."""
    rng = np.random.default_rng(0)
    days = np.datetime64("2024-01-01") + rng.integers(0, 300, rows)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(50, 20, rows).round(2)),
            **{f"x{k}": rng.normal(size=rows).round(4) for k in range(6)},
            "ward": rng.choice(["x", "y", "surgery"], rows),
            "day": days.astype(str),
            "site": [f"clinic {k % sites:03d}" for k in range(rows)],
            "late": rng.choice(["no", "yes"], rows),
        }
    )


def riskmatch(*words: str) -> dict[str, float]:
    """Run a command; return its time, processor time and peak memory."""
    command = [sys.executable, "-m", "riskmatch.cli", *words]
    code, seconds, processor_seconds, kibibytes = measure.process(command)
    if code not in (0, 1):  # 1 is the alarm of monitor
        raise SystemExit(f"{' '.join(words)} failed with exit code {code}.")
    return {
        "seconds": seconds,
        "processor_seconds": processor_seconds,
        "megabytes": kibibytes * 1024 / 1e6,
    }


def write() -> None:
    """Write what the commands read, in the current folder."""
    rows = visits(1_000_000, 3)
    rows.to_csv("rows.csv", index=False)
    rows.to_parquet("rows.parquet", index=False)
    visits(30_000, 3).to_csv("visits.csv", index=False)
    visits(12_000, 200).to_csv("clinics.csv", index=False)
    save = [
        "--all-domains",
        "--no-left-out",
        "--save",
        "model",
        "--out",
        "model-runs",
        "--steps",
        "50",
        "--quiet",
    ]
    riskmatch("train", "visits.csv", *COLUMNS, "--method", "erm", *save)
    for method in METHODS:
        test = ["--method", method, "--test-domain", "clinic 003"]
        riskmatch("train", "clinics.csv", *COLUMNS, *test, *SMALL, "--out", "runs")


def main() -> None:
    """Measure every command, and write the table."""
    folder, label = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "now"
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    if not Path("runs").exists():
        write()
    record = measure.measured("large_inputs")
    measured = record["measured"].setdefault(label, {})
    for name, words in COMMANDS.items():
        measured[name] = riskmatch(*words, "--quiet")
        if "-o" in words:
            measured[name]["page"] = Path(words[-1]).stat().st_size / 1e6
    measure.save("large_inputs", record, table_of(record["measured"]))
    if label == "now":
        for name, values in measured.items():
            assert values["megabytes"] < 1000, name
        assert values["processor_seconds"] < 8
        assert values["page"] < 3


def table_of(by_label: dict[str, dict[str, dict[str, float]]]) -> str:
    """The versions of each command below each other."""
    rows = [
        [
            *(name, label, f"{values['processor_seconds']:.1f}", f"{values['megabytes']:.0f}"),
            f"{values['page']:.1f}" if "page" in values else "",
        ]
        for name in COMMANDS
        for label, commands in by_label.items()
        if (values := commands.get(name))
    ]
    head = ["command", "version", "processor seconds", "MB", "page, MB"]
    return f"{measure.table(head, rows)}\n{NOTE}\n"


if __name__ == "__main__":
    main()
