"""Logs of sweeps against what was published about them: `python benchmarks/audit.py DIR …`.

For runs imported from DomainBed or a fork of it: how many trials and draws there are, where the
hyper-parameters lie in the published ranges, what each rule of selection reports and how many of
the printed numbers that reproduces, and how much the result depends on the draw. For logs of the
code for ColoredMNIST, one line per run: the accuracy at every p.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from riskmatch.report import titles
from riskmatch.report.published import PAPER, PER_DOMAIN, TABLE2, Published
from riskmatch.report.selected import (
    RowKey,
    Selected,
    choices_by_run,
    select,
    select_among,
)
from riskmatch.report.tables import Cell, Table, Trials, fixed
from riskmatch.runs.domainbed import read_domainbed
from riskmatch.runs.frame import Results, results_of
from riskmatch.selection import RULES, Rule, recorded_metric

SUFFIXES = {
    "_lambda": "weight",
    "penalty_anneal_iters": "warmup",
    "burnin_iters": "warmup",
    "resnet_dropout": "dropout",
}
"""Ends of DomainBed's names of hyper-parameters, and the names that they have here."""
LR_AFTER = ("dgpm_lr", "rdm_lr", "eqrm_lr")
PROTOCOL = {"draws in a trial": "20", "trials": "10", "steps": "5000"}
"""What the paper says of its own runs on images."""
AVERAGE = "average"
_TRAIN_VAL = RULES["train-val"]
_BEST = Rule("best on test", "the accuracy on the test domain itself", "test", "train")


def audit_tables(results: Results) -> list[Table]:
    """The tables of the audit, for every data set and method in turn.

    Args:
        results: runs of a sweep, as :func:`riskmatch.runs.domainbed.read_domainbed` reads them.

    Raises:
        ValueError: no run has an accuracy.
    """
    recorded_metric(results.runs, results.evaluations, "accuracy")
    return [
        made
        for one in select(results, _TRAIN_VAL).values()
        for key in one.rows
        for made in _audit(one, key)
    ]


def _audit(selected: Selected, key: RowKey) -> list[Table]:
    own = selected.part(key, selected.alone)
    name = f"{selected.label(*key)} on {titles.data_title(selected.data)}"
    runs = selected.results.runs.set_index("run").loc[own["run"].unique()]
    return [
        _protocol(name, own, runs, key.variant == "rdm" and selected.data in PER_DOMAIN),
        _ranges(name, runs.reset_index(), selected.data, key.variant),
        _rules(name, selected, key),
        _draws(name, selected, key),
    ]


def _protocol(name: str, own: pd.DataFrame, runs: pd.DataFrame, printed: bool) -> Table:
    """Numbers of trials, draws and steps."""
    draws = own.groupby(["test_domain", "trial"])["run"].nunique()
    counts = {
        "runs": str(len(runs)),
        "test domains": str(own["test_domain"].nunique()),
        "trials": _values(own.groupby("test_domain")["trial"].nunique()),
        "draws in a trial": _values(draws),
        "steps": _values(runs["steps"]),
        "steps between evaluations": _values(runs["eval_every"]),
    }
    rows = [
        (what, value, PROTOCOL.get(what) if printed else None) for what, value in counts.items()
    ]
    return Table(
        f"{name}: protocol, in the logs and in the paper.", ("", "logs", "paper"), (*rows,)
    )


