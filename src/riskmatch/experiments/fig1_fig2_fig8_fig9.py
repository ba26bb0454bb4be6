"""Figures 1, 2, 8 and 9: distributions of the risks of samples, by domain.

The paper does not name the test domain of Figures 1, 8 and 9. Here it is Sketch: on PACS as in
Figure 3 of the paper, and on DomainNet likewise.

Figure 2 has two runs on ColoredMNIST, which take 600 steps and share the first 400, those of ERM.
Its risks are those of the same digits of MNIST's test set, coloured as in each of four domains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from riskmatch.experiments.colored_mnist import METHODS, GridRun, domain_name, grid_runs
from riskmatch.experiments.experiment import Experiment, FinishedRuns, Output, Scope, save_png
from riskmatch.experiments.images import runs_without, write_figure
from riskmatch.files import to_json
from riskmatch.report.density import Array, DensityEstimate, bin_edges, finite_risks
from riskmatch.report.figures import Densities
from riskmatch.report.figures.risks import XLABEL, density_plot, label_risks, last_predictions
from riskmatch.report.style import BLUE, DASHED, GREEN, PURPLE, VERMILION, LineStyle
from riskmatch.report.titles import setup
from riskmatch.runs.config import title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEST_DOMAIN = "sketch"
P = (0.1, 0.2, 0.5, 0.9)
"""p of the two training domains of Figure 2 and of two others."""
STYLES = (LineStyle(BLUE), LineStyle(GREEN, DASHED), LineStyle(PURPLE), LineStyle(VERMILION))
BINS = 60


def on_images(
    number: int, summary: str, data: str, methods: tuple[str, ...], domains: tuple[str, ...] = ()
) -> Experiment:
    """A figure of validation risks with a panel per method.

    Args:
        number: number of the figure.
        summary: what it shows.
        data: an image benchmark.
        methods: names of methods.
        domains: domains to show; by default all.
    """
    return Experiment(
        f"Figure {number}",
        summary,
        (data,),
        lambda scope: runs_without(TEST_DOMAIN, scope, methods),
        lambda finished: _write_images(finished, domains),
        options=("preset",),
        partial=False,
        predictions=True,
    )


def _write_images(finished: FinishedRuns, domains: tuple[str, ...]) -> Output:
    panels, names = {}, dict[str, None]()
    for run in finished.stored:
        predicted = last_predictions(run, finished.data_dir)
        names |= dict.fromkeys(predicted)
        risks = label_risks(predicted, run.config.test_domains)
        shown = {name: risks[name] for name in domains if name in risks}
        panels[title(run.config)] = shown or risks  # stand-in: other domains
    plot = density_plot(
        panels,
        "Risks of validation samples; ticks mark their means",
        setup(run.config for run in finished.planned),
        list(names),
    )
    means = {
        title: {name: risks.mean() for name, risks in panel.items()}
        for title, panel in panels.items()
    }
    return write_figure(finished, plot, _mean_risks(means))


def _mean_risks(means: Mapping[str, Mapping[str, float]]) -> str:
    """Mean risks by panel and domain, a line for each panel."""
    lines = [
        f"{title}: " + ", ".join(f"{label} {mean:.3f}" for label, mean in panel.items())
        for title, panel in means.items()
    ]
    return "\n".join(["Mean risks:", *lines])


def _plan(scope: Scope) -> list[GridRun]:
    """Two runs of Table 1: ERM and RDM from ERM initialisation, with the first seed."""
    seeds = (scope.seeds or (0,))[:1]
    runs = grid_runs(scope.budget, ["erm", "rdm"], seeds, ["erm"])
    return [run for run in runs if run.value == METHODS[run.method].default]


def _write(finished: FinishedRuns) -> Output:
    from riskmatch.engine.load import final_predictions

    risks = {}
    for run in finished.stored:
        predictions = final_predictions(run, finished.data_dir)
        names = {f"{p:g}": domain_name(p, run.config.data_options["p"]) for p in P}
        risks[METHODS[run.config.method].label] = {
            p: finite_risks(predictions[name]["train"]) for p, name in names.items()
        }
    record = density_record(risks, BINS)
    save_png(draw(record), finished.file("png"))
    files = [finished.file("png"), *finished.write({"json": to_json(record, indent=1) + "\n"})]
    means = {
        model: {p: round(values["mean"], 4) for p, values in by_p.items()}
        for model, by_p in record.items()
    }
    labelled = {m: {f"p = {p}:": mean for p, mean in by_p.items()} for m, by_p in means.items()}
    return Output(files, _mean_risks(labelled), means)


def draw(record: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draw Figure 2 from the content of the file ``fig2.json``."""
    return draw_densities(
        "Risks of MNIST's test digits in the colours of four domains; ticks mark their means",
        {model: {f"p = {p}": e for p, e in by_p.items()} for model, by_p in record.items()},
        STYLES,
    )


def density_record(
    risks: Mapping[str, Mapping[str, Array]], bins: int
) -> dict[str, dict[str, dict[str, Any]]]:
    """Density estimates of risks in common bins as JSON values, by panel and domain."""
    edges = bin_edges([values for panel in risks.values() for values in panel.values()], bins)
    return {
        title: {name: DensityEstimate.of(risks, edges).to_json() for name, risks in panel.items()}
        for title, panel in risks.items()
    }


def draw_densities(
    title: str, record: Mapping[str, Mapping[str, dict[str, Any]]], styles: Sequence[LineStyle]
) -> Figure:
    """Draw the density estimates of :func:`density_record`, labels having ``styles`` in turn."""
    panels = {
        name: {label: DensityEstimate.from_json(values) for label, values in panel.items()}
        for name, panel in record.items()
    }
    labels = dict.fromkeys(label for panel in panels.values() for label in panel)
    by_label = dict(zip(labels, styles, strict=False))
    return Densities(title, XLABEL, "", panels, by_label).draw("page")


FIG2 = Experiment(
    "Figure 2",
    "distributions of the risks of ERM and RDM on four domains",
    ("colored-mnist",),
    _plan,
    _write,
    options=("seeds",),
    partial=False,
)
