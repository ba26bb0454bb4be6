"""Choose the run and the step that a table reports.

A case is a data set, a network, a method, a test domain and a trial. For every case a rule chooses
one run among the trial's draws of hyper-parameters, and one of its steps; the accuracy on the test
domain there is what tables show. The first three rules are those of DomainBed (Gulrajani and
Lopez-Paz, ICLR 2021), the others those of the paper's Table 1:

======================  ==========================================================================
``train-val``           the highest mean accuracy on the validation splits of the training domains
``test-val``            the oracle: the highest accuracy on the test domain's validation split, each
                        run at its last step
``leave-one-out``       the highest mean over the other domains v of the accuracy on v of the run of
                        the same draw, at the same step, that held out v besides the test domain
``colored-mnist-best``  one draw for all seeds together: the highest mean accuracy on the validation
                        digits of the test domain 0.9, each run at its best step by that accuracy
``colored-mnist-last``  the same, each run at its last step
======================  ==========================================================================

Ties: the first of equal steps of a run. Of equal draws the one with the largest ``hparams_seed``
where runs have one, as runs imported from DomainBed do; else the one with fewer steps, then the one
with the smaller id. A score that is NaN is never chosen. Runs that have not finished count with the
steps they have.

How runs become cases is described at :func:`cases`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from riskmatch import registry
from riskmatch.runs.cases import CASE, cases
from riskmatch.runs.config import RunConfig
from riskmatch.runs.frame import read_results
from riskmatch.runs.records import Split

__all__ = ["CASE", "RULES", "Rule", "cases", "choose", "choose_among", "find_rule"]

_CHOSEN = [*CASE, "run", "step", "score", "accuracy", "draws"]


@dataclass(frozen=True)
class Rule:
    """A rule of selection. One of your own is named ``--select package.module:NAME``.

    Example:
        >>> Rule("best-on-test", "the accuracy on the test domain", domains="test", split="train")
        Rule(name='best-on-test', summary='the accuracy on the test domain', ...)
    """

    name: str
    summary: str
    """What it maximises, to follow "the best of"."""
    domains: Literal["training", "test", "left-out"]
    """The domains whose accuracy is the score: the mean over the training domains, the test domain,
    or the mean over the other domains, each as the run of the same draw scores it that held it out
    besides the test domain."""
    split: Split = "val"
    """The split of these domains that is scored."""
    step: Literal["best", "last"] = "best"
    """The step of each run: the one of the best score, or the last."""
    over: Literal["trial", "all trials"] = "trial"
    """Whether each trial chooses a draw of its own, or all together the one with the best mean
    score, compared on the trials that every draw has."""
    test_domain: str | None = None
    """With ``domains="test"``, the test domain that is scored for all test domains of a run; each
    is scored for itself where this is None."""
    reported: Split = "train"
    """The split of the test domain whose accuracy is reported. A run never trains on either."""


_COLORED_MNIST = "the validation accuracy on the test domain 0.9, over values of the searched "
_COLORED_MNIST += "hyper-parameter for all seeds together"
RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule(
            "train-val",
            "the mean validation accuracy over the training domains, over draws and steps",
            domains="training",
        ),
        Rule(
            "test-val",
            "the validation accuracy on the test domain (the oracle), over draws at their last "
            "step",
            domains="test",
            step="last",
        ),
        Rule(
            "leave-one-out",
            "the mean accuracy on each other domain when it was held out too, over draws and steps",
            domains="left-out",
            split="train",
        ),
        Rule(
            "colored-mnist-best",
            f"{_COLORED_MNIST}, and over steps",
            domains="test",
            over="all trials",
            test_domain="0.9",
        ),
        Rule(
            "colored-mnist-last",
            f"{_COLORED_MNIST}, at the last step",
            domains="test",
            step="last",
            over="all trials",
            test_domain="0.9",
        ),
    )
}
"""The built-in rules by name."""


def find_rule(rule: str | Rule) -> Rule:
    """The rule of a name, built in or the user's own.

    Raises:
        PartError: there is no such rule, or it is not a :class:`Rule`.

    Example:
        >>> find_rule("test-val").step
        'last'
    """
    if isinstance(rule, Rule):
        return rule
    value = registry.find("selection", rule).value
    if not isinstance(value, Rule):
        raise registry.PartError(
            f"The selection rule '{rule}' must be a riskmatch.selection.Rule, got "
            f"{type(value).__name__}."
        )
    return value


def choose(
    runs: pd.DataFrame | str | Path | Sequence[str | Path],
    rule: str | Rule = "train-val",
    plan: Iterable[RunConfig] = (),
) -> pd.DataFrame:
    """The choice of every case that has one, sorted by case.

    Args:
        runs: a data frame of :func:`riskmatch.results`, or the paths it takes.
        rule: a name, or a rule of your own.
        plan: the runs that a sweep should have, where ``runs`` is a data frame; they count where
            :func:`cases` numbers the trials.

    Returns:
        A row per case: ``data``, ``model``, ``variant``, ``test_domain``, ``trial``; the ``run``
        and ``step`` chosen; ``score``, what the rule maximised; ``accuracy`` on the test domain;
        and ``draws``, how many the rule chose from. Scores and accuracies are shares.
    """
    rule = find_rule(rule)
    if not isinstance(runs, pd.DataFrame):
        paths = [runs] if isinstance(runs, str | Path) else runs
        found = read_results([Path(path) for path in paths])
        runs, plan = found.frame, found.plan
    return choose_among(cases(runs, plan), runs, rule)


def choose_among(table: pd.DataFrame, frame: pd.DataFrame, rule: Rule) -> pd.DataFrame:
    """As :func:`choose`, of cases that are known already.

    Args:
        table: some rows of :func:`cases`.
        frame: the evaluations of their runs.
        rule: the rule.
    """
    candidates = _candidates(table, frame, rule)
    candidates = candidates.dropna(subset=["score", "accuracy"])
    best = candidates.sort_values(["score", "step"], ascending=[False, True], kind="stable")
    best = best.drop_duplicates(["run", "test_domain"])
    best = best.assign(step=best["step"].astype(int), number=best["number"].fillna(0)).sort_values(
        ["score", "number", "step", "run"], ascending=[False, False, True, True]
    )
    if rule.over == "trial":
        best["draws"] = best.groupby(CASE)["run"].transform("size")
        chosen = best.drop_duplicates(CASE)
    else:
        groups = best.groupby(CASE[:-1], sort=False)
        parts = [_of_all_trials(group) for _, group in groups]
        chosen = pd.concat(parts) if parts else best.assign(draws=0)
    return chosen.sort_values(CASE)[_CHOSEN].reset_index(drop=True)


def _of_all_trials(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of the draw that is best over all trials, from one run per draw and trial."""
    scores = runs.drop_duplicates(["draw", "trial"]).pivot(
        index="draw", columns="trial", values="score"
    )
    shared = scores.dropna(axis="columns")
    if not shared.empty:
        scores = shared
    means = {
        draw: math.fsum(row.dropna()) / row.count()
        for draw, row in scores.reindex(runs["draw"].unique()).iterrows()
    }
    best = max(means, key=lambda draw: means[draw])  # of equals the first, which sorts first
    return runs[runs["draw"] == best].drop_duplicates("trial").assign(draws=len(means))