def _ranges(name: str, runs: pd.DataFrame, data: str, variant: str) -> Table:
    """Hyper-parameters beside the ranges of the paper and of its released code."""
    from riskmatch.defaults import search_space
    from riskmatch.registry import PartError

    spaces = []
    for preset in ("paper", "authors-code"):
        try:
            spaces.append(search_space(variant.split()[0], data, preset=preset))
        except PartError:
            spaces.append({})
    values = pd.DataFrame(list(map(_named, _hparams(runs).values())))
    defaults = values[values["hparams_seed"] == 0]  # DomainBed's draw 0
    drawn = values[values["hparams_seed"] != 0]
    rows: list[tuple[Cell, ...]] = []
    for column in sorted({str(name) for name in values} - {"hparams_seed"}):
        known = drawn[column].dropna().tolist()
        cells: list[Cell] = [_span(defaults[column].dropna().tolist()), _span(known)]
        published = [space[column].on(data) if column in space else None for space in spaces]
        cells.append(f"{published[0].default}" if published[0] else None)
        for tuned in published:
            outside = [value for value in known if tuned and value not in tuned.range]
            cells += [f"{tuned.range}", len(outside)] if tuned else [None, None]
        rows.append((column, *cells))
    return Table(
        f"{name}: hyper-parameters of {len(values)} runs. Outside: drawn values, of "
        f"{len(drawn)}, that the range does not contain.",
        (
            "hyper-parameter",
            *("default, logs", "drawn, logs", "default, paper"),
            *("range, paper", "outside", "range, released code", "outside"),
        ),
        tuple(rows),
    )


def _rules(name: str, selected: Selected, key: RowKey) -> Table:
    """What each rule of selection reports, and how many printed numbers that is."""
    evaluations = selected.results.evaluations
    starts = selected.cases.drop_duplicates("run").set_index("run")["acts_from"]
    begins = evaluations["run"].map(starts).fillna(0)
    before = replace(selected.results, evaluations=evaluations[evaluations["step"] <= begins])
    variants: dict[str, tuple[Rule, Results]] = {
        "train-val": (_TRAIN_VAL, selected.results),
        "train-val, once the method acts": (
            replace(_TRAIN_VAL, after_warmup=True),
            selected.results,
        ),
        "train-val, before the method acts": (_TRAIN_VAL, before),
        "test-val (oracle, last step)": (RULES["test-val"], selected.results),
        "best step on the test domain": (_BEST, selected.results),
    }
    if selected.cases["test_domain"].isna().any():
        variants["leave-one-out"] = (RULES["leave-one-out"], selected.results)
    printed = _printed(selected.data, key.variant)
    columns = (*selected.domains, AVERAGE)
    rows: list[tuple[Cell, ...]] = []
    for title, (rule, results) in variants.items():
        if results.evaluations.empty:
            continue
        made = select_among(selected.cases, results, rule, selected.metric)[selected.data]
        cells = {**made.by_domain(key), AVERAGE: made.by_trial(key)}
        trials = {column: Trials(cells[column]) for column in columns}
        same = [
            ours == theirs
            for column in columns
            if column in printed
            for ours, theirs in zip(
                _texts(trials[column]), map(fixed, printed[column]), strict=True
            )
        ]
        steps = selected.part(key, made.chosen)
        acting = f"{int(steps['acts'].sum())} of {len(steps)}"
        equal = f"{sum(same)} of {len(same)}" if same else None
        rows.append((title, *trials.values(), acting, equal))
    if printed:
        rows.append(("paper", *map(printed.get, columns), None, None))
    return Table(
        f"{name}: accuracy in per cent by rule of selection, mean ± standard error over trials. "
        "Acts: choices of a step at which the method acts. Equal: numbers, means and errors, that "
        f"equal those printed in {PAPER}.",
        ("selection", *columns, "acts", "equal"),
        tuple(rows),
    )


def _printed(data: str, variant: str) -> dict[str, Published]:
    """Numbers that the paper prints of a method, by test domain, and their average."""
    row, overview = PER_DOMAIN.get(data, {}).get(variant), TABLE2.get(variant)
    if row is None or overview is None:
        return {}
    return {**row.columns, AVERAGE: overview.columns[data]}


