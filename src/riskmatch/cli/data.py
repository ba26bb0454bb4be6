"""``riskmatch data``: what there is to train on, and how to get it."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tyro.conf import Positional

from riskmatch.cli import doctor
from riskmatch.cli.errors import BadInput, RunFailed, check_name
from riskmatch.cli.parser import parse
from riskmatch.cli.progress import progress
from riskmatch.cli.verbs import call

if TYPE_CHECKING:
    from rich.table import Table

    from riskmatch.data.catalogue import Downloads

NAMES = 22
"""Letters on a line of domains, so that the table fits 80 columns."""


def run(words: Sequence[str]) -> int:
    """List the data sets, fetch the files of one, or examine one."""
    verbs = {"list": _list, "get": _get, "doctor": doctor.run}
    return call("data", verbs, words, "riskmatch data get mnist")


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
      riskmatch data get pacs
    """

    name: Positional[str]
    """A data set, such as pacs."""
    data_dir: Path | None = None
    """The folder of data sets; where nothing is said, a cache."""
    mirrors: tuple[str, ...] = ()
    """The URL of a folder with the files."""
    quiet: bool = False
    """Print nothing but errors."""


def _list(words: Sequence[str]) -> int:
    """The data sets, and whether each is on this machine."""
    options = parse(List, "data list", words)
    from riskmatch.data.catalogue import describe

    described = describe(options.data_dir)
    if options.json:
        print(json.dumps(described, indent=2))
        return 0
    from rich.console import Console

    Console(highlight=False).print(_table(described))
    if cures := _cures(described):
        print("\nTo have what is not here:", *cures, sep="\n  ")
    return 0


def _table(described: Sequence[dict[str, Any]]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("data set", no_wrap=True, style="bold")
    table.add_column("here", no_wrap=True)
    table.add_column("classes", justify="right", no_wrap=True)
    table.add_column("samples", justify="right", no_wrap=True)
    table.add_column("domains", no_wrap=True)
    table.add_column("licence")
    for entry in described:
        table.add_row(
            entry["name"],
            "yes" if entry["here"] else "no",
            str(entry["classes"] or ""),
            f"{entry['samples']:,}" if entry["samples"] else "",
            _wrapped(entry["domains"]),
            entry["licence"],
        )
    return table


def _wrapped(names: Sequence[str]) -> str:
    """Names on as many lines as they need; a name with a space stays on one."""
    whole = ", ".join(name.replace(" ", "\xa0") for name in names)
    return textwrap.fill(whole, NAMES).replace("\xa0", " ")


def _cures(described: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each command that would make something available."""
    cures = dict[str, list[str]]()
    for entry in described:
        if cure := entry["cure"]:
            own = cure.endswith(f" get {entry['name']}")
            key = cure.replace(entry["name"], "NAME") if own else cure
            cures.setdefault(key, []).append(entry["name"])
    width = max(map(len, cures), default=0)
    return [f"{cure:<{width}}   {', '.join(names)}" for cure, names in cures.items()]


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
    folder = _place(wanted, options.data_dir) if options.data_dir else None
    mirrors = {"mirrors": options.mirrors} if options.mirrors else {}
    try:
        with progress("bytes", options.quiet) as on_progress:
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


def _place(wanted: Downloads, root: Path) -> Path:
    """The folder below ``root`` that holds the files under any name, else the one to make."""
    found = wanted.find(root)
    return found if found is not None and found.is_relative_to(root) else root / wanted.name
