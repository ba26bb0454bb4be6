"""``riskmatch data doctor``: what is wrong with a data set of images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from riskmatch.cli.errors import BadInput
from riskmatch.cli.files import ready
from riskmatch.cli.parser import parse
from riskmatch.cli.progress import progress


@dataclass(frozen=True)
class Doctor:
    """Examine every image of a data set; each fault is named with its path and its cure.

    Counts are compared with the published ones. The exit code is 1 where there is a fault.

    Example:
      riskmatch data doctor pacs --sheet pacs.png
    """

    data: Positional[str]
    """The name of a benchmark, or the path of a folder domain/class/image or of a manifest."""
    sheet: Path | None = None
    """A PNG file to write: one picture of each class in each domain."""
    data_dir: Path | None = None
    """A folder in which to look for a benchmark first."""
    quiet: bool = False
    """Print nothing but errors."""
    json: bool = False
    """Print what was found as JSON."""


def run(words: Sequence[str]) -> int:
    """Examine the images of a data set: each fault with its path and its cure."""
    options = parse(Doctor, "data doctor", words)
    sheet = options.sheet
    if sheet is not None:
        ready(sheet.parent / (sheet.stem + sheet.suffix.lower()), "--sheet", (".png",))
    from riskmatch.data.catalogue import find_images
    from riskmatch.data.doctor import contact_sheet, examine, print_examination

    try:
        source, benchmark = find_images(options.data, options.data_dir)
        with progress("images", options.quiet) as on_progress:
            found = examine(source, published=benchmark, on_progress=on_progress)
    except (OSError, ValueError, ImportError) as error:
        raise BadInput(str(error)) from error
    if options.json:
        print(found.to_json())
    elif not options.quiet:
        from rich.console import Console

        print_examination(found, Console(highlight=False))
    if sheet is not None:
        try:
            contact_sheet(found.index, sheet)
        except OSError as error:
            reason = error.strerror or error
            raise BadInput(f"--sheet {sheet}: {reason}. Name another file.") from error
        if not (options.json or options.quiet):
            print(f"The contact sheet is {sheet}")
    return found.exit_code
