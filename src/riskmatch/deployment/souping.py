"""Soups: the mean of the weights of runs that started from the same weights.

Reference: Wortsman et al., *Model Soups: Averaging Weights of Multiple Fine-Tuned Models Improves
Accuracy without Increasing Inference Time*, ICML 2022.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from riskmatch.contract import outputs
from riskmatch.data import OnProgress, no_progress
from riskmatch.data.domain import NamedTensors
from riskmatch.deployment.saving import save_model
from riskmatch.device import resolve_device
from riskmatch.engine.assemble import assemble, is_frozen
from riskmatch.engine.averaging import mean_network
from riskmatch.engine.evaluate import parts_of, predict, score_of, scores
from riskmatch.engine.load import Run, final_network, load_run, on_features
from riskmatch.metrics import MetricFacts
from riskmatch.report.tables import Column, Table, Trials, decimals_of, fixed
from riskmatch.runs.config import short_hash
from riskmatch.runs.frame import RUNS, Paths, read_results
from riskmatch.runs.lines import Evaluation, Score, Split
from riskmatch.runs.predictions import ByDomain
from riskmatch.runs.records import StoredRun
from riskmatch.selection import best_step, validation_score
from riskmatch.statistics import UNITS, Unit, bootstrap_interval, paired_gain
from riskmatch.validation import check_option, texts

How = Literal["uniform", "greedy"]
BETWEEN = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Positions between two networks at which the barrier is measured."""
BEST, SOUP, ENSEMBLE, BARRIER = "best member", "soup", "ensemble", "barrier"
"""Rows of the table."""
VALIDATION = ""
"""Key of the validation score beside the names of domains."""
_SHARED = {
    "have different data": ("data", "data_options"),
    "have different tasks": ("task", "metric"),
    "have different architectures": ("model", "model_options"),
    "started from different weights": ("seed",),
}
"""Fields in which members agree, by why runs that do not agree are no members."""
Values = Mapping[str, float]
"""The primary metric by domain, and the validation score."""


@dataclass(frozen=True, kw_only=True)
class SoupRun(Run):
    """A soup as a run: the record is that of its best member, with the evaluation of the soup."""

    best: Run = field(repr=False)
    """The best member."""
    candidates: int
    """Number of runs that could be members."""
    weights: Mapping[str, Tensor] = field(repr=False)
    """Weights and buffers of the network for the inputs that the members were trained on."""
    rows: Mapping[str, Values] = field(repr=False)
    """What the rows of the table have, see :func:`soup`."""
    intervals: Mapping[str, tuple[float, float]] = field(repr=False)
    """95 % intervals over samples of the gain over the best member, by row."""

    @property
    def facts(self) -> MetricFacts:
        """What is known about the primary metric."""
        return self.record.task.metrics[self.record.task.primary]

    def model(
        self, network: nn.Module | None = None, *, step: int | str | None = None
    ) -> nn.Module:
        """The network of the soup, see :meth:`riskmatch.Run.model`; it has one step."""
        model = self.best.model(network, step=self.members[self.best.config.id])
        trained = on_features(model) if is_frozen(self.config) else model
        trained.load_state_dict(self.weights)
        return model


class Soups(NamedTuple):
    """Soups, compared with their best members and with ensembles."""

    soups: tuple[SoupRun, ...]
    """One of each set of test domains and trial."""
    table: Table
    folders: tuple[Path, ...]
    """Their model folders."""


