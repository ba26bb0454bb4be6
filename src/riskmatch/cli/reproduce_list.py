"""``riskmatch reproduce --list``: what there is, what it needs, how many runs it takes."""

from __future__ import annotations

import json
import textwrap
from contextlib import suppress
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from riskmatch.experiments.experiment import Experiment


def show(data_dir: Path | None, as_json: bool) -> None:
    """Print the list; nothing is loaded or timed for it."""
    from riskmatch.experiments.catalogue import EXPERIMENTS

    described = {name: _described(one, data_dir) for name, one in EXPERIMENTS.items()}
    if as_json:
        print(json.dumps(described, indent=2))
        return
    margin = max(map(len, described)) + 2
    for name, one in described.items():
        needs = ", ".join(f"{data} ({cure or 'yes'})" for data, cure in one["data"].items())
        takes = ", ".join(f"{budget} {number:,}" for budget, number in one["runs"].items())
        lines = [f"{one['paper']}: {one['summary']}", f"data: {needs}", f"runs: {takes}"]
        for line, label in zip(lines, (name, "", ""), strict=True):
            print(_wrapped(line, label, margin))
    print("\nyes: it is on this machine. Where no images are, smoke runs on handwritten digits.")


def _wrapped(line: str, label: str, margin: int) -> str:
    """A line beside its label, broken where the terminal ends."""
    return textwrap.fill(
        line,
        max(60, get_terminal_size().columns),
        initial_indent=label.ljust(margin),
        subsequent_indent=" " * (margin + 2),
        break_long_words=False,
    )


def _described(experiment: Experiment[Any], data_dir: Path | None) -> dict[str, Any]:
    from riskmatch.experiments.at_hand import cures, data_at_hand
    from riskmatch.experiments.experiment import BUDGETS, Request

    lacking = cures(experiment.data, data_dir)
    data = dict.fromkeys(BUDGETS, experiment.data)
    with suppress(ValueError):  # it cannot run here; the list says so
        data["smoke"], _ = data_at_hand(experiment, "smoke", root=data_dir)
    return {
        "paper": experiment.paper,
        "summary": experiment.summary,
        "data": {name: lacking.get(name) for name in experiment.data},
        "options": list(experiment.options),
        "runs": {budget: experiment.runs(Request(budget, data[budget])) for budget in BUDGETS},
    }
