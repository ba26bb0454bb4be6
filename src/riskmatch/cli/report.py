"""``riskmatch report``: one HTML file about one or more runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import riskmatch
from riskmatch.cli.errors import bad_input, prepare_output
from riskmatch.cli.options import Positional
from riskmatch.cli.parser import parse
from riskmatch.cli.printer import printable
from riskmatch.cli.progress import progress


@dataclass(frozen=True)
class Report:
    """Write one HTML file about a run, several runs or a sweep.

    It shows accuracy by selection rule, risk distributions and their distances over the steps, the
    worst domain, learning curves, confusion, calibration and the hardest samples. Several folders,
    or one that holds several runs, are compared. The file needs no network access.

    Examples:
      riskmatch report runs/0a1b2c3d4e5f6a7b
      riskmatch report runs/erm runs/rdm -o comparison.html
    """

    dirs: Positional[tuple[Path, ...]]
    """Folder of a run or of a sweep; several are compared."""
    out: Path = Path("report.html")
    """File to write, .html."""
    data_dir: Path | None = None
    """Folder in which to look for data first, for thumbnails and missing predictions."""
    quiet: bool = False
    """Print nothing but errors."""


def run(words: Sequence[str]) -> int:
    """Write the report and print its path and size."""
    options = parse(Report, "report", words)
    prepare_output(options.out, "--out", (".html",))
    with bad_input(), progress("images", options.quiet) as on_progress:
        file = riskmatch.write_report(
            options.dirs,
            options.out,
            data_dir=options.data_dir,
            command=shlex.join(["riskmatch", "report", *words]),
            on_progress=on_progress,
        )
    if not options.quiet:
        print(f"{printable(file)} ({file.stat().st_size / 1e6:.1f} MB): open it in a browser")
    return 0
