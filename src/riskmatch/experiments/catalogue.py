"""All experiments by name, and the data sets on this machine that they can use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from riskmatch.data import DATASETS
from riskmatch.data.sources import missing_data
from riskmatch.experiments.experiment import STAND_IN, Budget, Experiment
from riskmatch.experiments.fig1_fig2_fig8_fig9 import FIG2, on_images
from riskmatch.experiments.fig3_fig5 import FIG3A, FIG3B, FIG5
from riskmatch.experiments.fig4_fig6_fig7 import ablation
from riskmatch.experiments.images import IMAGE_DATA
from riskmatch.experiments.table1 import TABLE1
from riskmatch.experiments.table2_to_table10 import by_domain, efficiency, overview
from riskmatch.validation import check_option

SMOKE_LIMIT = 50_000
"""Largest number of images that the budget smoke reads; DomainNet would take hours."""
_RISKS = "distributions of the risks of "
_NOT_DOMAINNET = tuple(name for name in IMAGE_DATA if name != "domainnet")
_NOT_PACS = tuple(name for name in IMAGE_DATA if name != "pacs")
_SHOWN = ("art_painting", "photo")

EXPERIMENTS: dict[str, Experiment] = {
    "table1": TABLE1,
    "table2": overview(2, IMAGE_DATA),
    "table3": efficiency(3, "DomainNet", ("domainnet",)),
    "efficiency": efficiency(5, "the other image benchmarks", _NOT_DOMAINNET),
    "domainnet": by_domain(6, "domainnet"),
    "pacs": by_domain(7, "pacs"),
    "vlcs": by_domain(8, "vlcs"),
    "officehome": by_domain(9, "officehome"),
    "terraincognita": by_domain(10, "terraincognita"),
    "fig1": on_images(1, _RISKS + "ERM on Art and Photo of PACS", "pacs", ("erm",), _SHOWN),
    "fig2": FIG2,
    "fig3a": FIG3A,
    "fig3b": FIG3B,
    "fig4a": ablation("4a", "weight", ("pacs",)),
    "fig4b": ablation("4b", "batch_size", ("pacs",)),
    "fig5": FIG5,
    "fig6": ablation("6", "batch_size", _NOT_PACS),
    "fig7": ablation("7", "weight", _NOT_PACS),
    "fig8": on_images(8, _RISKS + "ERM and RDM on PACS", "pacs", ("erm", "rdm")),
    "fig9": on_images(9, _RISKS + "ERM and RDM on DomainNet", "domainnet", ("erm", "rdm")),
}
"""Experiments in the order in which ``reproduce all`` runs them."""

ALIASES = {experiment.alias: name for name, experiment in EXPERIMENTS.items()}
"""Names by the number in the paper."""


def name_of(name: str) -> str:
    """Name of the experiment called ``name``, which may be its number in the paper.

    Example:
        >>> name_of("table7"), name_of("fig3a")
        ('pacs', 'fig3a')

    Raises:
        ValueError: there is no such experiment.
    """
    name = ALIASES.get(name, name)
    check_option("table or figure", name, EXPERIMENTS)
    return name


def available_data(
    experiment: Experiment,
    budget: Budget,
    names: Sequence[str] = (),
    data_dir: Path | None = None,
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Data sets to run an experiment on, and the unavailable ones with the cure of each.

    Under the budget smoke, ``STAND_IN`` replaces data sets of which none is available.

    Args:
        experiment: the experiment.
        budget: how much to run.
        names: some of the experiment's data sets; empty for all.
        data_dir: folder to search first.

    Raises:
        ValueError: no data set is available; the message has the commands that get them.
    """
    names = requested_data(experiment, names)
    missing = missing_data(names, data_dir)
    small = names if budget == "smoke" and set(names) <= set(IMAGE_DATA) else ()
    large = {name for name in small if (DATASETS[name].samples or 0) > SMOKE_LIMIT}
    why = {**dict.fromkeys(large, "too large for --budget smoke"), **missing}
    unavailable = {name: why[name] for name in names if name in why}
    if available := tuple(name for name in names if name not in why):
        return available, unavailable
    if budget == "smoke":
        missing = missing_data([STAND_IN], data_dir)
    if missing:
        cures = " or ".join(f"{name} ({cure})" for name, cure in missing.items())
        raise ValueError(f"{experiment.paper} needs a data set that is not here. Get {cures}.")
    return (STAND_IN,), unavailable


def requested_data(experiment: Experiment, names: Sequence[str] = ()) -> tuple[str, ...]:
    """Those data sets of an experiment that are in ``names``; all of them if it is empty."""
    for name in names:
        check_option(f"data set of {experiment.paper}", name, experiment.data)
    return tuple(name for name in experiment.data if name in names or not names)
