"""Plan a sweep: the runs that compare methods on a data set, and the file that lists them.

:class:`Protocol` follows the field's protocol (Gulrajani and Lopez-Paz, In Search of Lost Domain
Generalization, ICLR 2021): every domain is split 80/20 by the number of the trial, each domain is
left out in turn, and hyper-parameters are searched at random, the first draw being the defaults.

A plan is a file of JSON lines. A line holds the complete configuration of a run, from which the
run's id follows, so lines can be removed, moved and edited. Lines without a configuration are
headers that say which command wrote the lines below them, and what is known about their methods.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import combinations, product
from pathlib import Path
from typing import Any

from riskmatch.defaults import (
    Setting,
    domainbed_draw,
    field_names,
    range_of,
    resolve,
    run_config,
    search_space,
)
from riskmatch.files import read_file, seed_of, write_whole
from riskmatch.registry import built_in
from riskmatch.runs.config import RunConfig, variant
from riskmatch.runs.method import facts_of
from riskmatch.runs.records import PLAN, read_plan
from riskmatch.space import draw
from riskmatch.validation import check_option

FILE = PLAN
DRAWS = 20
"""Draws of the field's protocol."""
MAX_RUNS = 1_000_000
"""Most runs of a plan, which is kept in memory."""
RUNS = "runs"
"""Folder of the records, beside the plan."""


@dataclass(frozen=True)
class PlannedRun:
    """A run to train, with a title to show."""

    config: RunConfig
    title: str
    """One line that describes the run."""
    draw: int = 0
    """Number of the hyper-parameter draw; 0 is the defaults."""


def title_of(config: RunConfig, draw: int = 0) -> str:
    """Describe a run in one line.

    Example:
        >>> title_of(RunConfig("pacs", ("sketch",), "rdm", trial=1), draw=3)
        'rdm on pacs without sketch, draw 3, trial 1'
    """
    without = " and ".join(config.test_domains)
    return (
        f"{variant(config)} on {config.data} without {without}, draw {draw}, trial {config.trial}"
    )


def held_out(
    names: Sequence[str],
    test_only: Sequence[str] = (),
    pairs: bool = False,
    together: Sequence[Sequence[str]] = (),
) -> list[tuple[str, ...]]:
    """List the sets of test domains of a data set: each domain in turn.

    Args:
        names: names of all domains.
        test_only: domains that may not be trained on; if there are any, they are the test domains.
        pairs: also list every pair of domains, which selection by leave-one-out needs.
        together: groups of domains that are held out at once, as they share pictures or objects.

    Raises:
        ValueError: a group has an unknown domain, one domain only, or one of another group; or
            there are groups together with ``test_only`` or ``pairs``.

    Example:
        >>> held_out(("a", "b", "c"), pairs=True)
        [('a',), ('b',), ('c',), ('a', 'b'), ('a', 'c'), ('b', 'c')]
        >>> held_out(("a", "b", "c"), together=[("b", "c")])
        [('a',), ('b', 'c')]
        >>> held_out(("a", "b", "c"), test_only=("c",), pairs=True)
        [('c',), ('c', 'a'), ('c', 'b')]
    """
    if together:
        return _held_out_together(names, together, bool(test_only) or pairs)
    others = [name for name in names if name not in test_only]
    if test_only:
        fixed = tuple(test_only)
        return [fixed, *((*fixed, other) for other in others if pairs)]
    return [(name,) for name in names] + (list(combinations(names, 2)) if pairs else [])


def _held_out_together(
    names: Sequence[str], groups: Sequence[Sequence[str]], other_sets: bool
) -> list[tuple[str, ...]]:
    if other_sets:
        raise ValueError(
            "Groups of domains to leave out together exclude leave_two_out and data sets with "
            "domains that may not be trained on."
        )
    for group in groups:
        for domain in group:
            check_option("domain to leave out together", domain, names)
        if len(set(group)) < 2:
            raise ValueError(f"Give two or more domains to leave out together, got '{group[0]}'.")
    grouped = [domain for group in groups for domain in group]
    if repeated := [domain for domain in names if grouped.count(domain) > 1]:
        raise ValueError(
            f"'{repeated[0]}' is left out together with others twice; join the groups."
        )
    if len(grouped) == len(names) and len(groups) == 1:
        raise ValueError("All domains are left out together, so that none is left to train on.")
    sets = {domain: tuple(d for d in names if d in group) for group in groups for domain in group}
    return list(dict.fromkeys(sets.get(name, (name,)) for name in names))


