"""How a run ended, as a table or as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from riskmatch.runs.records import FILE

if TYPE_CHECKING:
    from riskmatch.runs.records import RunRecord


def as_json(run: RunRecord, folder: Path) -> dict[str, Any]:
    """The configuration and the last evaluation, as plain JSON values."""
    lines = (json.loads(line) for line in (folder / FILE).read_text("utf-8").splitlines())
    evaluations = [line for line in lines if line.pop("kind") == "evaluation"]
    return {
        "id": run.config.id,
        "folder": str(folder),
        "status": run.status,
        "config": run.config.to_json(),
        "evaluation": evaluations[-1] if evaluations else None,
    }


def show(run: RunRecord, folder: Path, command: str) -> None:
    """Print accuracy and mean risk per domain, where the files are, and the command to repeat."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    config, last = run.config, run.evaluations[-1]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("domain")
    for title in ("accuracy, train", "val", "mean risk, train", "val"):
        table.add_column(title, justify="right")
    for domain, splits in last.scores.items():
        test = domain in config.test_domains
        train, val = splits["train"], splits["val"]
        table.add_row(
            f"{domain} (test)" if test else domain,
            f"{train.accuracy:.3f}",
            f"{val.accuracy:.3f}",
            f"{train.risk:.4f}",
            f"{val.risk:.4f}",
            style="bold" if test else None,
        )
    console = Console(highlight=False)
    title = f"{config.method} on {config.data} after {last.step} steps"
    console.print(title, style="bold", markup=False, soft_wrap=True)
    console.print(table)
    checkpoints = sorted((folder / "checkpoints").glob("*.safetensors"))
    console.print(f"[dim]records   [/] {folder / FILE}", soft_wrap=True)
    for path in checkpoints[-1:]:
        console.print(f"[dim]checkpoint[/] {path}", soft_wrap=True)
    console.print(f"[dim]repeat    [/] {command}", soft_wrap=True)
