"""Advise what to train for an unseen domain, and what to expect there."""

from __future__ import annotations

import json
import shlex
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from riskmatch.advice.advice import Advice
from riskmatch.advice.boosting import boosting_values
from riskmatch.advice.judging import (
    BOOSTING,
    best_draw,
    harms,
    held_out_checks,
    majority_share,
    method_results,
    recommended,
)
from riskmatch.advice.report import FILE, PAGE, Advised
from riskmatch.contract.risks import REGRESSION
from riskmatch.contract.task import find_task
from riskmatch.data import OnProgress, load, no_progress
from riskmatch.data.catalogue import resolve as resolve_data
from riskmatch.data.convert import table_options
from riskmatch.data.domain import DomainSet
from riskmatch.data.splits import check_splits
from riskmatch.data.table import TableDomains
from riskmatch.defaults import check_mappings, field_names, resolve
from riskmatch.deployment.folder import Expected, own_checksum
from riskmatch.files import read_file, to_json, write_whole
from riskmatch.metrics import ACCURACY
from riskmatch.report.selected import select
from riskmatch.runs.config import RunConfig
from riskmatch.runs.findings import RunWarning
from riskmatch.runs.frame import read_results
from riskmatch.sweep import Launcher, PlannedRun, Protocol, run_all
from riskmatch.sweep.board import OnChange
from riskmatch.sweep.plan import RUNS, check_outputs, extend, held_out, known_ids
from riskmatch.trust import remember
from riskmatch.validation import check_option

METHODS = ("erm", "rdm", "vrex", "groupdro", "coral")
"""Methods that are compared, RDM with both matches."""
DRAWS = 3
PAIRS_FOR = range(4, 7)
"""Numbers of domains for which pairs are left out as well: with fewer a pair leaves one domain to
train on, with more there are too many pairs."""
HEAD = {"steps": 1500, "eval_every": 300}
"""Defaults for a head on features."""
SIBLINGS, SCORES = "siblings.json", "boosting.json"
"""Files of what was found on the way, in the folder of the advice."""
_ARGUMENTS = ("data", "test_domains", "method", "hparams", "seed", "trial", "source")


class UnfinishedAdvice(RuntimeError):
    """Runs were interrupted or failed; the same call continues."""

    code = 3
    """Exit code of a command that ends with it."""


