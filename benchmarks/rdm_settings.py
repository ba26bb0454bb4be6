"""Other settings of RDM on ColoredMNIST: is there a flat model, and do bootstraps matter?

`python benchmarks/rdm_settings.py plan` plans runs in results/colored-mnist-settings: every setting
on seed 0, and those of RDM and VREx that were the flattest there on seeds 1 and 2, too;
`riskmatch sweep run results/colored-mnist-settings` trains them. Without an argument, the script
reads these runs and those of Table 1 in results/colored-mnist, as far as they are done, and writes
flat.md, bootstrap.md and kernel.md to the latter.

The rule of flat.md uses the validation digits of the training domains p = 0.1 and 0.2 alone: of all
steps after the ERM phase at which their mean risks differ by at most a tolerance, the one with the
lowest mean risk, over all runs of a seed.

With two training domains, L and L̂ are equal for the MMD and the energy distance, so that L is
trained with two moments alone (`test_both_matches_are_equal_for_two_domains`).
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from riskmatch import results
from riskmatch.experiments.colored_mnist import (
    METHODS,
    PRETRAIN,
    TARGET_P,
    TEST_P,
    GridRun,
    domain_name,
    grid_runs,
)
from riskmatch.experiments.experiment import RUNS, Init
from riskmatch.experiments.reproduction import finished_records
from riskmatch.experiments.table1 import RULES, select
from riskmatch.report.tables import Cell, Spread, Table
from riskmatch.sweep.plan import PlannedRun, extend

FOLDER = Path(__file__).resolve().parent.parent / "results" / "colored-mnist"
TRAINING = (0.1, 0.2)
SEEDS = (0, 1, 2)
GRADUAL = "benchmarks.gradual:GradualRDM"
OTHERS = FOLDER.parent / "colored-mnist-settings"
ACCURACIES = ("worst p", "p = 0", "p = 0.9")
FAMILIES = {"RDM": ("rdm", "rdm-mmd", "other"), "VREx": ("vrex",)}
TOLERANCES = (0.005, 0.0075, 0.01, 0.015, 0.02, 0.03)
KERNEL_WEIGHTS = (300.0, 1000.0, 3000.0, 10000.0)
LONGER = {"pretrain": PRETRAIN + 200, "steps": 800}
SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[float, ...]]] = {
    "kernel of the paper": ({"divergence": "mmd", "kernel": "paper"}, {}, KERNEL_WEIGHTS),
    "L, two moments": ({"match": "variance"}, {}, (10000.0,)),
    "energy distance": ({"divergence": "energy"}, {}, (100.0, 1000.0, 3000.0)),
    "Wasserstein-2": ({"divergence": "wasserstein-2"}, {}, (100.0, 1000.0)),
    "two moments, λ raised over 100 steps": ({}, {"method": GRADUAL}, (10000.0,)),
    "kernel, λ raised over 100 steps": ({"divergence": "mmd"}, {"method": GRADUAL}, (1000.0,)),
    "two moments, longer ERM phase": ({}, LONGER, (10000.0,)),
    "kernel, longer ERM phase": ({"divergence": "mmd"}, LONGER, (1000.0,)),
}
"""Settings by name: hyper-parameters and fields of a run that are not Table 1's, values of λ."""
FLATTEST = (
    "RDM, two moments, λ = 1000",
    "RDM, two moments, λ = 2500",
    "RDM, Wasserstein-2, λ = 1000",
    "RDM, energy distance, λ = 3000",
    "VREx, λ = 5000",
)
"""Settings with the highest worst p on seed 0."""
KERNEL_CHOICE = (300.0, 1000.0)
"""λ of the kernel from ERM that the two rules of Table 1 choose on seed 0."""
BOOTSTRAPS: dict[Init, float] = {"erm": 10000.0, "random": 5000.0}
"""λ of the runs with two moments whose batches are drawn with replacement, chosen in Table 1."""


def settings(seed: int) -> list[PlannedRun]:
    """Runs of the other settings, from ERM."""
    (base, *_) = grid_runs("paper", ["rdm"], [seed], ["erm"])
    return [
        PlannedRun(
            replace(
                base.config,
                hparams={**base.config.hparams, **hparams, "weight": weight},
                **fields,
            ),
            f"RDM, {label}, λ = {weight:g}, seed {seed}",
        )
        for label, (hparams, fields, weights) in SETTINGS.items()
        for weight in weights
    ]