_NEEDED = {"run", "step", "domains", "test_domains"}


def _candidates(table: pd.DataFrame, frame: pd.DataFrame, rule: Rule) -> pd.DataFrame:
    """Every case with every step it may choose, with score and accuracy, which may be NaN."""
    needed = [name for name in frame if name in _NEEDED or str(name).startswith("accuracy/")]
    frame = frame[needed]
    evaluations = frame[frame["step"].notna() & frame["run"].isin(table["run"])]
    if rule.step == "last":
        last = evaluations.sort_values("step", kind="stable")
        evaluations = last.drop_duplicates("run", keep="last")
    alone = table[table["test_domain"].notna()]
    scores: pd.Series[float] | None = None
    if rule.domains == "training":
        scores = _mean(evaluations, lambda rows, d: _accuracy(rows, rule.split, d))
    elif rule.domains == "left-out":
        scores = _left_out(evaluations, table, frame, rule)
    parts = []
    for domain, own in alone.groupby("test_domain"):
        rows = evaluations[evaluations["run"].isin(own["run"])]
        columns = {
            "step": rows["step"],
            "accuracy": _accuracy(rows, rule.reported, str(domain)),
            "score": _on_test(rows, rule, str(domain)) if scores is None else scores,
        }
        part = pd.DataFrame({"run": rows["run"], **columns}, index=rows.index)
        parts.append(own.merge(part, on="run"))
    if not parts:
        return alone.assign(step=pd.Series(dtype="Int64"), accuracy=np.nan, score=np.nan)
    return pd.concat(parts, ignore_index=True)