def advise(
    data: str,
    out: Path | str = "advice",
    *,
    methods: Sequence[str] | None = None,
    draws: int = DRAWS,
    selection: str | None = None,
    leave_out_together: Sequence[Sequence[str]] | None = None,
    label: str | None = None,
    domain: str | None = None,
    ignore: Sequence[str] = (),
    group: str | None = None,
    metric: str | None = None,
    choices: Mapping[str, Any] | None = None,
    launcher: Launcher | str = "local",
    overwrite: bool = False,
    data_dir: Path | None = None,
    on_plan: Callable[[Sequence[PlannedRun]], None] = lambda runs: None,
    on_change: OnChange = lambda board: None,
    on_progress: OnProgress | None = None,
) -> Advised:
    """Leave every domain out in turn, and advise what to train for an unseen domain.

    ERM is recommended unless a method beats it beyond the interval of its gain. Images are compared
    on the features of a frozen backbone; on tables gradient boosting of scikit-learn takes part.
    The runs are a sweep in ``out``: the same call continues where an earlier one stopped.

    Args:
        data: name or path of a data set with three domains or more.
        out: folder for ``advice.json``, ``advice.html`` and the runs.
        methods: methods to compare; ERM always takes part, and RDM with both matches.
        draws: settings per method; the first is the defaults.
        selection: ``leave-one-out``, which leaves out every pair of domains as well, or
            ``train-val``; by default the first for 4 to 6 domains none of which are
            left out together.
        leave_out_together: groups of domains to leave out at once; by default those that share
            images, where the data are images.
        label: column of the class, for a table.
        domain: column of the domain, for a table.
        ignore: columns to leave out, for a table.
        group: column of the group, whose samples are on one side of every split; ``stem`` for
            images in folders.
        metric: built-in metric of classes that is compared; by default the accuracy.
        choices: fields of the runs, or of the methods that have them, fixed in all draws.
        launcher: where to train: a launcher, or its name.
        overwrite: replace an advice on other data or settings in ``out``, and an edited one, which
            is kept otherwise.
        data_dir: folder searched first for the files of the data set.
        on_plan: called with the runs before they are trained.
        on_change: called with the state of all runs as training proceeds.
        on_progress: called while data are read.

    Raises:
        ValueError: the data are no classification or have too few domains, an option is wrong, or
            ``out`` has another advice.
        UnfinishedAdvice: runs were interrupted, or all of ERM on some domain failed.

    Example:
        >>> import tempfile
        >>> from riskmatch.sweep import Local
        >>> tiny = {"steps": 4, "eval_every": 4, "data_options": {"samples": 60}}
        >>> found = advise("colored-digits", tempfile.mkdtemp(), methods=["coral"], draws=1,
        ...     choices=tiny, launcher=Local(jobs=1))
        >>> found.best.variant, found.selection, found.left_out
        ('erm', 'train-val', [('0.9',), ('0.8',), ('0.1',)])
    """
    methods = METHODS if methods is None else methods
    out, choices = Path(out), dict(choices or {})
    check_mappings(choices)
    options = {**choices.get("data_options", {}), **table_options(label, domain, ignore, group)}
    choices["data_options"] = options
    if metric is not None:
        choices["metric"] = metric
    domains = load(data, options, data_dir, on_progress)
    if not domains.classes or choices.get("risk", "cross-entropy") in REGRESSION:
        raise ValueError(
            f"advise compares classifiers, and {data} is a regression or has tags. Plan runs of "
            "each method with riskmatch sweep plan and compare them with riskmatch sweep table."
        )
    name = choices.get("metric") or ACCURACY
    check_option("metric of advise", name, find_task("classification").metrics)
    if choices.get("average", "none") != "none":
        raise ValueError(
            "advise compares methods without averaged weights: leave out average here, and give it "
            "to riskmatch train."
        )
    if domains.test_only:
        raise ValueError(
            f"advise leaves out every domain in turn, and {data} has domains that may not be "
            f"trained on: {', '.join(domains.test_only)}. Compare methods on them with riskmatch "
            "sweep plan --test-domain."
        )
    check_splits(domains.domains)
    siblings = None
    if leave_out_together is None:
        leave_out_together = siblings = _siblings(data, out / SIBLINGS, data_dir, on_progress)
    groups = held_out(domains.names, together=leave_out_together)
    if len(groups) < 3:
        listed = ", ".join("+".join(group) for group in groups)
        raise ValueError(
            f"advise leaves out one of at least 3 domains, those left out together counting as "
            f"one; {data} has {len(groups)} ({listed}). Add domains."
        )
    for tests in groups:
        check_splits(domains.domains, test_domains=tests)
    selection = _selection(selection, groups)
    planned = _plan(data, domains, methods, draws, groups, selection, choices)
    outputs = [out / name for name in (FILE, PAGE, SIBLINGS, SCORES)]
    check_outputs(outputs, planned, known_ids(out), overwrite)
    extend(out, planned, f"riskmatch advise {shlex.quote(data)}")
    remember(out, {name for run in planned for name in run.config.part_names})
    if siblings is not None:
        write_whole(out / SIBLINGS, to_json({data: siblings}).encode())
    failures = []
    for alone in (True, False):  # pairs of domains last, without predictions
        if runs := [run for run in planned if (run.config.test_domains in groups) == alone]:
            on_plan(runs)
            board = run_all(
                [run.config for run in runs],
                out / RUNS,
                launcher,
                data_dir=data_dir,
                predictions=alone,
                on_change=on_change,
                on_progress=on_progress,
            )
            if error := board.error_message(runs):
                if board.interrupted:
                    raise UnfinishedAdvice(f"{error} Repeat the same command to continue.")
                failures.append(error)
    # Calls with other options may have left more runs in the folder.
    results, configs = read_results([out]), {run.config.id: run.config for run in planned}
    rows = results.runs[results.runs["run"].isin(configs.keys())]
    results = replace(results, runs=rows, plan=tuple(configs.values()))
    (selected,) = select(results, selection).values()
    scale = selected.facts.scale
    values = {
        key.variant: {domain: value / scale for (domain, _), value in selected.values(key).items()}
        for key in selected.rows
    }
    if isinstance(domains, TableDomains):
        values[BOOSTING] = boosting_values(
            domains,
            groups,
            out / SCORES,
            name,
            leave_one_out=selection == "leave-one-out",
            on_progress=on_progress,
        )
    complete = {
        name: {domain: by_domain[domain] for domain in domains.names}
        for name, by_domain in values.items()
        if by_domain.keys() >= {*domains.names}
    }
    if "erm" not in complete:
        cause = " ".join(failures) or f"ERM has no {selected.facts.title} on some domain."
        raise UnfinishedAdvice(f"{cause} Repeat the same command to train failed runs again.")
    judged = method_results(complete, groups, selected.metric)
    best = recommended(judged)
    config = best_draw(selected, best.variant, planned, groups).config
    advice = advice_for(config, best.expected)
    checks = held_out_checks(selected, best.variant)
    counts = {
        domain.name: domain.y.bincount(minlength=domains.classes).tolist()
        for domain in domains.domains
    }
    advised = Advised(
        advice,
        selection,
        groups,
        judged,
        majority_share(counts, groups) if selected.metric == ACCURACY else None,
        list(harms(selected, out / RUNS, domains.names)),
        out,
        {name: checks[name] for name in domains.names if name in checks},
        data_dir,
        failures,
    )
    if _is_edited(out / FILE) and not overwrite:
        message = f"{out / FILE} was edited and is kept; remove it to have it written again."
        warnings.warn(message, RunWarning, stacklevel=2)
    else:
        write_whole(out / FILE, (to_json(advised.to_json(), indent=2) + "\n").encode())
    write_whole(out / PAGE, advised.html().encode())
    return advised


