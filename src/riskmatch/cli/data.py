"""``riskmatch data``: what there is to train on, and how to get it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from riskmatch.cli.errors import BadInput, RunFailed, check_name
from riskmatch.cli.options import Option
from riskmatch.cli.parser import Parser

if TYPE_CHECKING:
    from rich.table import Table

    from riskmatch.data.fetch import OnProgress

VERBS = ("list", "get")


def run(argv: Sequence[str]) -> int:
    """List the data sets, or fetch the files of one."""
    parser = _parser()
    words, given = parser.parse(argv)
    if "help" in given or not words:
        print(parser.format_help(), end="")
        return 0
    verb, *names = words
    check_name("command of riskmatch data", verb, VERBS)
    if verb == "list":
        if names:
            raise BadInput(f"riskmatch data list takes no name, not {' '.join(names)}.")
        _list(given.get("data_dir"), "json" in given)
    else:
        if len(names) != 1:
            raise BadInput(f"Name one data set to get, such as mnist, not {len(names)}.")
        _get(names[0], given)
    return 0


def _parser() -> Parser:
    parser = Parser(
        "data",
        "list | get NAME [options]",
        "list   the data sets: domains, classes, size, licence, whether each is on this machine\n"
        "get    fetch the files of a data set, verified, going on where an earlier call stopped",
        "example\n  riskmatch data get mnist",
    )
    options = [
        Option("data_dir", Path, "The folder of data sets; where nothing is said, a cache"),
        Option("mirrors", tuple[str, ...], "get: the URL of a folder with the files"),
        Option("json", bool, "list: as JSON"),
        Option("quiet", bool, "get: print nothing but errors"),
        Option("help", bool, "This text"),
    ]
    parser.add("options", options)
    return parser


def _list(root: Path | None, as_json: bool) -> None:
    from riskmatch.data import DATASETS

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
    if as_json:
        print(json.dumps(described, indent=2))
        return
    from rich.console import Console

    Console(highlight=False).print(_table(described))


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


def _get(name: str, given: dict[str, Any]) -> None:
    from riskmatch.data import DATASETS
    from riskmatch.data.fetch import FetchError

    files = {data: source.files for data, source in DATASETS.items() if source.files is not None}
    files |= {found.name: found for found in files.values()}
    if name in DATASETS and name not in files:
        raise BadInput(f"{name} has no files to get; it comes with a package.")
    check_name("data set to get", name, sorted(files))
    wanted = files[name]
    folder = given["data_dir"] / wanted.name if "data_dir" in given else None
    options = {"mirrors": given["mirrors"]} if "mirrors" in given else {}
    try:
        with _progress("quiet" in given) as on_progress:
            folder = wanted.get(folder, on_progress=on_progress, **options)
    except FetchError as error:
        raise RunFailed(str(error)) from error
    except (OSError, ValueError) as error:
        raise BadInput(str(error)) from error
    except KeyboardInterrupt as error:
        raise RunFailed(
            f"Interrupted. To go on from what has arrived: riskmatch data get {name}"
        ) from error
    if "quiet" not in given:
        print(f"{wanted.name} is in {folder}, verified")


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
