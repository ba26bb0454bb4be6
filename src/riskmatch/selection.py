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
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, overload

import numpy as np
import pandas as pd

from riskmatch import registry
from riskmatch.runs.cases import CASE, cases
from riskmatch.runs.config import RunConfig, variant
from riskmatch.runs.frame import read_results
from riskmatch.runs.records import Evaluation, RunRecord, Split

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


@overload
def choose(runs: Iterable[RunRecord], rule: str) -> list[Choice]: ...
@overload
def choose(
    runs: pd.DataFrame | str | Path | Sequence[str | Path],
    rule: str | Rule = ...,
    plan: Iterable[RunConfig] = ...,
) -> pd.DataFrame: ...
def choose(
    runs: Any,
    rule: str | Rule = "train-val",
    plan: Iterable[RunConfig] = (),
) -> Any:
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
    if not isinstance(runs, pd.DataFrame | str | Path):
        runs = list(runs)
        if not runs or isinstance(runs[0], RunRecord):
            return _choose_records(runs, rule.name)
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


# Records in place of data frames, until their last users have moved to the functions above.

RuleName = str
EXPLAINED = {rule.name: rule.summary for rule in RULES.values()}
RECORD_RULES = "train-val", "test-val", "leave-one-out"


class Case(NamedTuple):
    """What one choice is made for."""

    data: str
    model: str
    method: str
    """As :func:`variant` names it."""
    domain: str
    """The test domain."""
    trial: int


@dataclass(frozen=True)
class Choice:
    """A run at one of its steps, and why it."""

    case: Case
    rule: str
    run: RunRecord
    evaluation: Evaluation
    score: float
    """What the rule maximised; a share."""
    accuracy: float
    """On the test domain; a share."""
    draws: int
    """How many runs it was chosen from: those that the rule could give a score."""

    @property
    def why(self) -> str:
        """One line: what was chosen, from how many, by what."""
        return (
            f"{self.run.config.id} at step {self.evaluation.step}, of {self.draws} "
            f"draw{'s' * (self.draws != 1)}: {100 * self.score:.1f} % is the best of "
            f"{EXPLAINED[self.rule]}"
        )


def _choose_records(runs: Iterable[RunRecord], rule: str) -> list[Choice]:
    """As :func:`choose`, on records in memory."""
    found = sorted(runs, key=lambda run: run.config.id)
    pairs = _pairs(found) if rule == "leave-one-out" else {}
    chosen = []
    for case, members in sorted(by_case(found).items()):
        bests = [_best(case, rule, _CANDIDATES[rule](member, pairs)) for member in members]
        eligible = [choice for choice in bests if choice is not None]
        if eligible:
            chosen.append(replace(min(eligible, key=_order), draws=len(eligible)))
    return chosen


def _best(case: Case, rule: str, candidates: Iterable[Candidate]) -> Choice | None:
    """The step of a run that the rule likes best."""
    best: Choice | None = None
    for run, evaluation, score in candidates:
        accuracy = _score_on(evaluation, case.domain, "train")
        if score is None or accuracy is None:
            continue
        if best is None or (-score, evaluation.step) < (-best.score, best.evaluation.step):
            best = Choice(case, rule, run, evaluation, score, accuracy, draws=1)
    return best


def _order(choice: Choice) -> tuple[float, float, int, str]:
    """The best of the draws first."""
    config = choice.run.config
    return -choice.score, -(seed_of_draw(config) or 0), choice.evaluation.step, config.id


def by_case(runs: Iterable[RunRecord]) -> dict[Case, list[RunRecord]]:
    """The runs with one test domain, by the case they are draws of."""
    cases: dict[Case, list[RunRecord]] = defaultdict(list)
    for run in runs:
        if len(run.config.test_domains) == 1:
            cases[case_of(run.config)].append(run)
    return dict(cases)


def case_of(config: RunConfig) -> Case:
    """The case that a run with one test domain is a draw of."""
    return Case(config.data, config.model, variant(config), config.test_domains[0], config.trial)