def _is_edited(file: Path) -> bool:
    """Whether an advice is there and differs from what was written."""
    try:
        values = json.loads(read_file(file))
        return bool(values["sha256"] != own_checksum(values))
    except FileNotFoundError:
        return False
    except (ValueError, KeyError, TypeError, AttributeError):
        return True


def advice_for(config: RunConfig, expected: Expected) -> Advice:
    """Advice to train a run like ``config`` on all domains."""
    return Advice(
        config.data,
        config.method,
        config.hparams,
        {f.name: getattr(config, f.name) for f in fields(RunConfig) if f.name not in _ARGUMENTS},
        expected,
    )


def _selection(given: str | None, groups: Sequence[tuple[str, ...]]) -> str:
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


def _plan(
    data: str,
    domains: DomainSet,
    methods: Sequence[str],
    draws: int,
    groups: Sequence[tuple[str, ...]],
    selection: str,
    choices: Mapping[str, Any],
) -> list[PlannedRun]:
    named = resolve_data(data)
    choices = {**(HEAD if named.contents in ("images", "features") else {}), **choices}
    if named.contents == "images":
        choices["model_options"] = {"frozen": True, **choices.get("model_options", {})}
    tests = held_out(domains.names, pairs=True) if selection == "leave-one-out" else groups
    methods = tuple(dict.fromkeys(["erm", *methods]))
    runs = Protocol(data, methods, tuple(tests), draws, 1, choices=choices).runs()
    if "rdm" in methods:
        known = {name: value for name, value in choices.items() if name in field_names("rdm")}
        other = "worst" if resolve("rdm", data)["match"].value == "variance" else "variance"
        known["match"] = other
        runs += Protocol(data, ("rdm",), tuple(tests), draws, 1, choices=known).runs()
    return runs


def _siblings(
    data: str, file: Path, data_dir: Path | None, on_progress: OnProgress | None
) -> list[list[str]]:
    """Domains that share images; an earlier call for the same folder has stored them."""
    with suppress(OSError, ValueError, KeyError, TypeError):  # missing, damaged or of other data
        return list(json.loads(read_file(file))[data])
    named = resolve_data(data)
    if named.contents != "images":
        return []
    from riskmatch.data.doctor import siblings_in

    (on_progress or no_progress)("comparing images of different domains", 0, None)
    return [list(one.domains) for one in siblings_in(named.index(data_dir))]
