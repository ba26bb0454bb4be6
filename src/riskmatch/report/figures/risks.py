"""The risks of every domain at the end of a run: their densities, their distribution functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from riskmatch.report.distribution import Array, Distribution
from riskmatch.report.figures.curves import Curve
from riskmatch.report.figures.on_file import Runs, about_runs, last_predictions
from riskmatch.report.figures.plot import Densities, Lines
from riskmatch.report.findings.snapshots import edges_of, finite_risks
from riskmatch.report.style import Look, looks
from riskmatch.runs.predictions import ByDomain, Predictions
from riskmatch.runs.records import Split

BINS = 40
LEVELS = np.linspace(0, 1, 301)
"""At which a distribution function is drawn."""
SMALL = 0.1
"""The share of the axis below which the median risk asks for a logarithmic one."""
TINY = 1e-7
"""The smallest risk that is told from none."""
TEST = " (test)"
XLABEL = "risk of a sample (cross-entropy)"

Risks = Mapping[str, Mapping[str, Array]]
"""By run and by domain, labelled."""


def risks(runs: Runs) -> Densities:
    """Histogram and density of the held-out risks of every domain, a panel for each run."""
    return density_plot(held_out(runs), "Risks by domain; ticks mark their means", about_runs(runs))


def cdf(runs: Runs) -> Lines:
    """The empirical distribution functions of the held-out risks of every domain."""
    found = held_out(runs)
    shown = _looks(found)
    right = edges_of([values for named in found.values() for values in named.values()])[-1]
    panels = {}
    for title, named in found.items():
        panels[title] = [
            Curve(label, *_function(values, right), shown[label]) for label, values in named.items()
        ]
    return Lines(
        title="The share of a domain's samples below a risk",
        xlabel=XLABEL,
        note=about_runs(runs),
        ylabel="share of samples",
        panels=panels,
    )


def density_plot(found: Risks, title: str, note: str) -> Densities:
    """The densities of risks, all on the same bins.

    Where most risks are next to nothing beside the largest, they are shown by orders of magnitude.
    """
    samples = [values for named in found.values() for values in named.values()]
    edges, of = edges_of(samples, BINS), Distribution.of
    everything = np.concatenate(samples)
    log = bool(np.median(everything) < SMALL * edges[-1])
    if log:
        ends = max(TINY, np.quantile(everything, 0.01)), everything.max()
        edges, of = np.geomspace(*ends, BINS + 1).tolist(), Distribution.of_logs
    panels = {
        run: {label: of(values, edges) for label, values in named.items()}
        for run, named in found.items()
    }
    return Densities(title, XLABEL, note, panels, _looks(found), log)


def held_out(runs: Runs) -> Risks:
    """The validation risks of each run at its last step."""
    return {
        title: labelled(last_predictions(run), run.config.test_domains)
        for title, run in runs.items()
    }


def labelled(found: ByDomain, tests: Iterable[str]) -> dict[str, Array]:
    """The validation risks of every domain, test domains named as such.

    A domain that is not split shows all of its risks.
    """
    tests = set(tests)
    named = {name + TEST * (name in tests): finite_risks(_shown(d)) for name, d in found.items()}
    return {label: values for label, values in named.items() if len(values)}


def _shown(splits: Mapping[Split, Predictions]) -> Predictions:
    return splits.get("val") or splits["train"]


def _looks(found: Risks) -> dict[str, Look]:
    labels = [label for named in found.values() for label in named]
    return looks(labels, [label for label in labels if label.endswith(TEST)])


def _function(values: Array, right: float) -> tuple[list[float], list[float]]:
    """The stairs of the distribution function of ``values``, from zero to ``right``."""
    x = np.quantile(values, LEVELS, method="inverted_cdf")
    inside = x <= right
    corners = np.concatenate([[0.0], np.repeat(x[inside], 2), [right]])
    heights = np.concatenate([[0.0, 0.0], np.repeat(LEVELS[inside], 2)])
    return corners.tolist(), heights.tolist()
