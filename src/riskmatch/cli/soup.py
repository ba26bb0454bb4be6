"""``riskmatch soup``: average the weights of runs of a sweep."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import riskmatch
from riskmatch.cli.options import Positional
from riskmatch.cli.parser import Command, Printed
from riskmatch.cli.printer import print_json, print_line, print_table, print_text
from riskmatch.cli.progress import Display


@dataclass
class Soup(Printed, Command):
    """Average the weights of runs that started from the same weights, and write model folders.

    Runs with the same test domains and trial make one soup; members are chosen by the validation
    parts of the training domains alone. The table compares each soup with the best of its members,
    with their ensemble, and has the barrier between the two best runs.

    Example:
      riskmatch soup my-sweep --test-domain sketch --how greedy
    """

    runs: Positional[Path]
    """Folder of the sweep, or of runs."""
    how: Literal["uniform", "greedy"] = "greedy"
    """uniform averages all runs; greedy adds one after the other unless the validation metric
    becomes worse."""
    methods: list[str] | None = None
    """Comma-separated methods of the runs; by default all."""
    test_domains: tuple[str, ...] = ()
    """Test domain of the runs; by default each set that there is."""
    trial: int | None = None
    """Trial of the runs; by default each."""
    unit: Literal["domains", "new-domain"] = "domains"
    """What the intervals of several soups generalise over: these domains, or a new one."""
    out: Path | None = None
    """Folder of the model folders; by default soups in the folder of the sweep."""
    overwrite: bool = False
    """Replace other models there."""
    data_dir: Path | None = None
    """Folder searched first for the files of the data set."""
    device: str = "cpu"
    """Device on which networks are evaluated."""

    def execute(self) -> None:
        """Average, write the model folders and print the table."""
        with Display(self.quiet, "samples") as display:
            made = riskmatch.soup(**self.arguments(), on_progress=display.progress)
        if self.json:
            members = [dict(one.members) for one in made.soups]
            models = list(map(str, made.folders))
            print_json({**made.table.to_json(), "members": members, "models": models})
        elif not self.quiet:
            print_table(made.table)
            print_text(made.table.caption)
            for one, folder in zip(made.soups, made.folders, strict=True):
                without = " and ".join(one.config.test_domains)
                print_line(f"model  {folder}{f' (without {without})' if without else ''}")
