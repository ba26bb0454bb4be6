"""Choose the run and the step that a table reports.

A case is a data set, a network, a method, a test domain and a trial. For every case a rule chooses
one run among the trial's draws of hyper-parameters, and one of its steps; the metric on the test
domain there is what tables show. It is the primary metric of the runs, unless another is given; the
rules below are in the words of accuracy, and the best of a metric such as RMSE is the lowest. The
first three rules are those of DomainBed (Gulrajani and
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
where runs have one, as runs imported from DomainBed do; else the one with fewer steps, then the
one with the smaller learning rate, batch size, weight decay, dropout and hyper-parameters of the
method by name, so that neither ids nor paths nor a plan count. A score that is NaN is never chosen.
Runs that have not finished count with the steps they have.

With ``after_warmup`` a rule chooses among the steps at which the method acts. A run that averages
its weights over a window of steps, ``swa`` or ``swad``, counts with its last step alone, at which
the average is complete.

How runs become cases is described at :func:`cases`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args, get_type_hints

import numpy as np
import pandas as pd

from riskmatch import registry
from riskmatch.metrics import MetricFacts
from riskmatch.runs.cases import CASE, cases, check_columns
from riskmatch.runs.config import WINDOW_AVERAGES, RunConfig, acts_from
from riskmatch.runs.frame import Paths, metrics_of, read_results
from riskmatch.runs.later_metric import with_metric
from riskmatch.runs.lines import Score, Split
from riskmatch.runs.records import RunRecord
from riskmatch.runs.task import ACCURACY_ALONE
from riskmatch.validation import check_option, listed

__all__ = ["CASE", "RULES", "Rule", "best_step", "cases", "choose", "choose_among", "find_rule"]

_CHOSEN = [*CASE, "run", "step", "acts", "score", "metric", "value", "draws"]


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
    or the mean over the other domains, each from the run of the same draw that also held it out."""
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
    after_warmup: bool = False
    """Choose among the steps at which the method acts, those after its warm-up, alone; a run
    without such a step is left out."""

    def __post_init__(self) -> None:
        types = get_type_hints(type(self))
        for name in ("domains", "split", "step", "over", "reported"):
            valid = get_args(types[name])
            check_option(f"{name} of the rule {self.name}", getattr(self, name), valid)


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
        TypeError: ``rule`` is neither a name nor a rule.

    Example:
        >>> find_rule("test-val").step
        'last'
    """
    if isinstance(rule, Rule):
        return rule
    if not isinstance(rule, str):
        raise TypeError(f"rule must be a name or a riskmatch.selection.Rule, got {rule!r}.")
    value = registry.find("selection", rule).value
    if not isinstance(value, Rule):
        raise registry.PartError(
            f"The selection rule '{rule}' must be a riskmatch.selection.Rule, got "
            f"{type(value).__name__}."
        )
    return value


def choose(
    runs: pd.DataFrame | Paths,
    rule: str | Rule = "train-val",
    plan: Iterable[RunConfig] = (),
    *,
    metric: str | None = None,
    after_warmup: bool = False,
) -> pd.DataFrame:
    """The choice of every case that has one, sorted by case.

    Args:
        runs: a data frame of :func:`riskmatch.results`, or the paths it takes, of which damaged
            runs are left out with a warning.
        rule: a name, or a rule of your own.
        plan: the runs that a sweep should have, where ``runs`` is a data frame; they count where
            :func:`cases` numbers the trials.
        metric: what is compared and reported, a name; None is the primary metric of the runs. One
            of your own that no record has is computed at the last step, see
            :func:`~riskmatch.runs.later_metric.with_metric`.
        after_warmup: choose among the steps at which the method acts, see :class:`Rule`.

    Returns:
        A row per case: ``data``, ``model``, ``variant``, ``test_domain``, ``trial``; the ``run``
        and ``step`` chosen; ``acts``, whether the method has acted by that step; ``score``,
        what the rule compared; ``metric``, its name, and ``value``, that on the test domain; and
        ``draws``, how many the rule chose from. Scores and values are in the unit of the metric, in
        which an accuracy is a share.

    Raises:
        ValueError: no run has the metric; runs have different primary metrics; or the data frame
            lacks columns.

    Example:
        >>> import riskmatch
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     for lr in (1e-5, 1e-3):
        ...         run = riskmatch.train(
        ...             "colored-digits", "erm", "0.9", lr=lr, steps=20, eval_every=10, out=folder
        ...         )
        ...     (choice,) = riskmatch.choose(folder, "test-val").itertuples()
        >>> choice.variant, choice.test_domain, choice.step, choice.draws
        ('erm', '0.9', 20, 2)
    """
    rule = find_rule(rule)
    rule = replace(rule, after_warmup=after_warmup or rule.after_warmup)
    if not isinstance(runs, pd.DataFrame):
        read = read_results(runs)
        read.warn()
        runs, evaluations, plan = read.runs, read.evaluations, read.plan
    else:
        check_columns(runs, ["run", "step"])
        evaluations = runs
    evaluations = with_metric(runs, evaluations, metric)
    table = cases(runs, plan)
    return choose_among(table, evaluations, rule, recorded_metric(table, evaluations, metric))


def recorded_metric(
    table: pd.DataFrame, evaluations: pd.DataFrame, metric: str | None = None
) -> str:
    """The name of a metric that runs have: ``metric``, or by default their own primary one.

    Args:
        table: rows of :func:`cases`, or of the runs of :func:`riskmatch.results`.
        evaluations: the evaluations of these runs.
        metric: a name.

    Raises:
        ValueError: no run has it, or the runs have different primary metrics.
    """
    recorded, primary = metrics_of(evaluations), table["metric"].dropna().unique()
    if metric is None and len(primary) > 1:
        raise ValueError(
            f"The runs have different primary metrics, {listed(sorted(primary))}: choose one with "
            "metric (--metric)."
        )
    name = str(metric or next(iter(primary), ACCURACY_ALONE.primary))
    if name not in recorded and evaluations["step"].notna().any():
        if not recorded:
            check_columns(evaluations, [f"{name}/SPLIT/DOMAIN"])
        raise ValueError(f"No run has the metric {name!r}. They have {listed(sorted(recorded))}.")
    return name


def choose_among(
    table: pd.DataFrame, evaluations: pd.DataFrame, rule: Rule, metric: str
) -> pd.DataFrame:
    """As :func:`choose`, of cases that are known already.

    Args:
        table: some rows of :func:`cases`.
        evaluations: the evaluations of their runs, as rows of :func:`riskmatch.results`.
        rule: the rule.
        metric: name of the metric that is compared and reported; runs without it have no choice.

    Raises:
        ValueError: the rule scores the validation part of a test domain with groups that are
            trained on.
    """
    if (refused := ~applies(rule, table)).any():
        name = table.loc[refused, "test_domain"].iloc[0]
        raise ValueError(
            f"{rule.name} scores the validation part of the test domain '{name}', whose groups "
            "training domains have, too: it would choose by samples that the network was trained "
            "on. Choose with train-val or leave-one-out."
        )
    lower = not (metrics_of(evaluations).get(metric) or MetricFacts(metric)).higher
    best = _candidates(table, evaluations, rule, metric).dropna(subset=["score", "value"])
    best = best.astype({"step": int}).sort_values(["score", "step"], ascending=[lower, True])
    best = best.drop_duplicates(["run", "test_domain"])
    best = table.drop(columns="metric").fillna({"number": 0}).merge(best, on=["run", "test_domain"])
    best = best.assign(metric=metric).sort_values(
        ["score", "number", "step", "place"], ascending=[lower, False, True, True]
    )
    if rule.over == "trial":
        best["draws"] = best.groupby(CASE)["run"].transform("size")
        chosen = best.drop_duplicates(CASE)
    else:
        groups = best.groupby(CASE[:-1], sort=False)
        parts = [_of_all_trials(group, lower) for _, group in groups]
        chosen = pd.concat(parts) if parts else best.assign(draws=0)
    return chosen.sort_values(CASE)[_CHOSEN].reset_index(drop=True)


def applies(rule: Rule, table: pd.DataFrame) -> pd.Series[bool]:
    """Whether a rule may choose for each of the cases, which are rows of :func:`cases`.

    Where groups span domains, only the part ``train`` of a test domain has unseen groups.
    """
    own = {rule.reported} if rule.domains == "training" else {rule.reported, rule.split}
    pairs = zip(table["test_domain"], table["shared_groups"], strict=True)
    fits = ["val" not in own or test not in shared for test, shared in pairs]
    return pd.Series(fits, table.index, dtype=bool)


def best_step(run: RunRecord, after_warmup: bool = False) -> int | None:
    """The step that ``train-val`` chooses of a single run, for its checkpoints; None without any.

    It has the best mean of the primary metric of the run over the training domains. Without data
    frames, as it is called at every evaluation of a training.
    """
    start = acts_from(run.config) if after_warmup else 0
    if start is None:
        return None
    evaluations = run.evaluations[-1 if run.config.average in WINDOW_AVERAGES else 0 :]
    acting = [e for e in evaluations if not start or e.step > start]
    scores = {e.step: validation_score(run, e.scores) for e in acting}
    known = {step: score for step, score in scores.items() if not math.isnan(score)}
    facts = run.task.metrics.get(run.task.primary)
    best = max if facts is None or facts.higher else min
    return best(known, key=known.__getitem__) if known else None


def validation_score(run: RunRecord, scores: Mapping[str, Mapping[Split, Score]]) -> float:
    """Mean over the training domains of the primary metric of a run; NaN where one is missing."""
    domains = [d for d in scores if d not in run.config.test_domains]
    scored = [scores[domain].get("val") for domain in domains]
    primary = run.task.primary
    numbers = [math.nan if s is None else s.metrics.get(primary, math.nan) for s in scored]
    return sum(numbers) / len(numbers) if numbers else math.nan


def _of_all_trials(runs: pd.DataFrame, lower: bool) -> pd.DataFrame:
    """The runs of the draw that is best over all trials; the first of equals in ``runs``."""
    runs = runs.drop_duplicates(["draw", "trial"])
    scores = runs.pivot(index="draw", columns="trial", values="score")
    shared = scores.dropna(axis="columns")
    means = (scores if shared.empty else shared).apply(
        lambda row: math.fsum(row.dropna()) / row.count(), axis="columns"
    )
    means = means[runs["draw"].unique()]
    best = str(means.idxmin() if lower else means.idxmax())
    return runs[runs["draw"] == best].assign(draws=len(means))


def _candidates(
    table: pd.DataFrame, evaluations: pd.DataFrame, rule: Rule, metric: str
) -> pd.DataFrame:
    """Every case with every step it may choose, with score and value, which may be NaN."""
    columns = [name for name in evaluations if str(name).startswith(f"{metric}/")]
    known = evaluations["step"].notna() & evaluations["run"].isin(table["run"])
    evaluations = evaluations.loc[known, ["run", "step", *columns]]
    averaged = evaluations["run"].isin(table.loc[table["average"].isin(WINDOW_AVERAGES), "run"])
    # The window of swad may end runs of the same draw at different steps.
    evaluations = evaluations.assign(moment=evaluations["step"].mask(averaged, -1))
    if averaged.any():
        evaluations = pd.concat([evaluations[~averaged], _last(evaluations[averaged])])
    steps = _last(evaluations) if rule.step == "last" else evaluations
    needed = ["run", "test_domain", "test_domains", "domains", "acts_from"]
    rows = table.loc[table["test_domain"].notna(), needed].merge(steps, on="run")
    rows["acts"] = acts(rows["acts_from"], rows["step"])
    if rule.after_warmup:
        rows = rows[rows["acts"]].reset_index(drop=True)
    split: str = rule.split
    if rule.domains == "left-out":
        rows, split = _with_left_out(rows, table, evaluations, metric, split), "left-out"
    rows[["score", "value"]] = np.nan
    groups: Any = rows.groupby(["domains", "test_domains", "test_domain"], sort=False)
    for (domains, tests, test), part in groups:
        if rule.domains == "test":
            scored = [domain for domain in tests if domain == (rule.test_domain or test)]
        else:
            scored = [domain for domain in domains if domain not in tests]
        # Added one by one in the order of the data set, so that what is equal in DomainBed is here.
        total = sum(_values(part, metric, split, domain) for domain in scored)
        rows.loc[part.index, "score"] = total / len(scored) if scored else np.nan
        rows.loc[part.index, "value"] = _values(part, metric, rule.reported, test)
    return rows[["run", "test_domain", "step", "acts", "score", "value"]]


def _last(evaluations: pd.DataFrame) -> pd.DataFrame:
    """The last evaluation of every run."""
    return evaluations.sort_values("step", kind="stable").drop_duplicates("run", keep="last")


def _with_left_out(
    rows: pd.DataFrame, table: pd.DataFrame, evaluations: pd.DataFrame, metric: str, split: str
) -> pd.DataFrame:
    """``rows`` with a column ``METRIC/left-out/DOMAIN`` for each domain that pairs left out.

    It holds the metric on that domain of the run of the same draw, at the same moment, that held
    it out besides the test domain; one of the same seed is preferred. Draws of DomainBed are
    matched by their number, since forks log the test domains among the hyper-parameters.
    """
    runs = table.drop_duplicates("run")
    number, size = runs["number"].astype(object), runs["test_domains"].map(len)
    runs = runs.assign(key=number.where(number.notna(), runs["draw"]))
    pairs = runs[size == 2]
    pairs = pairs.assign(other=[tests[::-1] for tests in pairs["test_domains"]])
    matches = (
        runs[size == 1]
        .explode("test_domains")
        .merge(
            pairs.explode(["test_domains", "other"]),
            on=["data", "model", "variant", "key", "trial", "test_domains"],
            suffixes=("", "_of_pair"),
        )
    )
    matches["other_seed"] = matches["seed"] != matches["seed_of_pair"]
    matches = matches.sort_values(["other_seed", "run_of_pair"]).drop_duplicates(["run", "other"])
    for other, match in matches[["run", "run_of_pair"]].groupby(matches["other"]):
        known = evaluations[["run", "moment"]].set_axis(["run_of_pair", "moment"], axis="columns")
        known[f"{metric}/left-out/{other}"] = _values(evaluations, metric, split, str(other))
        left_out = match.merge(known, on="run_of_pair").drop(columns="run_of_pair")
        rows = rows.merge(left_out, how="left", on=["run", "moment"])
    return rows


def acts(start: pd.Series[int], step: pd.Series[int]) -> pd.Series[bool]:
    """Whether methods that act from ``start``, missing where they never do, acted by ``step``."""
    return ((start == 0) | (step > start)).fillna(False).astype(bool)


def _values(rows: pd.DataFrame, metric: str, split: str, domain: str) -> pd.Series[float]:
    name = f"{metric}/{split}/{domain}"
    return rows[name] if name in rows else pd.Series(np.nan, rows.index)