def soup(
    runs: Paths,
    how: How = "greedy",
    *,
    methods: str | Iterable[str] = (),
    test_domains: str | Iterable[str] = (),
    trial: int | None = None,
    unit: Unit = "domains",
    out: Path | str | None = None,
    overwrite: bool = False,
    data_dir: Path | None = None,
    device: torch.device | str = "cpu",
    trust: bool = False,
    on_progress: OnProgress | None = None,
) -> Soups:
    """Average the weights of runs that started from the same weights, and write model folders.

    Runs with the same test domains and trial make one soup. Each is at the step that ``train-val``
    chooses of it. The validation parts of the training domains alone choose members: runs are
    sorted by the mean of the primary metric there, and ``greedy`` adds one after the other unless
    this mean becomes worse.

    Statistics of batch normalisation, unless frozen, are recomputed with the averaged weights on 32
    training batches; other buffers are those of the best member.

    Rows of the table: the best member; the soup; the ensemble, which is the mean of the outputs of
    the members; and the barrier between the two best runs: how much worse the metric is on the line
    between their weights than between their metrics, at the worst of five points.

    Args:
        runs: a sweep, folders of runs, or runs.
        how: ``greedy``, or ``uniform`` for all runs.
        methods: methods of the runs; by default all.
        test_domains: test domains of the runs; by default each set that there is.
        trial: trial of the runs; by default each.
        unit: what the intervals of several soups generalise over: ``domains`` (these, trials vary)
            or ``new-domain``. That of one soup is over the samples of its domains.
        out: folder of the model folders, each named by the id of its soup; by default ``soups``
            beside the runs.
        overwrite: replace other models in these folders.
        data_dir: folder that is searched first for files of the data set.
        device: device on which networks are evaluated.
        trust: import parts of the user's own that records name, which runs their code.
        on_progress: called while data are read and networks evaluated.

    Raises:
        ValueError: there is no finished run, or runs do not share data, architecture and initial
            weights; the message names two of them and the difference.
        FileNotFoundError: a run has no checkpoint of its step.

    Example:
        >>> import tempfile, riskmatch
        >>> options = {"out": tempfile.mkdtemp(), "steps": 4, "data_options": {"samples": 50}}
        >>> for lr in (1e-4, 1e-3):
        ...     run = riskmatch.train("colored-digits", "erm", "0.1", lr=lr, **options)
        >>> made = soup(options["out"], "uniform")
        >>> [row[0] for row in made.table.rows]
        ['best member', 'soup', 'ensemble', 'barrier']
        >>> riskmatch.load_model(made.folders[0]).domains
        ('0.9', '0.8')
    """
    check_option("how", how, get_args(How))
    cases: dict[tuple[tuple[str, ...], int], list[Run]] = {}
    named, tests = texts("methods", methods), texts("test_domains", test_domains)
    for run in _finished(runs, trust):
        case = run.config.test_domains, run.config.trial
        method = run.config.method in named or not named
        if method and tests in ((), case[0]) and trial in (None, case[1]):
            cases.setdefault(case, []).append(run)
    if not cases:
        raise ValueError("No finished run has these methods, test domains and trial.")
    for members in cases.values():
        _check_shared(members)
    target, report = resolve_device(str(device)), on_progress or no_progress
    made = [_Case(members, data_dir, target, report).soup(how) for members in cases.values()]
    first = made[0].folder.parent
    folder = (first.parent if first.name == RUNS else first) / "soups" if out is None else Path(out)
    options: Any = {"overwrite": overwrite, "data_dir": data_dir, "on_progress": on_progress}
    saved = (save_model(one, folder / one.config.id, device=target, **options) for one in made)
    return Soups(tuple(made), soup_table(made, unit), tuple(saved))


def soup_table(soups: Sequence[SoupRun], unit: Unit = "domains") -> Table:
    """The table of soups on one data set; its caption names the unit of the intervals."""
    facts = soups[0].facts
    judged = [value for one in soups for value in one.rows[BEST].values()]
    decimals = 1 if facts.percent else decimals_of(judged)

    def metric(name: str, title: str) -> Column:
        def cell(row: str) -> Trials:
            values = [one.rows[row][name] for one in soups if name in one.rows.get(row, ())]
            return Trials(tuple(facts.scale * value for value in values), decimals)

        return Column(title, cell)

    def gain(row: str) -> str | None:
        return None if row in (BEST, BARRIER) else _gain(soups, row, decimals, unit)

    names = dict.fromkeys(name for one in soups for name in one.rows[BEST] if name != VALIDATION)
    what = "of the samples" if len(soups) == 1 else f"of {UNITS[unit]}, paired"
    members = ", ".join(f"{len(one.members)} of {one.candidates}" for one in soups)
    tested = "test domains" if soups[0].config.test_domains else "validation samples"
    return Table.of(
        f"Soups: {facts.title}{facts.unit} on {tested}{facts.direction}. Members: {members} runs.",
        [
            Column("network", str),
            *(metric(name, name) for name in names),
            metric(VALIDATION, "validation"),
            Column("gain over the best member", gain, f"95 % interval {what}"),
        ],
        [row for row in (BEST, SOUP, ENSEMBLE, BARRIER) if any(row in one.rows for one in soups)],
    )


