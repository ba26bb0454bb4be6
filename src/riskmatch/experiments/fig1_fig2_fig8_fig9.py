"""Figures 1, 2, 8 and 9: distributions of the risks of samples, by domain.

The paper does not name the test domain of Figures 1, 8 and 9. Here it is Sketch: on PACS as in
Figure 3 of the paper, and on DomainNet likewise.

Figure 2 has two runs on ColoredMNIST, which take 600 steps and share the first 400, those of ERM.
Its risks are those of the same digits of MNIST's test set, coloured as in each of four domains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from riskmatch.experiments.colored_mnist import METHODS, GridRun, domain_name, grid_runs
from riskmatch.experiments.experiment import Experiment, FinishedRuns, Output, Scope
from riskmatch.experiments.images import joined, runs_without, write_figure
from riskmatch.report.density import Array, DensityEstimate, bin_edges, finite_risks
from riskmatch.report.figures import Densities, read_plot, save
from riskmatch.report.figures.risks import XLABEL, density_plot, label_risks, last_predictions
from riskmatch.report.style import BLUE, DASHED, GREEN, PURPLE, VERMILION, LineStyle
from riskmatch.report.titles import setup
from riskmatch.runs.config import title

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
    runs = grid_runs(scope.budget, ["erm", "rdm"], seeds, ["erm"], *scope.data)
    return [run for run in runs if run.value == METHODS[run.method].default]


def _write(finished: FinishedRuns) -> Output:
    from riskmatch.engine.load import final_predictions

    risks = {}
    for run in finished.stored:
        predictions = final_predictions(run, finished.data_dir)
        names = {f"{p:g}": domain_name(p, run.config.data_options["p"]) for p in P}
        risks[METHODS[run.config.method].label] = {
            f"p = {p}": finite_risks(predictions[name]["train"]) for p, name in names.items()
        }
    title = "Risks of test digits in the colours of four domains; ticks mark their means"
    title = joined(finished.scope.stand_in_note, title)
    numbers = density_figure(title, risks, STYLES, BINS).json()
    save(read_plot(numbers).draw("page"), finished.file("png"))
    files = [finished.file("png"), *finished.write({"json": numbers})]
    means = {
        model: {label: round(float(values.mean()), 4) for label, values in panel.items()}
        for model, panel in risks.items()
    }
    return Output(files, _mean_risks(means), means)


def density_figure(
    title: str, risks: Mapping[str, Mapping[str, Array]], styles: Sequence[LineStyle], bins: int
) -> Densities:
    """Densities of risks in common bins, by panel and label; labels have ``styles`` in turn."""
    edges = bin_edges([values for panel in risks.values() for values in panel.values()], bins)
    panels = {
        name: {label: DensityEstimate.of(values, edges) for label, values in panel.items()}
        for name, panel in risks.items()
    }
    labels = dict.fromkeys(label for panel in panels.values() for label in panel)
    return Densities(title, XLABEL, "", panels, dict(zip(labels, styles, strict=False)))


FIG2 = Experiment(
    "Figure 2",
    "distributions of the risks of ERM and RDM on four domains",
    ("colored-mnist",),
    _plan,
    _write,
    options=("seeds",),
    partial=False,
)
