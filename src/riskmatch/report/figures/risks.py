"""Figures of the risk distribution of every domain at the end of a run: density and CDF."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from riskmatch.report.density import Array, DensityEstimate, bin_edges, finite_risks
from riskmatch.report.figures.plot import Curve, Densities, Lines
from riskmatch.report.samples import unseen
from riskmatch.report.style import LineStyle, domain_style
from riskmatch.report.titles import setup
from riskmatch.runs import predictions
from riskmatch.runs.predictions import ByDomain
from riskmatch.runs.records import StoredRun

if TYPE_CHECKING:
    from riskmatch.data import OnProgress

LEVELS = np.linspace(0, 1, 301)
"""Levels at which a distribution function is drawn."""
LOG_BELOW = 0.1
"""The axis is logarithmic where the median risk is below this fraction of its upper end."""
SMALLEST = 1e-7
"""Lower end of a logarithmic axis, at least."""
TEST = " (test)"
RISK, XLABEL = "risk of a sample", "risk of a sample (cross-entropy)"

Runs = Mapping[str, StoredRun]
"""Runs by panel title."""
Risks = Mapping[str, Mapping[str, Array]]
"""Risks by panel title and domain label."""


class NoPredictions(FileNotFoundError):
    """A run stored no predictions."""


def last_predictions(
    run: StoredRun, data_dir: Path | None = None, on_progress: OnProgress | None = None
) -> ByDomain:
    """Predictions at the end of a run: stored ones, or else those of its last checkpoint.

    Args:
        run: the run.
        data_dir: folder that is searched first for the data set.
        on_progress: called while a checkpoint predicts.

    Raises:
        NoPredictions: there are neither predictions nor a checkpoint of the last step.
    """
    if steps := predictions.steps(run.folder):
        return unseen(run, predictions.read(run.folder, steps[-1]))
    from riskmatch.engine.checkpoint import NoCheckpointError  # imports torch
    from riskmatch.engine.load import final_predictions

    try:
        return unseen(run, final_predictions(run, data_dir, on_progress))
    except NoCheckpointError as error:
        raise NoPredictions(
            f"{run.folder} has neither predictions nor a checkpoint of its end: train it again."
        ) from error


def densities(runs: Runs, load: Callable[[StoredRun], ByDomain] = last_predictions) -> Densities:
    """Histogram and density of the validation risks of every domain, one panel per run."""
    title = "Risks by domain; ticks mark the means"
    risks = _last_risks(runs, load)
    return density_plot(risks, title, note_on(runs), all_domains(runs), _xlabel(runs))


def cdf(runs: Runs, load: Callable[[StoredRun], ByDomain] = last_predictions) -> Lines:
    """Empirical distribution functions of the validation risks of every domain."""
    risks = _last_risks(runs, load)
    styles = domain_styles(risks, all_domains(runs))
    return cdf_plot(
        risks, styles, "Cumulative distribution of risks by domain", _xlabel(runs), note_on(runs)
    )


def cdf_plot(
    samples: Risks,
    styles: Mapping[str, LineStyle],
    title: str,
    xlabel: str,
    note: str,
    right: float | None = None,
) -> Lines:
    """Distribution functions from 0 to ``right``, by default to where almost all values are."""
    if right is None:
        right = bin_edges([values for panel in samples.values() for values in panel.values()])[-1]
    panels = {
        name: [
            Curve(label, *distribution_function(values, right), styles[label])
            for label, values in panel.items()
        ]
        for name, panel in samples.items()
    }
    return Lines(title=title, xlabel=xlabel, note=note, ylabel="fraction of samples", panels=panels)


def _xlabel(runs: Runs) -> str:
    """What the risks of runs are."""
    entropy = all(run.record.task.name == "classification" for run in runs.values())
    return XLABEL if entropy else RISK


def density_plot(
    risks: Risks, title: str, note: str, domains: Sequence[str], xlabel: str = XLABEL
) -> Densities:
    """Densities of risks in common bins; ``domains`` are all domains of the data set.

    The axis is logarithmic where most risks are small compared with the largest ones.
    """
    samples = [values for panel in risks.values() for values in panel.values()]
    edges, estimate = bin_edges(samples), DensityEstimate.of
    pool = np.concatenate(samples)
    log = bool(np.median(pool) < LOG_BELOW * edges[-1])
    if log:
        ends = max(SMALLEST, np.quantile(pool, 0.01)), pool.max()
        edges, estimate = np.geomspace(*ends, len(edges)).tolist(), DensityEstimate.per_decade
    panels = {
        title: {label: estimate(values, edges) for label, values in panel.items()}
        for title, panel in risks.items()
    }
    return Densities(title, xlabel, note, panels, domain_styles(risks, domains), log)


def _last_risks(runs: Runs, load: Callable[[StoredRun], ByDomain]) -> Risks:
    """Validation risks at the end of each run."""
    return {title: label_risks(load(run), run.config.test_domains) for title, run in runs.items()}


def label_risks(by_domain: ByDomain, tests: Iterable[str]) -> dict[str, Array]:
    """Validation risks of every domain, or all risks where a domain has no validation split.

    Labels of test domains end in ``" (test)"``.
    """
    tests = set(tests)
    labelled = {
        name + TEST * (name in tests): finite_risks(splits.get("val") or splits["train"])
        for name, splits in by_domain.items()
    }
    return {label: values for label, values in labelled.items() if len(values)}


def note_on(runs: Runs) -> str:
    """Note below a figure of runs."""
    return setup(run.config for run in runs.values())


def all_domains(runs: Runs) -> list[str]:
    """All domains of the data sets of runs, in their order."""
    return list(dict.fromkeys(domain for run in runs.values() for domain in run.record.domains))


def domain_styles(
    panels: Mapping[str, Iterable[str]], domains: Sequence[str]
) -> dict[str, LineStyle]:
    """Line styles by label of a domain; ``domains`` are all domains of the data set."""
    labels = dict.fromkeys(label for panel in panels.values() for label in panel)
    return {
        label: domain_style(label.removesuffix(TEST), domains, label.endswith(TEST))
        for label in labels
    }


def distribution_function(values: Array, right: float) -> tuple[list[float], list[float]]:
    """Corners of the step function F(x) = fraction of values ≤ x, from 0 to ``right``."""
    x = np.quantile(values, LEVELS, method="inverted_cdf")
    inside = x <= right
    corners = np.concatenate([[0.0], np.repeat(x[inside], 2), [right]])
    heights = np.concatenate([[0.0, 0.0], np.repeat(LEVELS[inside], 2)])
    return corners.tolist(), heights.tolist()
