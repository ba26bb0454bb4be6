"""The runs that advice compares: which, chosen how, and how long they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from riskmatch.data import OnProgress
from riskmatch.data.catalogue import resolve as resolve_data
from riskmatch.data.domain import DomainSet
from riskmatch.defaults import field_names, resolve
from riskmatch.pace import clock
from riskmatch.sweep import Launcher, Local, PlannedRun, Protocol
from riskmatch.sweep.board import Board
from riskmatch.sweep.plan import RUNS, held_out
from riskmatch.sweep.worker import SweepSettings
from riskmatch.validation import check_option

METHODS = ("erm", "rdm", "vrex", "groupdro", "coral")
"""Methods that are compared, RDM with both matches."""
DRAWS = 3
PAIRS_FOR = range(4, 7)
"""Numbers of domains for which pairs are left out as well: with fewer a pair leaves one domain to
train on, with more there are too many pairs."""
HEAD = {"steps": 1500, "eval_every": 300}
"""Defaults for a head on features."""
QUICK = 3
"""Runs of a quick answer have this share of the steps, one draw, and no pairs of domains."""


def selection_for(given: str | None, groups: Sequence[tuple[str, ...]]) -> str:
    """The rule that is asked for, or ``leave-one-out`` where there are few enough domains."""
    siblings = any(len(group) > 1 for group in groups)
    if given is None:
        pairs = len(groups) in PAIRS_FOR and not siblings
        return "leave-one-out" if pairs else "train-val"
    check_option("selection", given, ("leave-one-out", "train-val"))
    if given == "leave-one-out" and (siblings or len(groups) < PAIRS_FOR.start):
        raise ValueError(
            f"Selection by leave-one-out needs at least {PAIRS_FOR.start} domains and none left "
            "out together; select by train-val."
        )
    return given


def plan(
    data: str,
    domains: DomainSet,
    methods: Sequence[str],
    draws: int,
    groups: Sequence[tuple[str, ...]],
    selection: str,
    choices: Mapping[str, Any],
    quick: bool,
) -> list[PlannedRun]:
    """All runs, by draw: every method without each group, or pairs of domains, too."""
    named = resolve_data(data)
    given, head = choices, HEAD if named.contents in ("images", "features") else {}
    choices = {**head, **choices}
    if named.contents == "images":
        choices["model_options"] = {"frozen": True, **choices.get("model_options", {})}
    frozen = bool(choices.get("model_options", {}).get("frozen"))
    tests = tuple(held_out(domains.names, pairs=True) if selection == "leave-one-out" else groups)
    methods = tuple(dict.fromkeys(["erm", *methods]))
    Protocol(data, methods, tests, draws, choices=choices)  # refuses options that no method has
    variants: list[tuple[str, dict[str, Any]]] = [(method, {}) for method in methods]
    if "rdm" in methods:
        other = "worst" if resolve("rdm", data)["match"].value == "variance" else "variance"
        variants.append(("rdm", {"match": other}))
    runs = []
    for method, more in variants:
        fixed = {name: value for name, value in choices.items() if name in field_names(method)}
        if quick:
            settings = resolve(method, data, frozen=frozen, given=fixed)
            for name in {"steps", "eval_every", "warmup"} & (settings.keys() - given.keys()):
                fixed[name] = -(-settings[name].value // QUICK)
        runs += Protocol(data, (method,), tests, draws, 1, choices=fixed | more).runs()
    return sorted(runs, key=lambda run: run.draw)


def cost_of(
    planned: Sequence[PlannedRun],
    out: Path,
    launcher: Launcher | str,
    data_dir: Path | None,
    on_progress: OnProgress | None,
) -> str:
    """Number of the runs that are not done, and their time on this machine."""
    board = Board.from_folder([run.config for run in planned], out / RUNS)
    local = launcher if isinstance(launcher, Local) else Local()
    local.worker(board, SweepSettings(out / RUNS, data_dir)).time_groups(board, on_progress)
    seconds = board.seconds_left if board.waiting else 0.0
    about = "time unknown" if seconds is None else f"about {clock(seconds)}"
    return f"{len(board.waiting)} of {len(planned)} runs to train: {about}, {board.jobs} at a time"
