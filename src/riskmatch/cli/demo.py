"""``riskmatch demo``: the main job in a minute."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from riskmatch.cli.board import Shown
from riskmatch.cli.errors import BadInput, RunFailed
from riskmatch.cli.parser import parse


@dataclass(frozen=True)
class Demo:
    """Train ERM and RDM on coloured digits, which come with scikit-learn.

    The colour predicts the label in training and betrays it in the test domain.
    """

    out: Path = Path("demo")
    """Where to."""
    seed: int = 0
    """Of digits, colours and weights."""
    quiet: bool = False
    """Print nothing but errors."""
    json: bool = False
    """Print the result as JSON."""


def run(words: Sequence[str]) -> int:
    """Train the three models, print a table, draw their risks."""
    options = parse(Demo, "demo", words)
    for package in ("sklearn", "matplotlib"):
        if find_spec(package) is None:
            raise BadInput("The demo needs two more packages: pip install 'riskmatch[demo]'.")
    from riskmatch.experiments import demo
    from riskmatch.sweep.running import run_all

    planned = demo.runs(options.seed)
    titles = {config.id: title for title, config in planned.items()}
    with Shown(titles, options.quiet) as shown:
        board = run_all(list(planned.values()), options.out / "runs", jobs=1, on_change=shown)
    if board.interrupted:
        raise RunFailed("Interrupted. The same command goes on from here.")
    if board.failed:
        id, why = next(iter(board.failed.items()))
        raise RunFailed(f"{titles.get(id, 'The ERM phase')} failed: {why}")
    files, table = demo.write(planned, options.out)
    if options.json:
        rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        print(json.dumps({"files": [str(path) for path in files], "result": rows}, indent=2))
    elif not options.quiet:
        print(table.markdown(), end="\n\n")
        print("\n".join(map(str, files)))
    return 0
