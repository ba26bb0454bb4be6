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

Of equals the one with fewer steps is taken, then the one with the smaller id. A score that is not a
number is never chosen. Runs that have not finished count with the steps they have.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import fmean
from typing import Literal, NamedTuple, get_args

from riskmatch.config import RunConfig
from riskmatch.records import Evaluation, RunRecord, Split
from riskmatch.spelling import check_option

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
    """How many runs it was chosen from."""

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
        best: Choice | None = None
        for run, evaluation, score in chain.from_iterable(
            _CANDIDATES[rule](member, pairs) for member in members
        ):
            accuracy = _accuracy(evaluation, case.domain, "train")
            if score is None or accuracy is None:
                continue
            if best is None or (-score, evaluation.step) < (-best.score, best.evaluation.step):
                best = Choice(case, rule, run, evaluation, score, accuracy, len(members))
        if best is not None:
            chosen.append(best)
    return chosen


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


def redrawn(configs: Iterable[RunConfig]) -> bool:
    """Whether trials draw hyper-parameters of their own, or are replicates of the same draws.

    Replicates: no trial has a draw that the trial with the most draws lacks.
    """
    draws: dict[int, set[str]] = defaultdict(set)
    for config in configs:
        draws[config.trial].add(draw_of(config))
    most = max(map(len, draws.values()), default=0)
    return len(set().union(*draws.values())) > most


Candidate = tuple[RunRecord, Evaluation, float | None]
Pairs = Mapping[tuple[str, int, frozenset[str]], Sequence[RunRecord]]
"""The runs with two test domains, by draw, trial and these domains."""


def _pairs(runs: Iterable[RunRecord]) -> Pairs:
    pairs = defaultdict(list)
    for run in runs:
        if len(run.config.test_domains) == 2:
            held_out = frozenset(run.config.test_domains)
            pairs[draw_of(run.config), run.config.trial, held_out].append(run)
    return pairs


def _train_val(run: RunRecord, pairs: Pairs) -> Iterator[Candidate]:
    training = [d for d in domains_of(run) if d not in run.config.test_domains]
    for evaluation in run.evaluations:
        yield run, evaluation, _mean(_accuracy(evaluation, d, "val") for d in training)


def _test_val(run: RunRecord, pairs: Pairs) -> Iterator[Candidate]:
    if run.evaluations:
        last = max(run.evaluations, key=lambda evaluation: evaluation.step)
        yield run, last, _accuracy(last, run.config.test_domains[0], "val")


def _leave_one_out(run: RunRecord, pairs: Pairs) -> Iterator[Candidate]:
    config, draw = run.config, draw_of(run.config)
    others = [d for d in domains_of(run) if d not in config.test_domains]
    at_steps: dict[str, dict[int, Evaluation]] = {}
    for other in others:
        held_out = frozenset((*config.test_domains, other))
        partners = pairs.get((draw, config.trial, held_out), ())
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
    """None where a value is, or where there is none."""
    known = list(values)
    return None if None in known or not known else fmean(v for v in known if v is not None)
