"""``riskmatch report``: what happened in a run or in many, as one HTML file."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from riskmatch.cli.errors import BadInput
from riskmatch.cli.files import ready
from riskmatch.cli.parser import parse
from riskmatch.cli.progress import progress


@dataclass(frozen=True)
class Report:
    """Write one HTML file about a run, several runs or a sweep; it opens in any browser.

    It shows accuracy by selection rule, risk distributions and their distances over the steps, the
    worst domain, learning curves, confusion, calibration and the hardest examples. Several folders,
    or one that holds several runs, are compared. The file needs no network.

    Examples:
      riskmatch report runs/0a1b2c3d4e5f6a7b
      riskmatch report runs/erm runs/rdm -o comparison.html
    """

    dirs: Positional[tuple[Path, ...]]
    """The folder of a run or of a sweep; several are compared."""
    out: Path = Path("report.html")
    """The file to write, .html."""
    data_dir: Path | None = None
    """A folder in which to look for a benchmark first, for thumbnails and missing predictions."""
    quiet: bool = False
    """Print nothing but errors."""


def run(words: Sequence[str]) -> int:
    """Gather the findings, write the page, say where it is."""
    options = parse(Report, "report", words, {"out": ("-o",)})
    ready(options.out, "--out", (".html",))
    for folder in options.dirs:
        if not folder.is_dir():
            raise BadInput(f"There is no folder {folder}. Give that of a run or of a sweep.")
    try:
        size = _write(options, shlex.join(["riskmatch", "report", *words]))
    except (OSError, ValueError, ImportError) as error:
        raise BadInput(str(error)) from error
    if not options.quiet:
        print(f"{options.out} ({size / 1e6:.1f} MB): open it in a browser")
    return 0


def _write(options: Report, command: str) -> int:
    """The number of bytes that were written."""
    from riskmatch.files import write_whole
    from riskmatch.report.findings import page_data
    from riskmatch.report.html import page

    with progress("images", options.quiet) as on_progress:
        data = page_data(
            options.dirs, data_dir=options.data_dir, command=command, on_progress=on_progress
        )
    html = page(data).encode()
    write_whole(options.out, html)
    return len(html)