@dataclass(frozen=True)
class Protocol:
    """A comparison of methods on one data set.

    Example:
        >>> plan = Protocol("pacs", ("erm", "rdm"), (("photo",), ("sketch",)), draws=2, trials=1)
        >>> [run.title for run in plan.runs()][2]
        'erm on pacs without sketch, draw 0, trial 0'
    """

    data: str
    methods: tuple[str, ...]
    tests: tuple[tuple[str, ...], ...]
    """Sets of test domains."""
    draws: int = DRAWS
    """Number of hyper-parameter draws; the first is the defaults."""
    trials: int = 3
    """Number of splits. Each has its own weights and batches and, but for the first, draws."""
    fixed_draws: bool = False
    """Use the same draws in all trials, so that trials differ by chance alone."""
    choices: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the run, or of the methods that have them, fixed in all draws."""
    preset: str | None = None
    """Preset of every method; see :data:`~riskmatch.defaults.PRESETS`."""
    domainbed: bool = False
    """Draw what DomainBed draws, see :func:`~riskmatch.defaults.domainbed_draw`."""

    def __post_init__(self) -> None:
        for name, number in (("draws", self.draws), ("trials", self.trials)):
            if number < 1:
                raise ValueError(f"{name} must be at least 1, got {number}.")
        runs = self.draws * self.trials * len(self.methods) * len(self.tests)
        if runs > MAX_RUNS:
            raise ValueError(
                f"{self.draws:,} draws and {self.trials:,} trials make {runs:,} runs; a plan holds "
                f"at most {MAX_RUNS:,}. Plan fewer, or several sweeps."
            )
        if self.domainbed and self.frozen:
            raise ValueError(
                "DomainBed draws for whole networks, not for heads on frozen features: leave out "
                "frozen, or give draws as a number."
            )
        known = {name for method in self.methods for name in field_names(method)}
        known -= {"seed", "trial"}
        for name in self.choices:
            check_option(f"option of {', '.join(self.methods)}", name, sorted(known))

    @property
    def frozen(self) -> bool:
        """Whether heads are trained on the features of a frozen backbone."""
        return bool(self.choices.get("model_options", {}).get("frozen"))

    def runs(self) -> list[PlannedRun]:
        """List every run once, by draw, so that a part of the list is a comparison, too."""
        planned: dict[str, PlannedRun] = {}
        for number, trial in product(range(self.draws), range(self.trials)):
            configs = [self._config(number, trial, method) for method in self.methods]
            for tests, config in product(self.tests, configs):
                run = replace(config, test_domains=tests)
                planned.setdefault(run.id, PlannedRun(run, title_of(run, number), number))
        return list(planned.values())

    def _config(self, number: int, trial: int, method: str) -> RunConfig:
        """Configure the runs of a draw, but for their test domains."""
        from riskmatch.data.catalogue import is_path  # imports torch, which other commands need not

        choices = {n: value for n, value in self.choices.items() if n in field_names(method)}
        drawn = {}
        if self.domainbed:
            drawn = domainbed_draw(method, self.data, number, 0 if self.fixed_draws else trial)
        elif number > 0:
            name = "" if is_path(self.data) else self.data  # a moved folder has the same draws
            seed = seed_of(name, method, 0 if self.fixed_draws else trial, number)
            space = search_space(method, self.data, preset=self.preset, frozen=self.frozen)
            drawn = draw(space, seed, self.data)
        given = {**drawn, **choices, "seed": trial, "trial": trial}
        run = run_config(method, self.data, (), preset=self.preset, given=given)
        warmup = run.hparams.get("warmup", 0)
        # The field's ranges contain draws that are all warm-up; the defaults must not be.
        if number == 0 and warmup >= run.steps:
            raise ValueError(
                f"The warm-up of {method} ({warmup} steps) must end before the run does "
                f"({run.steps} steps): choose a smaller warmup or more steps."
            )
        return run


def parse_draws(draws: int | str) -> tuple[int, bool]:
    """Number of draws, and whether they are DomainBed's.

    Raises:
        ValueError: ``draws`` is neither a number nor ``domainbed`` or ``domainbed:NUMBER``.

    Example:
        >>> parse_draws(5), parse_draws("domainbed"), parse_draws("domainbed:5")
        ((5, False), (20, True), (5, True))
    """
    match = re.fullmatch(r"(\d+)|domainbed(?::(\d+))?", str(draws))
    if match is None:
        raise ValueError(
            "draws must be a whole number, or domainbed or domainbed:NUMBER for those of "
            f"DomainBed, got {draws!r}."
        )
    number, of_domainbed = match.groups()
    return int(number or of_domainbed or DRAWS), number is None


def sweep_settings(
    data: str,
    methods: Iterable[str] | None = None,
    *,
    choices: Mapping[str, Any] | None = None,
    preset: str | None = None,
    frozen: bool = False,
    draws: int | str = DRAWS,
) -> dict[str, dict[str, Setting]]:
    """Settings of the runs of a sweep by method, see :func:`~riskmatch.defaults.resolve`.

    ``methods`` are all built-in ones by default. Values are those of draw 0; the source of one that
    later draws vary ends with its range. No data are read. ``draws`` matters where it names
    DomainBed.

    Example:
        >>> sweep_settings("pacs", ["rdm"])["rdm"]["lr"].source
        "rdm's default, drawn from 10^U(-4.5, -4)"
    """
    choices = choices or {}
    frozen = frozen or bool(choices.get("model_options", {}).get("frozen"))
    settings: dict[str, dict[str, Setting]] = {}
    for method in sorted(built_in("method")) if methods is None else methods:
        given = {name: value for name, value in choices.items() if name in field_names(method)}
        settings[method] = resolve(method, data, preset=preset, frozen=frozen, given=given)
        domainbed = parse_draws(draws)[1]
        ranges = "domainbed" if domainbed else preset
        space = search_space(method, data, preset=ranges, frozen=frozen)
        for name, tuned in space.items():
            if domainbed and name not in given:
                settings[method][name] = Setting(tuned.on(data).default, "DomainBed's default")
            if name not in given and (drawn := range_of(tuned.on(data))):
                value, source = settings[method][name]
                settings[method][name] = Setting(value, f"{source}, drawn from {drawn}")
    return settings


def read(folder: Path) -> list[PlannedRun]:
    """Read the plan in ``folder``; a run that is listed twice counts once.

    Raises:
        FileNotFoundError: the folder has no plan.
        ValueError: a line is damaged.
    """
    path = folder / FILE
    if not path.exists():
        make = shlex.join(["riskmatch", "sweep", "plan", str(folder), "--data", "NAME"])
        raise FileNotFoundError(f"{folder} has no {FILE}. Plan a sweep with {make}.")

    def planned(config: RunConfig, line: dict[str, Any]) -> PlannedRun:
        title = line.get("title") or title_of(config, line["draw"])
        return PlannedRun(config, title, line["draw"])

    return list(read_plan(path, planned).values())


def known_ids(folder: Path) -> set[str]:
    """Ids of the runs in the plan of a folder; none without a plan."""
    return {run.config.id for run in read(folder)} if (folder / FILE).exists() else set()


def check_outputs(
    files: Iterable[Path], planned: Sequence[PlannedRun], known: Collection[str], overwrite: bool
) -> None:
    """Refuse to replace files that were made from other runs, or not by riskmatch.

    Args:
        files: files that will be written.
        planned: the runs from which they will be made.
        known: ids of the runs that the folder has already.
        overwrite: replace any file.

    Raises:
        ValueError: one of the files exists, and none of the planned runs is known.
    """
    taken = next((file for file in files if file.exists()), None)
    if taken and not overwrite and not any(run.config.id in known for run in planned):
        raise ValueError(
            f"{taken} exists, and not from these runs. Replace it with --overwrite "
            "(overwrite=True), or give another folder with --out (out=…)."
        )


def extend(folder: Path, runs: Sequence[PlannedRun], made_by: str) -> list[PlannedRun]:
    """Append the runs that the plan in ``folder`` lacks, and return them.

    Args:
        folder: folder of the sweep, created if it is missing.
        runs: planned runs.
        made_by: the command that planned them, written above them.

    Raises:
        ValueError: the file in the place of the plan is none.
    """
    path = folder / FILE
    known = known_ids(folder)
    before = read_file(path) if path.exists() else b""
    if before.strip() and not known and b'"made by"' not in before:
        raise ValueError(f"{path} is no plan of riskmatch. Give another folder.")
    new = [run for run in runs if run.config.id not in known]
    if new:
        head: dict[str, Any] = {
            "made by": made_by,
            "riskmatch": version("riskmatch"),
            "runs": len(new),
        }
        head["methods"] = {run.config.method: run.config.about.to_json() for run in new}
        lines = [
            {"title": run.title, "draw": run.draw, "config": run.config.to_json()} for run in new
        ]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in [head, *lines])
        folder.mkdir(parents=True, exist_ok=True)
        if before and not before.endswith(b"\n"):
            before += b"\n"
        write_whole(path, before + text.encode())
    return new


def replan(folder: Path, sources: Mapping[tuple[str, ...], str]) -> None:
    """Write other sources into the plan, by the names of the parts of its runs."""
    lines = []
    for line in read_file(folder / FILE).decode().splitlines():
        values = json.loads(line) if line.strip() else {}
        if "methods" in values:
            values["methods"] = {name: facts_of(name).to_json() for name in values["methods"]}
        if "config" in values:
            names = RunConfig.from_json(values["config"]).part_names
            values["config"]["source"] = sources[names]
        lines.append(json.dumps(values, ensure_ascii=False) if values else line)
    write_whole(folder / FILE, "".join(line + "\n" for line in lines).encode())
