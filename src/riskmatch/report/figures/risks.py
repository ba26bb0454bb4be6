"""Figures of the risk distribution of every domain at the end of a run: density and CDF."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from riskmatch.report.density import Array, DensityEstimate, bin_edges, finite_risks
from riskmatch.report.figures.charts import Curve
from riskmatch.report.figures.plot import Densities, Lines
from riskmatch.report.naming import setup
from riskmatch.report.style import LineStyle, domain_style
from riskmatch.runs import predictions
from riskmatch.runs.predictions import ByDomain
from riskmatch.runs.records import StoredRun

LEVELS = np.linspace(0, 1, 301)
"""Levels at which a distribution function is drawn."""
LOG_BELOW = 0.1
"""The axis is logarithmic where the median risk is below this fraction of its upper end."""
SMALLEST = 1e-7
"""Lower end of a logarithmic axis, at least."""
TEST = " (test)"
XLABEL = "risk of a sample (cross-entropy)"

Runs = Mapping[str, StoredRun]
"""Runs by panel title."""
Risks = Mapping[str, Mapping[str, Array]]
"""Risks by panel title and domain label."""


class NoPredictions(FileNotFoundError):
    """A run stored no predictions."""


def densities(runs: Runs) -> Densities:
    """Histogram and density of the validation risks of every domain, one panel per run."""
    title = "Risks by domain; ticks mark the means"
    return density_plot(validation_risks(runs), title, note_on(runs), all_domains(runs))


def cdf(runs: Runs) -> Lines:
    """Empirical distribution functions of the validation risks of every domain."""
    risks = validation_risks(runs)
    styles = domain_styles(risks, all_domains(runs))
    right = bin_edges([values for panel in risks.values() for values in panel.values()])[-1]
    panels = {
        title: [
            Curve(label, *distribution_function(values, right), styles[label])
            for label, values in panel.items()
        ]
        for title, panel in risks.items()
    }
    return Lines(
        title="Cumulative distribution of risks by domain",
        xlabel=XLABEL,
        note=note_on(runs),
        ylabel="fraction of samples",
        panels=panels,
    )


def density_plot(risks: Risks, title: str, note: str, domains: Sequence[str]) -> Densities:
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
    return Densities(title, XLABEL, note, panels, domain_styles(risks, domains), log)


def validation_risks(runs: Runs) -> Risks:
    """Validation risks of each run at its last stored step."""
    return {
        title: label_risks(
            predictions.read(run.folder, prediction_steps(run)[-1]), run.config.test_domains
        )
        for title, run in runs.items()
    }


def prediction_steps(run: StoredRun) -> tuple[int, ...]:
    """Steps with stored predictions.

    Raises:
        NoPredictions: there are none.
    """
    steps = predictions.steps(run.folder)
    if not steps:
        raise NoPredictions(
            f"{run.folder} holds no predictions, which this figure needs. riskmatch train and "
            "riskmatch reproduce store them, riskmatch sweep does not: train this run again in "
            "another folder."
        )
    return steps


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
