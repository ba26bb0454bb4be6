"""``riskmatch data``: what there is to train on, and how to get it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tyro.conf import Positional

from riskmatch.cli.errors import BadInput, RunFailed, check_name
from riskmatch.cli.parser import parse
from riskmatch.cli.verbs import call

if TYPE_CHECKING:
    from rich.table import Table

    from riskmatch.data.progress import OnProgress


def run(words: Sequence[str]) -> int:
    """List the data sets, or fetch the files of one."""
    return call("data", {"list": _list, "get": _get}, words, "riskmatch data get mnist")


@dataclass(frozen=True)
class List:
    """The data sets: domains, classes, size, licence, whether each is on this machine."""

    data_dir: Path | None = None
    """The folder of data sets; where nothing is said, a cache."""
    json: bool = False
    """As JSON."""


@dataclass(frozen=True)
class Get:
    """Fetch the files of a data set and verify them, going on where an earlier call stopped.

    Example:
      riskmatch data get mnist
    """

    name: Positional[str]
    """A data set, such as mnist."""
    data_dir: Path | None = None
    """The folder of data sets; where nothing is said, a cache."""
    mirrors: tuple[str, ...] = ()
    """The URL of a folder with the files."""
    quiet: bool = False
    """Print nothing but errors."""


def _list(words: Sequence[str]) -> int:
    """The data sets, and whether each is on this machine."""
    options = parse(List, "data list", words)
    from riskmatch.data import DATASETS

    root = options.data_dir
    described = [
        {
            "name": name,
            "domains": source.domains,
            "classes": source.classes,
            "samples": source.samples,
            "licence": source.licence,
            "here": source.cure(root) is None,
            "cure": source.cure(root),
        }
        for name, source in sorted(DATASETS.items())
    ]
    if options.json:
        print(json.dumps(described, indent=2))
        return 0
    from rich.console import Console

    Console(highlight=False).print(_table(described))
    return 0


def _table(described: Sequence[dict[str, Any]]) -> Table:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("data set", no_wrap=True, style="bold")
    table.add_column("domains")
    table.add_column("classes", justify="right")
    table.add_column("samples", justify="right")
    table.add_column("licence")
    table.add_column("here")
    for entry in described:
        table.add_row(
            entry["name"],
            ", ".join(entry["domains"]),
            str(entry["classes"]),
            f"{entry['samples']:,}",
            entry["licence"],
            "yes" if entry["here"] else f"no: {escape(entry['cure'])}",
        )
    return table


def _get(words: Sequence[str]) -> int:
    """Fetch the files of a data set, verified, going on where an earlier call stopped."""
    options = parse(Get, "data get", words)
    from riskmatch.data import DATASETS
    from riskmatch.data.fetch import FetchError

    name = options.name
    files = {data: source.files for data, source in DATASETS.items() if source.files is not None}
    files |= {found.name: found for found in files.values()}
    if name in DATASETS and name not in files:
        raise BadInput(f"{name} has no files to get; it comes with a package.")
    check_name("data set to get", name, sorted(files))
    wanted = files[name]
    folder = options.data_dir / wanted.name if options.data_dir else None
    mirrors = {"mirrors": options.mirrors} if options.mirrors else {}
    try:
        with _progress(options.quiet) as on_progress:
            folder = wanted.get(folder, on_progress=on_progress, **mirrors)
    except FetchError as error:
        raise RunFailed(str(error)) from error
    except (OSError, ValueError) as error:
        raise BadInput(str(error)) from error
    except KeyboardInterrupt as error:
        raise RunFailed(
            f"Interrupted. To go on from what has arrived: riskmatch data get {name}"
        ) from error
    if not options.quiet:
        print(f"{wanted.name} is in {folder}, verified")
    return 0


@contextmanager
def _progress(quiet: bool) -> Iterator[OnProgress | None]:
    """What shows each file as it arrives: a bar on a terminal, one line elsewhere."""
    if quiet:
        yield None
    elif not sys.stderr.isatty():
        yield _line
    else:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn

        columns = TextColumn("{task.description}"), BarColumn(bar_width=24), DownloadColumn()
        tasks: dict[str, TaskID] = {}
        with Progress(*columns, console=Console(stderr=True, highlight=False)) as bar:

            def show(name: str, done: int, total: int | None) -> None:
                if name not in tasks:
                    tasks[name] = bar.add_task(name, total=None)
                bar.update(tasks[name], completed=done, total=total)

            yield show


def _line(name: str, done: int, total: int | None) -> None:
    if done == total:
        print(f"{name}: {done:,} bytes", file=sys.stderr, flush=True)
