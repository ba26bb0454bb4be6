"""Figures 1, 8 and 9: the risks of validation samples, domain by domain.

The paper does not say which domain it left out. On PACS it is Sketch here, as in its Figure 3, and
so it is on DomainNet.
"""

from __future__ import annotations

from riskmatch.experiments.experiment import Experiment, Finished, Request, Result
from riskmatch.experiments.plots import without, write_plot
from riskmatch.report import titles
from riskmatch.report.figures.on_file import about
from riskmatch.report.figures.risks import density_plot, labelled
from riskmatch.runs import predictions
from riskmatch.runs.predictions import ByDomain
from riskmatch.sweep.plan import PlannedRun

LEFT_OUT = "sketch"
SHOWN = ("art_painting", "photo")
"""The domains of Figure 1."""


def _teaser(finished: Finished[PlannedRun]) -> Result:
    return _write(finished, SHOWN)


def _write(finished: Finished[PlannedRun], shown: tuple[str, ...] = ()) -> Result:
    """The figure of all runs, on the domains ``shown``, or on all where that leaves none."""
    found = {}
    for run in finished.planned:
        risks = labelled(_said(finished, run), run.config.test_domains)
        some = {name: risks[name] for name in shown if name in risks}
        found[titles.METHODS[run.config.method]] = some or risks
    plot = density_plot(
        found,
        "Risks of validation samples; ticks mark their means",
        about(run.config for run in finished.planned),
    )
    lines = [
        f"{title}: " + ", ".join(f"{name} {values.mean():.3f}" for name, values in named.items())
        for title, named in found.items()
    ]
    return write_plot(finished, plot, "\n".join(["Mean risks:", *lines]))


def _said(finished: Finished[PlannedRun], run: PlannedRun) -> ByDomain:
    """What a run said of every sample at its end, on file or from its last weights."""
    folder = finished.runs / run.config.id
    if steps := predictions.steps(folder):
        return predictions.read(folder, steps[-1])
    from riskmatch.engine.final import final_predictions  # torch with it

    try:
        return final_predictions(run.config, finished.runs, finished.data_dir)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{folder} holds neither predictions nor the last checkpoint: remove it, and the same "
            f"command trains it again. ({error})"
        ) from error


def _experiment(
    number: int, data: str, methods: tuple[str, ...], what: str
) -> Experiment[PlannedRun]:
    def plan(request: Request) -> list[PlannedRun]:
        return without(LEFT_OUT, request, methods)

    return Experiment(
        f"Figure {number}",
        f"the distributions of the risks of {what}",
        (data,),
        plan,
        _teaser if number == 1 else _write,
        partial=False,
        draws=True,
        predictions=True,
    )


RISK_FIGURES: dict[str, Experiment[PlannedRun]] = {
    "fig1": _experiment(1, "pacs", ("erm",), "ERM on PACS' Art and Photo"),
    "fig8": _experiment(8, "pacs", ("erm", "rdm"), "ERM and of RDM on PACS"),
    "fig9": _experiment(9, "domainnet", ("erm", "rdm"), "ERM and of RDM on DomainNet"),
}
