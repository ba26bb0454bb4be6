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
from riskmatch.advice.baselines import baseline_values, baselines_for
from riskmatch.advice.judging import (
    best_draw,
    harms,
    held_out_checks,
    method_results,
    recommended,
)
from riskmatch.advice.planning import DRAWS, METHODS, cost_of, plan, selection_for
from riskmatch.advice.report import FILE, PAGE, Advised
from riskmatch.advice.siblings import find_siblings
from riskmatch.contract.task import labels_of
from riskmatch.data import OnProgress, load
from riskmatch.data.convert import table_options
from riskmatch.data.splits import check_splits
from riskmatch.defaults import check_mappings
from riskmatch.deployment.folder import Expected, own_checksum
from riskmatch.device import resolve_device
from riskmatch.engine.assemble import domains_of, is_frozen, task_of
from riskmatch.files import read_file, to_json, write_whole
from riskmatch.metrics import METRICS
from riskmatch.report.selected import select
from riskmatch.runs.config import RunConfig
from riskmatch.runs.findings import RunWarning
from riskmatch.runs.frame import read_results
from riskmatch.sweep import Launcher, Local, PlannedRun, run_all
from riskmatch.sweep.board import OnChange
from riskmatch.sweep.plan import RUNS, check_outputs, extend, held_out, known_ids
from riskmatch.trust import remember
from riskmatch.validation import check_option

SIBLINGS, SCORES = "siblings.json", "baselines.json"
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
    draws: int | None = None,
    selection: str | None = None,
    quick: bool = False,
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
    on_plan: Callable[[Sequence[PlannedRun], str], None] = lambda runs, note: None,
    on_change: OnChange = lambda board: None,
    on_progress: OnProgress | None = None,
) -> Advised:
    """Leave every domain out in turn, and advise what to train for an unseen domain.

    ERM is recommended unless a method beats it for a new domain, all methods adjusted together.
    Images are compared on the features of a frozen backbone. Models of scikit-learn take part: the
    most frequent class or the mean label; logistic or linear regression on features and tables;
    gradient boosting on tables. The runs are a sweep in ``out``: the same call continues where an
    earlier one stopped.

    Args:
        data: name or path of a data set with three domains or more.
        out: folder for ``advice.json``, ``advice.html`` and the runs.
        methods: methods to compare; ERM always takes part, and RDM with both matches.
        draws: settings per method, 3 by default; the first is the defaults.
        selection: ``leave-one-out``, which leaves out every pair of domains as well, or
            ``train-val``; by default the first for 4 to 6 domains none of which are
            left out together.
        quick: train about a tenth: one draw, a third of the steps, ``train-val``.
        leave_out_together: groups of domains to leave out at once; by default siblings: domains
            that share images, and those of which probes of features or columns show that leaving
            out one costs the other more than chance explains.
        label: column of the class, for a table.
        domain: column of the domain, for a table.
        ignore: columns to leave out, for a table.
        group: column of the group, whose samples are on one side of every split; ``stem`` for
            images in folders.
        metric: built-in metric that is compared; by default that of the task.
        choices: fields of the runs, or of the methods that have them, fixed in all draws.
        launcher: where to train: a launcher, or its name.
        overwrite: replace an advice on other data or settings in ``out``, and an edited one, which
            is kept otherwise.
        data_dir: folder searched first for the files of the data set.
        on_plan: called with runs before they are trained, and with a note that states the number
            and the time of all.
        on_change: called with the state of all runs as training proceeds.
        on_progress: called while data are read.

    Raises:
        ValueError: the labels are tags, there are too few domains, an option is wrong, or ``out``
            has another advice.
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
    draws = (1 if quick else DRAWS) if draws is None else draws
    (first, *_) = plan(data, domains, methods, 1, held_out(domains.names), "", choices, quick)
    if (labels := labels_of(first.config)) is not None:
        domains = domains.labelled(labels)
    if domains.labels not in ("classes", "numbers"):
        raise ValueError(
            f"advise compares methods on classes or numbers, and {data} has other labels, such as "
            "tags. Plan runs of each method with riskmatch sweep plan and compare them with "
            "riskmatch sweep table."
        )
    name = task_of(first.config, domains)[1].primary
    check_option("metric of advise", name, METRICS)
    inputs, finding = domains, ""
    if is_frozen(first.config):
        device = resolve_device(launcher.device if isinstance(launcher, Local) else "auto")
        inputs = domains_of(first.config, data_dir, device, on_progress)
    if leave_out_together is None:
        known = _known_siblings(out / SIBLINGS, data)
        found = known or find_siblings(data, inputs, options, data_dir, on_progress)
        leave_out_together, finding = found
    groups = held_out(domains.names, together=leave_out_together)
    if len(groups) < 3:
        listed = ", ".join("+".join(group) for group in groups)
        raise ValueError(
            f"advise leaves out one of at least 3 domains, those left out together counting as "
            f"one; {data} has {len(groups)} ({listed}). Add domains."
        )
    for tests in groups:
        check_splits(domains.domains, test_domains=tests)
    selection = selection_for("train-val" if quick and selection is None else selection, groups)
    planned = plan(data, domains, methods, draws, groups, selection, choices, quick)
    outputs = [out / name for name in (FILE, PAGE, SIBLINGS, SCORES)]
    check_outputs(outputs, planned, known_ids(out), overwrite)
    extend(out, planned, f"riskmatch advise {shlex.quote(data)}")
    remember(out, {name for run in planned for name in run.config.part_names})
    if finding:
        write_whole(out / SIBLINGS, to_json({data: [leave_out_together, finding]}).encode())
    note, failures = cost_of(planned, out, launcher, data_dir, on_progress), []
    for alone in (True, False):  # pairs of domains last, without predictions
        if runs := [run for run in planned if (run.config.test_domains in groups) == alone]:
            on_plan(runs, note)
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
    for baseline in baselines_for(inputs):
        values[baseline] = baseline_values(
            baseline,
            inputs,
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
    advice = replace(advice_for(config, best.expected), left_out=groups)
    checks = held_out_checks(selected, best.variant)
    advised = Advised(
        advice,
        selection,
        groups,
        judged,
        list(harms(selected, out / RUNS, domains.names)),
        out,
        {name: checks[name] for name in domains.names if name in checks},
        data_dir,
        failures,
        finding,
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


def _known_siblings(file: Path, data: str) -> tuple[list[list[str]], str] | None:
    """What an earlier call in the folder has found."""
    with suppress(OSError, ValueError, KeyError, TypeError):  # missing, damaged or of other data
        together, finding = json.loads(read_file(file))[data]
        return list(together), str(finding)
    return None
