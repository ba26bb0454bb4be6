"""``riskmatch report``: one HTML file about one or more runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import riskmatch
from riskmatch.cli.errors import prepare_output
from riskmatch.cli.options import Positional
from riskmatch.cli.parser import Command, Compared, Quiet
from riskmatch.cli.printer import printable
from riskmatch.cli.progress import Display


@dataclass
class Report(Quiet, Compared, Command):
    """Write one HTML file about a run, several runs or a sweep.

    It shows the metric by selection rule, risk distributions and their distances over the steps,
    the worst domain, learning curves, confusion, calibration and the hardest samples. Several
    folders, or one that holds several runs, are compared. The file needs no network access.

    Examples:
      riskmatch report runs/0a1b2c3d4e5f6a7b
      riskmatch report runs/erm runs/rdm -o comparison.html
    """

    dirs: Positional[tuple[Path, ...]]
    """Folder of a run or of a sweep; several are compared."""
    out: Path = Path("report.html")
    """File to write, .html."""

    def execute(self) -> None:
        """Write the report and print its path and size."""
        prepare_output(self.out, "--out", (".html",))
        with Display(self.quiet) as display:
            file = riskmatch.write_report(
                self.dirs,
                **self.arguments("dirs"),
                command=self.line,
                on_progress=display.progress,
            )
        if not self.quiet:
            print(f"{printable(file)} ({file.stat().st_size / 1e6:.1f} MB): open it in a browser")
