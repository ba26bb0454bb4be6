"""``riskmatch reproduce``: the paper's tables and figures."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from tyro.conf import Positional

from riskmatch.cli.errors import BadInput, CommandError, RunFailed, check_name
from riskmatch.cli.parser import parse
from riskmatch.experiments.experiment import Budget, Option

ALL = "all"


@dataclass(frozen=True)
class Reproduce:
    """Reproduce a table or a figure of the paper, or all of them.

    The same command again goes on with what was interrupted, and runs nothing twice. All results
    of one folder share its runs, as those of riskmatch sweep do.

    Budgets:
      smoke    small networks, few methods and steps: shows within a minute that everything works
      laptop   ColoredMNIST at the paper's sizes, with three seeds and one value of every grid;
               images as the features of a frozen backbone, 5 draws × 3 trials of all methods,
               for 1,000 steps
      paper    everything: ten seeds and whole grids; ResNet-50 trained whole, 20 draws × 10 trials

    Example:
      riskmatch reproduce table1 --budget smoke
    """

    name: Positional[str | None] = None
    """A table or a figure, or all; --list shows which there are."""
    list: bool = False
    """What can be reproduced, what it needs and how many runs it takes."""
    budget: Budget | None = None
    """How much to run."""
    data: str | None = None
    """Some of the data sets, as in pacs,vlcs."""
    methods: str | None = None
    """Some of the methods, as in rdm,vrex."""
    seeds: str | None = None
    """Seeds in place of the budget's, as in 0,1,2."""
    search_seeds: str | None = None
    """Seeds on which the whole grids run; on the others, only what these choose."""
    init: Literal["random", "erm", "both"] = "both"
    """Where methods start from."""
    as_is: bool = False
    """Train nothing: show the runs that are done."""
    out: Path | None = None
    """Where to; by default reproduce, or reproduce-smoke."""
    jobs: int | None = None
    """Runs at a time; by default one per core, if memory allows, and one of the budget smoke."""
    data_dir: Path | None = None
    """A folder in which to look for data sets first."""
    device: str = "auto"
    """Where to train: cpu, cuda:1, …; auto takes a GPU if there is one."""
    quiet: bool = False
    """Print nothing but errors."""
    json: bool = False
    """Print the result as JSON."""


def run(words: Sequence[str]) -> int:
    """Reproduce a table or a figure, or say which there are."""
    options = parse(Reproduce, "reproduce", words or ["--help"])
    from riskmatch.experiments.catalogue import EXPERIMENTS, NUMBERS

    if options.list:
        from riskmatch.cli.reproduce_list import show

        show(options.data_dir, options.json)
        return 0
    if options.name is None:
        raise BadInput(f"What? Name one of {', '.join(EXPERIMENTS)}, or all.")
    name = NUMBERS.get(options.name, options.name)
    check_name("table or figure", name, (*EXPERIMENTS, ALL))
    if options.budget is None:
        raise BadInput("How much? Give --budget smoke, laptop or paper.")
    if options.jobs is not None and options.jobs < 1:
        raise BadInput(f"--jobs is a number of runs, one or more, not {options.jobs}.")
    _check_options(name, options)
    command = shlex.join(["riskmatch", "reproduce", *words])
    if name == ALL:
        _all(options.budget, options, command)
    else:
        _one(name, options.budget, options, command)
    return 0


def _check_options(name: str, options: Reproduce) -> None:
    """Refuse those options of single experiments that this one does not take."""
    from riskmatch.experiments.catalogue import EXPERIMENTS

    takes = EXPERIMENTS[name].options if name != ALL else ()
    for option in get_args(Option):
        if option not in takes and getattr(options, option) != getattr(Reproduce, option):
            those = ", ".join(n for n, one in EXPERIMENTS.items() if option in one.options)
            flag = option.replace("_", "-")
            raise BadInput(f"--{flag} does not apply to {name}; it does to {those}.")


def _one(name: str, budget: Budget, options: Reproduce, command: str) -> None:
    from riskmatch.cli.reproduce_one import reproduce

    outcome = reproduce(name, budget, options)
    if options.json:
        if outcome.result is not None:
            print(json.dumps(outcome.to_json(), indent=2))
    elif outcome.result is not None and not options.quiet:
        print(outcome.result.text, end="\n\n")
        print("\n".join(map(str, outcome.result.files)))
    if outcome.trouble:
        raise RunFailed(f"{outcome.trouble} {outcome.onward}: {command}")


def _all(budget: Budget, options: Reproduce, command: str) -> None:
    """Every experiment in turn; one that fails does not stop the others."""
    from riskmatch.cli.reproduce_one import reproduce
    from riskmatch.experiments.catalogue import EXPERIMENTS

    told: dict[str, Any] = {}
    failed: list[str] = []
    for number, name in enumerate(EXPERIMENTS, 1):
        if not options.quiet:
            print(f"[{number}/{len(EXPERIMENTS)}] {name}", file=sys.stderr, flush=True)
        try:
            outcome = reproduce(name, budget, options)
        except Exception as error:
            why = str(error) if isinstance(error, CommandError) else repr(error)
            print(f"riskmatch: {name}: {why}", file=sys.stderr)
            failed.append(name)
            continue
        if outcome.result is not None:
            told[name] = outcome.to_json()
            if not (options.quiet or options.json):
                print("\n".join(map(str, outcome.result.files)), flush=True)
        if outcome.trouble:
            print(f"riskmatch: {name}: {outcome.trouble}", file=sys.stderr)
            failed.append(name)
        if outcome.interrupted:
            break
    if options.json:
        print(json.dumps(told, indent=2))
    if failed:
        names = ", ".join(failed)
        raise RunFailed(f"Not done, as told above: {names}. To go on: {command}")