def _draws(name: str, selected: Selected, key: RowKey) -> Table:
    """Accuracy of every draw at the step that its own validation chooses."""
    own = selected.part(key, choices_by_run(selected))
    trials = selected.cases.drop_duplicates("run").set_index("run")["trial"]
    chosen = selected.values(key)
    rows: list[tuple[Cell, ...]] = []
    groups: Any = own.groupby(["test_domain", own["run"].map(trials)])
    for (domain, trial), part in groups:
        values = sorted(100 * part["value"])
        agreement = part["score"].corr(part["value"], "spearman")
        spread = (values[0], float(median(values)), values[-1], values[-1] - values[0])
        cells = (len(values), *spread, chosen.get((domain, trial)), agreement)
        rows.append((f"{domain}, trial {trial}", *cells))
    return Table(
        f"{name}: accuracy on the test domain over draws, each at the step of its best validation "
        "accuracy, and of the draw that train-val chooses. Rank correlation: of the validation "
        "accuracy on training domains with the accuracy on the test domain, over draws.",
        ("test domain", "draws", "lowest", "median", "highest", "range", "chosen", "rank corr."),
        tuple(rows),
    )


def _texts(cell: Trials) -> tuple[str, str]:
    """Mean and error as they are printed."""
    return fixed(cell.mean or 0.0), fixed(cell.error or 0.0)


def _hparams(runs: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Numbers among the hyper-parameters of every run, by their names in the logs."""
    names = [str(name) for name in runs if str(name).startswith("hparams/")]
    kept = runs[["run", "lr", "weight_decay", "dropout", "batch_size", *names]]
    return {
        str(values.pop("run")): {
            str(name).removeprefix("hparams/"): float(value)
            for name, value in values.items()
            if isinstance(value, int | float) and not isinstance(value, bool) and value == value
        }
        for values in kept.to_dict("records")
    }


def _named(logged: Mapping[str, float]) -> dict[str, float]:
    """Hyper-parameters by the names that they have here."""
    named = {}
    for name, value in logged.items():
        ends = [ours for end, ours in SUFFIXES.items() if name.endswith(end)]
        named["lr_after" if name in LR_AFTER else ends[0] if ends else name] = value
    return named


def _values(numbers: pd.Series[int]) -> str:
    """The distinct values of some numbers: ``5``, or ``4 to 5``."""
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low}" if low == high else f"{low} to {high}"


def _span(values: Sequence[float]) -> str | None:
    """Smallest and largest value; None of none."""
    if not values:
        return None
    low, high = min(values), max(values)
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def colored_mnist_table(folder: Path) -> Table:
    """Accuracy at every p of the runs of the authors' code for ColoredMNIST."""
    shifts = [f"{p / 10:.1f}" for p in range(11)]
    rows: list[tuple[Cell, ...]] = []
    for file in sorted(folder.glob("*.jsonl")):
        run = json.loads(file.read_text("utf-8"))
        start = "ERM" if run["args"]["erm_pretrain_iters"] else "random"
        for step in ("best", "final"):
            values = [100 * run[f"{p}_acc_{step}"] for p in shifts]
            weight = f"{run['args']['variance_weight']:g}"
            rows.append((start, weight, step, *values, min(values)))
    return Table(
        "RDM on ColoredMNIST: accuracy in per cent on MNIST's test digits by the probability p "
        "that colour and label disagree, at the step of the best validation accuracy and at the "
        "last. Seed 0.",
        ("initialisation", "variance weight", "step", *(f"p = {p}" for p in shifts), "worst p"),
        tuple(sorted(rows, key=lambda row: (row[2], row[0], row[1]))),
    )


def main(*folders: str) -> None:
    print("# The authors' logs, audited")
    for folder in map(Path, folders):
        print(f"\n## {folder.name}\n")
        if list(folder.glob("*.jsonl")):
            print(colored_mnist_table(folder).markdown())
            continue
        sweep = read_domainbed(folder)
        for fault in sweep.faults:
            print(fault, file=sys.stderr)
        tables = audit_tables(results_of(sweep.runs))
        print(f"Read {len(sweep.runs)} runs from {sweep.files} files.")
        for table in tables:
            print(f"\n{table.markdown()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