def _gain(soups: Sequence[SoupRun], row: str, decimals: int, unit: Unit) -> str | None:
    """The mean gain of a row over the best member, with its interval where there is one."""
    facts, table = soups[0].facts, dict[str, list[float]]()
    for one in soups:
        for name in one.rows[row].keys() - {VALIDATION}:
            difference = facts.scale * facts.gain(one.rows[row][name], one.rows[BEST][name])
            table.setdefault(name, []).append(difference)
    table = {name: row for name, row in table.items() if not all(map(math.isnan, row))}
    if not table:  # no value of the metric
        return None
    mean, half, _ = paired_gain(list(table.values()), unit)
    low, high = (facts.scale * end for end in soups[0].intervals[row])
    if half is None and len(soups) == 1 and not math.isnan(low):
        interval = f" [{fixed(low, decimals, '+')}, {fixed(high, decimals, '+')}]"
    else:
        interval = "" if half is None else f" ± {fixed(half, decimals)}"
    return fixed(mean, decimals, "+") + interval


def _finished(runs: Paths, trust: bool) -> list[Run]:
    """The finished runs, each once."""
    listed = [runs] if isinstance(runs, str | Path | StoredRun) else list(runs)
    passed = {run.folder: run for run in listed if isinstance(run, Run)}
    results = read_results(runs)
    results.warn()
    folders = map(Path, results.runs.loc[results.runs["status"] == "done", "folder"])
    return [passed.get(folder) or load_run(folder, trust=trust) for folder in folders]


def _check_shared(runs: Sequence[Run]) -> None:
    """Refuse runs that do not share data, architecture and initial weights."""
    first = runs[0]
    for run in runs[1:]:
        for reason, names in _SHARED.items():
            for name in names:
                values = [getattr(one.config, name) for one in (first, run)]
                if values[0] != values[1]:
                    raise _refusal(first, run, f"{reason}: {name} {values[0]!r}, {values[1]!r}")
        run.admit(*run.config.part_names)


def _refusal(first: Run, second: Run, reason: str) -> ValueError:
    names = " and ".join(f"{run.config.id} ({run.config.method})" for run in (first, second))
    return ValueError(
        f"The weights of the runs {names} cannot be averaged, because they {reason}. Give the "
        "folders of others, or choose with --methods, --test-domain and --trial (methods=, "
        "test_domains=, trial=)."
    )