def confirmations() -> list[PlannedRun]:
    """Runs on seeds 1 and 2 of the settings that were the flattest on seed 0."""
    runs: list[PlannedRun] = [*grid_runs("paper", ["rdm", "vrex"], [1, 2], ["erm"])]
    runs += [run for seed in (1, 2) for run in settings(seed)]
    return [run for run in runs if _setting(run) in FLATTEST]


def _setting(run: PlannedRun) -> str:
    return run.title.rpartition(", seed ")[0].replace(" from ERM", "")


def bootstraps() -> list[tuple[GridRun, PlannedRun]]:
    """Runs of Table 1 on seed 0, each with the same run on batches drawn with replacement."""
    pairs = []
    for run in grid_runs("paper", ["rdm"], [0]):
        if run.value == BOOTSTRAPS[run.init]:
            config = replace(run.config, replacement=True)
            pairs.append((run, PlannedRun(config, f"{run.title}, with replacement")))
    return pairs


def plan() -> list[PlannedRun]:
    """All runs of results/colored-mnist-settings."""
    return [*(run for _, run in bootstraps()), *settings(0), *confirmations()]


def evaluations() -> pd.DataFrame:
    """Evaluations of runs from ERM once the method acts: risks, their gap, accuracies by p."""
    frame = results(FOLDER, OTHERS)
    runs = {
        run.config.id: (run.method, _setting(run))
        for run in grid_runs("paper", seeds=SEEDS, inits=["erm"])
    }
    for seed in SEEDS:
        runs |= {run.config.id: ("other", _setting(run)) for run in settings(seed)}
    frame = frame[frame["run"].isin(runs) & (frame["step"] > frame["pretrain"])]
    low, high = (frame[f"risk/val/{p:g}"] for p in TRAINING)
    domains = [f"accuracy/train/{domain_name(p, TRAINING)}" for p in TEST_P]
    accuracies = (100 * frame[domains]).set_axis(list(TEST_P), axis="columns")
    own = frame["run"].map(runs)
    return accuracies.assign(
        method=own.str[0],
        setting=own.str[1],
        seed=frame["seed"],
        step=frame["step"],
        risk=(low + high) / 2,
        gap=(high - low).abs(),
        worst=accuracies.min(axis="columns"),
    )


def last_steps(family: str) -> pd.DataFrame:
    """The last evaluation of every run of a family from ERM."""
    frame = evaluations().sort_values(["setting", "seed", "step"])
    frame = frame[frame["method"].isin(FAMILIES[family])]
    return frame.drop_duplicates(["setting", "seed"], keep="last")


def settings_table() -> Table:
    """Every setting of RDM and every λ of VREx at the last step."""
    frame, rows = pd.concat([last_steps(family) for family in FAMILIES]), list[tuple[Cell, ...]]()
    worst = frame.groupby("setting")["worst"].mean().sort_values(ascending=False)
    for setting in worst.index:
        own = frame[frame["setting"] == setting]
        risks = (f"{own[column].mean():.3f}" for column in ("risk", "gap"))
        rows.append((setting, *_accuracies(own), *risks, f"{len(own)}"))
    return Table(
        "Every setting of RDM and every λ of VREx, from ERM, at the last step, the flattest first. "
        "Accuracy on MNIST's test digits in per cent, mean ± standard deviation over seeds; risk: "
        "mean risk on the validation digits of the two training domains; gap: difference of their "
        "mean risks.",
        ("setting and λ", *ACCURACIES, "risk", "gap", "seeds"),
        tuple(rows),
    )


def common_table() -> Table:
    """What the rule chooses where one setting serves all seeds, at the last step."""
    rows = list[tuple[Cell, ...]]()
    for family in FAMILIES:
        frame = last_steps(family)
        frame = frame[frame.groupby("setting")["seed"].transform("nunique") == len(SEEDS)]
        means = frame.groupby("setting")[["risk", "gap"]].mean().sort_values("risk")
        for tolerance in TOLERANCES:
            setting = means[means["gap"] <= tolerance].index[0]
            own = frame[frame["setting"] == setting]
            rows.append((f"{family}, {tolerance:g}", *_accuracies(own), setting))
    return Table(
        "The same rule for one setting for all seeds, at the last step, among the settings trained "
        "on three seeds: means of risk and of gap over seeds.",
        ("method and tolerance", *ACCURACIES, "chosen"),
        tuple(rows),
    )


def _accuracies(frame: pd.DataFrame) -> tuple[Spread, ...]:
    return tuple(Spread(tuple(frame[column])) for column in ("worst", 0.0, 0.9))