def _on_test(rows: pd.DataFrame, rule: Rule, domain: str) -> pd.Series[float]:
    """The accuracy on the test domain that is scored; NaN for runs that do not test on it."""
    scored = rule.test_domain or domain
    return _accuracy(rows, rule.split, scored).where(
        rows["test_domains"].map(lambda tests: scored in tests)
    )


def _left_out(
    evaluations: pd.DataFrame, table: pd.DataFrame, frame: pd.DataFrame, rule: Rule
) -> pd.Series[float]:
    """The mean accuracy on each other domain of the run that held it out too, at the same step."""
    partners = _partners(table)
    index = pd.MultiIndex.from_frame(frame[["run", "step"]])

    def value(rows: pd.DataFrame, domain: str) -> pd.Series[float]:
        known = pd.Series(_accuracy(frame, rule.split, domain).to_numpy(), index)
        partner = [partners.get((run, domain), "") for run in rows["run"]]
        at = pd.MultiIndex.from_arrays([partner, rows["step"]])
        return pd.Series(known.reindex(at).to_numpy(), rows.index)

    return _mean(evaluations[evaluations["test_domains"].map(len) == 1], value)


def _partners(table: pd.DataFrame) -> dict[tuple[str, str], str]:
    """The run that held out another domain too, by the run and this domain.

    Draws of DomainBed are matched by their number, since forks log the test domains among the
    hyper-parameters. A run of the same seed is preferred.
    """
    runs = table.drop_duplicates("run")
    pairs: dict[tuple[Any, int, frozenset[str]], list[tuple[int, str]]] = defaultdict(list)
    columns = (runs[name] for name in ("trial", "test_domains", "seed", "run"))
    keys = list(zip(_draw_keys(runs), *columns, strict=True))
    for key, trial, tests, seed, run in keys:
        if len(tests) == 2:
            pairs[key, trial, frozenset(tests)].append((seed, run))
    partners = {}
    for (key, trial, tests, seed, run), domains in zip(keys, runs["domains"], strict=True):
        for other in set(domains).difference(tests) if len(tests) == 1 else ():
            found = pairs.get((key, trial, frozenset((*tests, other))))
            if found:
                partners[run, other] = min(found, key=lambda one: (one[0] != seed, one[1]))[1]
    return partners


def _draw_keys(runs: pd.DataFrame) -> list[Any]:
    """What the runs of a draw have in common, whatever their test domains."""
    columns = (runs[name] for name in ("draw", "data", "model", "variant", "number"))
    return [
        draw if math.isnan(number) else (data, model, method, number)
        for draw, data, model, method, number in zip(*columns, strict=True)
    ]


def _mean(
    rows: pd.DataFrame, value: Callable[[pd.DataFrame, str], pd.Series[float]]
) -> pd.Series[float]:
    """The mean of ``value`` over the training domains of each row's run.

    The sum is added one by one in the order of the data set, as DomainBed adds it, so that scores
    which are equal there are equal here.
    """
    mean = pd.Series(np.nan, rows.index)
    groups: Any = rows.groupby(["domains", "test_domains"], sort=False)
    for (domains, tests), part in groups:
        training = [domain for domain in domains if domain not in tests]
        if training:
            total = pd.Series(0.0, part.index)
            for domain in training:
                total = total + value(part, domain)
            mean[part.index] = total / len(training)
    return mean


def _accuracy(rows: pd.DataFrame, split: str, domain: str) -> pd.Series[float]:
    name = f"accuracy/{split}/{domain}"
    return rows[name] if name in rows else pd.Series(np.nan, rows.index)