def draw_of(config: RunConfig) -> str:
    """The hyper-parameters of a run, as a name: equal where only domain, trial and seed differ."""
    return replace(config, test_domains=(), trial=0, seed=0).id


def seed_of_draw(config: RunConfig) -> float | None:
    """The number that DomainBed gave a draw; None for runs of ours."""
    seed = config.hparams.get("hparams_seed")
    return seed if isinstance(seed, int | float) else None


def redrawn(configs: Iterable[RunConfig]) -> bool | None:
    """Whether trials draw hyper-parameters of their own, or are replicates of the same draws.

    None where that cannot be told: trials lack draws that others have, and have none of their own.
    """
    draws: dict[int, set[str]] = defaultdict(set)
    for config in configs:
        draws[config.trial].add(draw_of(config))
    every = set().union(*draws.values())
    if all(own == every for own in draws.values()):
        return False
    return len(every) > max(map(len, draws.values())) or None


Candidate = tuple[RunRecord, Evaluation, float | None]
Pairs = Mapping[tuple[Hashable, ...], Sequence[RunRecord]]
"""The runs with two test domains, by draw, trial and these domains."""


def _pairs(runs: Iterable[RunRecord]) -> Pairs:
    pairs = defaultdict(list)
    for run in runs:
        if len(run.config.test_domains) == 2:
            pairs[_at(run.config, run.config.test_domains)].append(run)
    return pairs


def _at(config: RunConfig, held_out: Iterable[str]) -> tuple[Hashable, ...]:
    """The draw by its number where it has one, which forks need that log domains with it."""
    number = seed_of_draw(config)
    draw: Hashable = draw_of(config)
    if number is not None:
        draw = config.data, config.model, variant(config), number
    return draw, config.trial, frozenset(held_out)


def _train_val(run: RunRecord, pairs: Pairs) -> Iterator[Candidate]:
    training = [d for d in domains_of(run) if d not in run.config.test_domains]
    for evaluation in run.evaluations:
        yield run, evaluation, _mean_of(_score_on(evaluation, d, "val") for d in training)


def _test_val(run: RunRecord, pairs: Pairs) -> Iterator[Candidate]:
    if run.evaluations:
        last = max(run.evaluations, key=lambda evaluation: evaluation.step)
        yield run, last, _score_on(last, run.config.test_domains[0], "val")


def _leave_one_out(run: RunRecord, pairs: Pairs) -> Iterator[Candidate]:
    config = run.config
    others = [d for d in domains_of(run) if d not in config.test_domains]
    at_steps: dict[str, dict[int, Evaluation]] = {}
    for other in others:
        partners = pairs.get(_at(config, (*config.test_domains, other)), ())
        partner = min(partners, key=lambda found: found.config.seed != config.seed, default=None)
        at_steps[other] = {e.step: e for e in partner.evaluations} if partner else {}
    for evaluation in run.evaluations:
        then = {other: steps.get(evaluation.step) for other, steps in at_steps.items()}
        scores = (_score_on(e, other, "train") if e else None for other, e in then.items())
        yield run, evaluation, _mean_of(scores)


_CANDIDATES: dict[str, Callable[[RunRecord, Pairs], Iterator[Candidate]]] = {
    "train-val": _train_val,
    "test-val": _test_val,
    "leave-one-out": _leave_one_out,
}


def domains_of(run: RunRecord) -> list[str]:
    """The domains that any evaluation of a run scores, in the order of the data set."""
    return list(dict.fromkeys(d for evaluation in run.evaluations for d in evaluation.scores))


def _score_on(evaluation: Evaluation, domain: str, split: Split) -> float | None:
    """None where it is not known, or not a number."""
    score = evaluation.scores.get(domain, {}).get(split)
    return None if score is None or math.isnan(score.accuracy) else score.accuracy


def _mean_of(values: Iterable[float | None]) -> float | None:
    """None where a value is, or where there is none.

    Added one by one, as the reference does, so that what is equal there is equal here.
    """
    total, n = 0.0, 0
    for value in values:
        if value is None:
            return None
        total, n = total + value, n + 1
    return total / n if n else None
