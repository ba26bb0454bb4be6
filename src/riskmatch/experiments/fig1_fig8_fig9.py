"""Figures 1, 8 and 9: distributions of the risks of validation samples, by domain.

The paper does not name the test domain. Here it is Sketch: on PACS as in Figure 3 of the paper, and
on DomainNet likewise.
"""

from __future__ import annotations

from riskmatch.experiments.experiment import Experiment, FinishedRuns, Output
from riskmatch.experiments.images import runs_without, write_figure
from riskmatch.report.figures.risks import density_plot, label_risks, last_predictions
from riskmatch.report.titles import setup
from riskmatch.runs.config import title
from riskmatch.runs.records import StoredRun

TEST_DOMAIN = "sketch"


def _experiment(
    number: int,
    summary: str,
    data: str,
    methods: tuple[str, ...],
    domains: tuple[str, ...] = (),
) -> Experiment:
    """A figure with one panel per method; ``domains`` are those to show, by default all."""
    return Experiment(
        f"Figure {number}",
        summary,
        (data,),
        lambda scope: runs_without(TEST_DOMAIN, scope, methods),
        lambda finished: _write(finished, domains),
        options=("preset",),
        partial=False,
        predictions=True,
    )


def _write(finished: FinishedRuns, domains: tuple[str, ...]) -> Output:
    panels, names = {}, dict[str, None]()
    for run in finished.planned:
        stored = StoredRun(finished.runs / run.config.id, finished.records[run.config.id])
        predicted = last_predictions(stored, finished.data_dir)
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
    lines = [
        f"{title}: " + ", ".join(f"{name} {risks.mean():.3f}" for name, risks in by_domain.items())
        for title, by_domain in panels.items()
    ]
    return write_figure(finished, plot, "\n".join(["Mean risks:", *lines]))


FIG1 = _experiment(
    1,
    "distributions of the risks of ERM on Art and Photo of PACS",
    "pacs",
    ("erm",),
    ("art_painting", "photo"),
)
FIG8 = _experiment(8, "distributions of the risks of ERM and RDM on PACS", "pacs", ("erm", "rdm"))
FIG9 = _experiment(
    9, "distributions of the risks of ERM and RDM on DomainNet", "domainnet", ("erm", "rdm")
)
