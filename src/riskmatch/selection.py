"""Which run and which step a table reports: three rules over records, nothing trained.

A choice is made for every data set, method, network, test domain and trial, among the runs that
trial made (its draws of hyper-parameters) and their steps. What is reported is the accuracy on the
test domain's training split, which training never saw. The rules are those of DomainBed
(Gulrajani and Lopez-Paz, ICLR 2021):

========================  =======================================================================
``train-val``             the highest mean accuracy on the validation splits of the training domains
``test-val``              the oracle: the highest accuracy on the test domain's validation split,
                          each run at its last step
``leave-one-out``         the highest mean over the other domains v of the accuracy on v of the run
                          of the same draw, at the same step, that held out v besides the test
                          domain
========================  =======================================================================

Of equal steps of a run the first is taken. Of equal draws DomainBed takes the one with the largest
``hparams_seed``, and so do these rules where runs have one, as imported ones do; else the one with
fewer steps, then the one with the smaller id. A score that is not a number is never chosen. Runs
that have not finished count with the steps they have.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

from riskmatch.runs.config import RunConfig
from riskmatch.runs.records import Evaluation, RunRecord, Split
from riskmatch.validation import check_option

Rule = Literal["train-val", "test-val", "leave-one-out"]
RULES: tuple[Rule, ...] = get_args(Rule)
EXPLAINED: dict[Rule, str] = {
    "train-val": "the mean validation accuracy over the training domains, over draws and steps",
    "test-val": "the validation accuracy on the test domain (the oracle), over draws at "
    "their last step",
    "leave-one-out": "the mean accuracy on each other domain when it was held out too, over draws "
    "and steps",
}
"""What each rule maximises."""

USUAL: dict[str, dict[str, object]] = {
    "causirl": {"distance": "coral"},
    "rdm": {"match": "worst", "divergence": "mmd"},
}
"""The fields of methods that make another method of them, with their usual values."""


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
    rule: Rule
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


def choose(runs: Iterable[RunRecord], rule: Rule) -> list[Choice]:
    """The choice of every case that has one, in the order of cases.

    Runs with several test domains serve ``leave-one-out``; the other rules pass over them.
    """
    check_option("rule", rule, RULES)
    found = sorted(runs, key=lambda run: run.config.id)
    pairs = _pairs(found) if rule == "leave-one-out" else {}
    chosen = []
    for case, members in sorted(by_case(found).items()):
        bests = [_best(case, rule, _CANDIDATES[rule](member, pairs)) for member in members]
        eligible = [choice for choice in bests if choice is not None]
        if eligible:
            chosen.append(replace(min(eligible, key=_order), draws=len(eligible)))
    return chosen


def _best(case: Case, rule: Rule, candidates: Iterable[Candidate]) -> Choice | None:
    """The step of a run that the rule likes best."""
    best: Choice | None = None
    for run, evaluation, score in candidates:
        accuracy = _accuracy(evaluation, case.domain, "train")
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


def variant(config: RunConfig) -> str:
    """The method, with what makes another method of it.

    Example:
        >>> variant(RunConfig("pacs", ("photo",), "rdm", {"match": "variance", "weight": 5.0}))
        'rdm variance'
        >>> variant(RunConfig("pacs", ("photo",), "rdm", {"match": "worst"}))
        'rdm'
    """
    usual = USUAL.get(config.method, {})
    unusual = (config.hparams.get(name, value) for name, value in usual.items())
    kept = [str(v) for v, value in zip(unusual, usual.values(), strict=True) if v != value]
    return " ".join([config.method, *kept])


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
        yield run, evaluation, _mean(_accuracy(evaluation, d, "val") for d in training)


def _test_val(run: RunRecord, pairs: Pairs) -> Iterator[Candidate]:
    if run.evaluations:
        last = max(run.evaluations, key=lambda evaluation: evaluation.step)
        yield run, last, _accuracy(last, run.config.test_domains[0], "val")


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
        scores = (_accuracy(e, other, "train") if e else None for other, e in then.items())
        yield run, evaluation, _mean(scores)


_CANDIDATES: dict[Rule, Callable[[RunRecord, Pairs], Iterator[Candidate]]] = {
    "train-val": _train_val,
    "test-val": _test_val,
    "leave-one-out": _leave_one_out,
}


def domains_of(run: RunRecord) -> list[str]:
    """The domains that any evaluation of a run scores, in the order of the data set."""
    return list(dict.fromkeys(d for evaluation in run.evaluations for d in evaluation.scores))


def _accuracy(evaluation: Evaluation, domain: str, split: Split) -> float | None:
    """None where it is not known, or not a number."""
    score = evaluation.scores.get(domain, {}).get(split)
    return None if score is None or math.isnan(score.accuracy) else score.accuracy


def _mean(values: Iterable[float | None]) -> float | None:
    """None where a value is, or where there is none.

    Added one by one, as the reference does, so that what is equal there is equal here.
    """
    total, n = 0.0, 0
    for value in values:
        if value is None:
            return None
        total, n = total + value, n + 1
    return total / n if n else None
