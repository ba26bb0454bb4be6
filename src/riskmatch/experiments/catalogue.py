"""All experiments by name."""

from __future__ import annotations

from riskmatch.experiments.experiment import Experiment
from riskmatch.experiments.fig1_fig8_fig9 import FIG1, FIG8, FIG9
from riskmatch.experiments.fig2 import FIG2
from riskmatch.experiments.fig3_fig5 import FIG3A, FIG3B, FIG5
from riskmatch.experiments.fig4_fig6_fig7 import FIG4A, FIG4B, FIG6, FIG7
from riskmatch.experiments.table1 import TABLE1
from riskmatch.experiments.table2_to_table10 import (
    TABLE2,
    TABLE3,
    TABLE5,
    TABLE6,
    TABLE7,
    TABLE8,
    TABLE9,
    TABLE10,
)
from riskmatch.validation import check_option

EXPERIMENTS: dict[str, Experiment] = {
    "table1": TABLE1,
    "table2": TABLE2,
    "table3": TABLE3,
    "efficiency": TABLE5,
    "domainnet": TABLE6,
    "pacs": TABLE7,
    "vlcs": TABLE8,
    "officehome": TABLE9,
    "terraincognita": TABLE10,
    "fig1": FIG1,
    "fig2": FIG2,
    "fig3a": FIG3A,
    "fig3b": FIG3B,
    "fig4a": FIG4A,
    "fig4b": FIG4B,
    "fig5": FIG5,
    "fig6": FIG6,
    "fig7": FIG7,
    "fig8": FIG8,
    "fig9": FIG9,
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