def flat_table() -> Table:
    """What the rule chooses with every tolerance."""
    frame, rows = evaluations(), list[tuple[Cell, ...]]()
    for family, methods in FAMILIES.items():
        own = frame[frame["method"].isin(methods)]
        for tolerance in TOLERANCES:
            near = own[own["gap"] <= tolerance]
            chosen = near.sort_values(["seed", "risk"]).drop_duplicates("seed")
            picked = "; ".join(
                f"{setting} at {step}"
                for setting, step in zip(chosen["setting"], chosen["step"], strict=True)
            )
            rows.append((f"{family}, {tolerance:g}", *_accuracies(chosen), picked))
    return Table(
        "ColoredMNIST, from ERM: the step of lowest validation risk among those at which the mean "
        "risks of the two training domains differ by at most the tolerance, over all runs of a "
        "seed. Accuracy on MNIST's test digits in per cent, mean ± standard deviation over seeds "
        "0, 1 and 2. Chosen: method, λ and step, by seed.",
        ("method and tolerance", *ACCURACIES, "chosen"),
        tuple(rows),
    )


def bootstrap_table() -> Table:
    """Accuracy of the runs with and without replacement."""
    frame, rows = results(FOLDER, OTHERS).sort_values("step"), list[tuple[Cell, ...]]()
    columns = [f"accuracy/train/{domain_name(p, TRAINING)}" for p in (0.0, 0.5, TARGET_P)]
    for run, other in bootstraps():
        title = run.title.removesuffix(", seed 0")
        for label, id in (("whole domains", run.config.id), ("bootstraps", other.config.id)):
            own = frame[frame["run"] == id]
            best = own.sort_values(f"accuracy/val/{TARGET_P:g}").iloc[-1]
            accuracies = (*own[columns].iloc[-1], best[columns[-1]])
            rows.append((f"{title}: {label}", *(f"{100 * a:.1f}" for a in accuracies)))
    return Table(
        "ColoredMNIST, seed 0: whole domains as batches, as in Table 1, and batches of as many "
        "samples drawn with replacement, as in the released code. Accuracy on MNIST's test digits "
        "in per cent at the last step, and at the step of the highest accuracy on the validation "
        "digits of p = 0.9.",
        ("run and batches", "p = 0", "p = 0.5", "p = 0.9", "p = 0.9, chosen step"),
        tuple(rows),
    )


def kernel_table() -> Table:
    """Both λ of the kernel, and which of them the rules of Table 1 choose on all seeds."""
    runs = [run for run in grid_runs("paper", ["rdm-mmd"], SEEDS) if run.value in KERNEL_CHOICE]
    records = finished_records(runs, FOLDER / RUNS)
    chosen, rows = select(runs, records), list[tuple[Cell, ...]]()
    for weight in KERNEL_CHOICE:
        own = select([run for run in runs if run.value == weight], records)
        for rule, title in RULES.items():
            for row, best in zip(own[rule], chosen[rule], strict=True):
                mark = "chosen" if best.value == weight else ""
                start = "ERM" if row.init == "erm" else "random weights"
                seeds = f"{len(row.curves)}"
                setting = METHODS["rdm-mmd"].setting(weight)
                rows.append((start, title, setting, row.at(TARGET_P), row.worst, seeds, mark))
    return Table(
        "ColoredMNIST, RDM with the kernel, λ = 300 and 1,000: accuracy on MNIST's test digits in "
        "per cent, mean ± standard deviation over seeds. Chosen: the λ of the higher mean accuracy "
        "on the validation digits of p = 0.9 over the seeds that both have, at the best step of "
        "every seed (test-domain validation) or at the last.",
        ("initialisation", "selection", "λ", "p = 0.9", "worst p", "seeds", "choice"),
        tuple(sorted(rows, key=lambda row: row[:2])),
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["plan"]:
        extend(OTHERS, plan(), "python benchmarks/rdm_settings.py plan")
        raise SystemExit
    pages = {
        "flat": (flat_table(), common_table(), settings_table()),
        "bootstrap": (bootstrap_table(),),
        "kernel": (kernel_table(),),
    }
    for name, tables in pages.items():
        text = "\n\n".join(table.markdown() for table in tables)
        end = "\n\nWritten by `python benchmarks/rdm_settings.py`.\n"
        (FOLDER / f"{name}.md").write_text(text + end)
        print(text)
