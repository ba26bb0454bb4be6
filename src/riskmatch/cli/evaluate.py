"""``riskmatch evaluate``: metrics and risk of a model on every domain of labelled data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import riskmatch
from riskmatch.cli.options import Positional
from riskmatch.cli.parser import Command, Printed
from riskmatch.cli.printer import Column, print_json, print_line, print_table
from riskmatch.cli.progress import Display

if TYPE_CHECKING:
    import pandas as pd

    from riskmatch.deployment import TrainedModel


@dataclass
class Labelled(Printed, Command):
    """Options of commands that read labelled data."""

    model: Positional[Path]
    """Folder of the model, as riskmatch train --all-domains writes it."""
    data: Positional[str]
    """Labelled data: a name, a folder domain/class/image, a manifest (a CSV, JSON or Parquet file
    with columns path, label and domain) or a table."""
    label: str | None = None
    """Column of the label of a table or a list of images, or several with commas between them; by
    default those of training."""
    domain: str | None = None
    """Column of the domain of a table; by default that of training, or all rows are one domain."""
    data_options: Mapping[str, Any] = field(default_factory=dict)
    """Option of the data set; by default those of training if it is the same."""
    data_dir: Path | None = None
    """Folder searched first for the files of DATA."""
    batch_size: int = 32
    """Samples per forward pass."""

    def reading(self, display: Display) -> dict[str, Any]:
        """Arguments of :func:`riskmatch.evaluate` and :func:`riskmatch.monitor` but the model."""
        return {
            **self.arguments("model", "data_options", "unlabelled"),
            "options": self.data_options or None,
            "on_skip": display.skip,
            "on_progress": display.progress,
        }


@dataclass
class Evaluate(Labelled):
    """Evaluate a model on every domain of labelled data, with intervals.

    Example:
      riskmatch evaluate runs/3f2a…/model new-site
    """

    metric: str | None = None
    """The metric that tells the worst domain: a name, or package.module:function; by default the
    primary one of the task."""
    group: str | None = None
    """Column of the group of a sample, such as a patient, of a table or a list of images, or stem
    for images in folders: intervals draw groups, not samples; by default that of training."""
    level: float = 0.95
    """Level of the intervals."""
    quiet: bool = field(default=False, kw_only=True)
    """Show no progress."""

    def execute(self) -> None:
        """Evaluate and print a row per domain."""
        with Display(self.quiet, "samples") as display:
            model = riskmatch.load_model(self.model)
            table = riskmatch.evaluate(model, **self.reading(display))
        if self.json:
            expected = model.values["expected"]
            facts = {name: table.attrs[name] for name in ("metric", "worst", "missing", "unit")}
            print_json({"domains": table.to_dict("records"), **facts, "expected": expected})
        else:
            _print(table, model, self.level)


def _print(table: pd.DataFrame, model: TrainedModel, level: float) -> None:
    def interval(row: dict[Any, Any], name: str) -> str | None:
        value, *ends = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
        if math.isnan(value):
            return None
        style = ".4f" if name == "risk" else ".3f" if facts[name].percent else ".4g"
        between = f" [{ends[0]:{style}}, {ends[1]:{style}}]" if not math.isnan(ends[0]) else ""
        return f"{value:{style}}{between}"

    facts, primary, rows = table.attrs["metrics"], table.attrs["metric"], table.to_dict("records")
    columns = [
        Column("domain", lambda row: row["domain"] + " (trained on)" * bool(row["trained_on"])),
        Column("samples", lambda row: f"{row['samples']:,}"),
        Column(facts[primary].title, lambda row: interval(row, primary)),
        Column("mean risk", lambda row: interval(row, "risk")),
    ]
    print_table(columns, rows)
    others = [(name, row) for name in facts if name != primary for row in rows]
    columns = [
        Column("metric", lambda pair: facts[pair[0]].title),
        Column("domain", lambda pair: pair[1]["domain"]),
        Column("value", lambda pair: interval(pair[1], pair[0])),
    ]
    if others:
        print_table(columns, others)
    print_line(f"{level:.0%} intervals for independent {table.attrs['unit']}")
    if len(rows) > 1 and table.attrs["worst"] is not None:
        print_line(f"worst {facts[primary].title}: {table.attrs['worst']}")
    for domain, reasons in table.attrs["missing"].items():
        for name, reason in reasons.items():
            print_line(f"no {facts[name].title} of {domain}: {reason}")
    if model.expected:
        print_line(f"expected on a new domain: {model.expected}")
    if table["trained_on"].any():
        print_line("A domain of training is easier than a new one, more so with the same samples.")