class _Ensemble(nn.Module):
    """The mean of the outputs of networks."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, *x: Tensor, **named: Tensor) -> Tensor:
        inputs = NamedTensors(named) if named else x[0]
        return torch.stack([outputs(network, inputs)[1] for network in self.networks]).mean(0)


class _Judged(NamedTuple):
    """How a network does."""

    predictions: ByDomain
    scores: Mapping[str, Mapping[Split, Score]]
    values: Values
    validation: float
    """The validation score such that higher is better; −∞ in place of NaN."""


class _Case:
    """Runs with the same test domains and trial, and the samples that judge their networks."""

    def __init__(
        self, runs: Sequence[Run], data_dir: Path | None, device: str, on_progress: OnProgress
    ) -> None:
        config, instances = runs[0].config, runs[0].instances
        made = assemble(config, device, data_dir, None, on_progress, instances)
        splits, self.sampler, self.task, self.restore = (
            made.splits, made.sampler, made.task, made.restore
        )  # fmt: skip
        training = [name for name in splits if name not in config.test_domains]
        self.reported: dict[str, Split] = dict.fromkeys(config.test_domains, "train")
        if not self.reported:
            self.reported = dict.fromkeys(training, "val")
        parts = parts_of(splits, config.eval_fraction, config.trial)
        self.parts = [p for p in parts if p.split in ("val", self.reported.get(p.domain))]
        self.record, self.runs = runs[0].record, runs
        self.facts = self.record.task.metrics[self.task.primary]
        self.judgements, self.on_progress = 0, on_progress
        self.steps = [_step_of(run) for run in runs]
        pairs = zip(runs, self.steps, strict=True)
        self.networks = [final_network(run, made.domains, step).to(device) for run, step in pairs]
        for run, network in zip(runs, self.networks, strict=True):
            if _shapes(network) != _shapes(self.networks[0]):
                raise _refusal(runs[0], run, "have different architectures")

    def judge(self, network: nn.Module) -> _Judged:
        """Predict the validation samples of all domains, and those that are reported."""
        most = 2 * len(self.runs) + len(BETWEEN) + 1  # networks

        def report(done: int, total: int) -> None:
            self.on_progress("evaluating", self.judgements * total + done, most * total)

        predictions = predict(
            network, self.parts, self.task, on_samples=report, restore=self.restore
        )
        self.judgements += 1
        judged = scores(predictions, self.task.metrics)
        validation = validation_score(self.record, judged)
        values = {
            name: judged[name][split].metrics[self.task.primary]
            for name, split in self.reported.items()
        }
        higher = self.facts.gain(validation, 0.0)
        higher = -math.inf if math.isnan(higher) else higher
        return _Judged(predictions, judged, {**values, VALIDATION: validation}, higher)

    def mean(self, members: Sequence[int], share: float | None = None) -> nn.Module:
        """The network with the mean of the weights of some members."""
        return mean_network([self.networks[k] for k in members], self.sampler, share)

    def soup(self, how: How) -> SoupRun:
        """The soup of all runs, or of those that the greedy rule chooses."""
        alone = [self.judge(network) for network in self.networks]
        order = sorted(range(len(alone)), key=lambda k: -alone[k].validation)
        best, members = alone[order[0]], order if how == "uniform" else order[:1]
        reached = best.validation
        for k in order[1:] if how == "greedy" else ():
            with_it = self.judge(self.mean([*members, k])).validation
            if with_it >= reached:
                members, reached = [*members, k], with_it
        network = self.mean(members)
        ensemble = _Ensemble([self.networks[k] for k in members])
        judged = {BEST: best, SOUP: self.judge(network), ENSEMBLE: self.judge(ensemble)}
        rows = {name: one.values for name, one in judged.items()}
        if len(order) > 1:
            rows[BARRIER] = self.barrier(order[:2], [alone[k].values for k in order[:2]])
        run, nan = self.runs[order[0]], math.nan
        steps = {self.runs[k].config.id: self.steps[k] for k in members}
        config = replace(run.config).with_facts(run.config.about)
        if len(members) > 1:
            vars(config)["id"] = short_hash({"soup": steps})
        evaluation = Evaluation(
            steps[run.config.id], judged[SOUP].scores, nan, {}, {}, "", nan, nan, 0
        )
        return SoupRun(
            run.folder,
            replace(run.record, config=config, evaluations=(evaluation,)),
            run.instances,
            run.trust,
            steps,
            best=run,
            candidates=len(order),
            weights=network.state_dict(),
            rows=rows,
            intervals={name: self.interval(judged[name], best) for name in (SOUP, ENSEMBLE)},
        )

    def barrier(self, pair: Sequence[int], ends: Sequence[Values]) -> dict[str, float]:
        """The most by which the metric between two networks is worse than between their metrics."""
        worst = dict.fromkeys(ends[0], 0.0)
        for share in BETWEEN:
            values = self.judge(self.mean(pair, share)).values
            for name in worst:
                line = (1 - share) * ends[0][name] + share * ends[1][name]
                worst[name] = max(worst[name], self.facts.gain(line, values[name]))
        return worst

    def interval(self, ours: _Judged, theirs: _Judged) -> tuple[float, float]:
        """95 % bootstrap interval of the gain over samples, or groups; NaN with several domains."""
        if len(self.reported) > 1:
            return math.nan, math.nan
        ((name, split),) = self.reported.items()
        metric, primary = self.facts, self.task.primary
        first, second = (one.predictions[name][split] for one in (ours, theirs))

        def gain(rows: NDArray[np.intp]) -> float:
            drawn = (score_of(one.take(rows), [primary]) for one in (first, second))
            return metric.gain(*(score.metrics[primary] for score in drawn))

        (part,) = (p.samples for p in self.parts if (p.domain, p.split) == (name, split))
        groups = np.arange(len(part)) if part.groups is None else part.groups.cpu().numpy()
        return bootstrap_interval(gain, groups, 0.95)


def _step_of(run: Run) -> int:
    """The step that ``train-val`` chooses of a run, else the last."""
    step = best_step(run.record)
    return run.record.evaluations[-1].step if step is None else step


def _shapes(network: nn.Module) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in network.state_dict().items()}
