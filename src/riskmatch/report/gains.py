"""Gains over ERM with the unit of their intervals, and p-values adjusted over all methods."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from math import nan
from operator import attrgetter
from statistics import fmean
from typing import Any

from riskmatch.report.facts import Facts
from riskmatch.report.selected import RowKey, Selected
from riskmatch.report.tables import LEVEL, Column, Gain, PValue
from riskmatch.statistics import UNITS, Unit, max_t
from riskmatch.validation import check_option

GAIN, ADJUSTED = "gain over ERM", "adjusted p"
"""Titles of the columns of paired differences from ERM and of their p-values."""
VARYING: dict[Unit, str] = {
    "domains": "trials vary, paired within each domain",
    "new-domain": "domains vary, each the mean of its trials",
}
"""What the interval of each unit takes as drawn."""


def adjusted_gains(
    tables: Sequence[Sequence[Sequence[float]]], unit: Unit = "domains", decimals: int = 1
) -> list[Gain]:
    """Gains of several methods over one control, their p-values adjusted together.

    Args:
        tables: paired differences of each method by domain and trial, as for
            :func:`riskmatch.statistics.max_t`.
        unit: what intervals and p-values generalise over.
        decimals: decimals of the gains.

    Example:
        >>> gains = adjusted_gains([[[1.0, 2.0], [3.0, 4.0]], [[1.0, 9.0], [-3.0, 4.0]]])
        >>> [(str(gain), round(gain.p, 2)) for gain in gains]
        [('+2.5 ± 1.5', 0.04), ('+2.8 ± 11.5', 0.41)]
    """
    pairs = zip(tables, max_t(tables, unit), strict=True)
    return [Gain.of(table, unit, p, decimals) for table, p in pairs]


def gains_over_erm(
    sets: Sequence[Selected], keys: Iterable[RowKey], unit: Unit = "domains"
) -> dict[RowKey, Gain]:
    """Gains of rows over ERM with the same network, paired over everything both were tested on.

    Test domains that a run leaves out together count as one domain, with their mean.

    Raises:
        ValueError: there is no such unit.
    """
    check_option("unit", unit, UNITS)
    differences = {key: _differences(sets, key) for key in keys if key.variant != "erm"}
    differences = {key: own for key, own in differences.items() if own}
    places = [at for own in differences.values() for at in own]
    domains = list(dict.fromkeys(domain for domain, _ in places))
    trials = list(dict.fromkeys(trial for _, trial in places))
    tables = [
        [[own.get((domain, trial), nan) for trial in trials] for domain in domains]
        for own in differences.values()
    ]
    return dict(zip(differences, adjusted_gains(tables, unit, sets[0].decimals), strict=True))


Place = tuple[tuple[str, frozenset[str]], int]
"""The data set and the test domains of a run, and its trial."""


def _differences(sets: Sequence[Selected], key: RowKey) -> dict[Place, float]:
    """Paired differences of a row from ERM in the unit of tables."""
    found = defaultdict[Place, list[float]](list)
    for one in sets:
        together = dict(zip(one.alone["test_domain"], one.alone["test_domains"], strict=True))
        ours, theirs = one.values(key), one.values(RowKey("erm", key.model))
        for (domain, trial), value in ours.items():
            if (domain, trial) in theirs:
                place = (one.data, frozenset(together[domain])), trial
                found[place].append(one.facts.gain(value, theirs[domain, trial]))
    return {place: fmean(values) for place, values in found.items()}


def gain_column(unit: Unit, gain: Callable[[Any], Gain | None]) -> Column:
    """The column of the gain of a row."""
    interval = "mean difference over domains, paired by trial, ± half of its 95 % t-interval"
    about = f"{interval}; unit: {UNITS[unit]} ({VARYING[unit]})"
    return Column(GAIN, gain, about, optional=True)


def gain_columns(number: int, unit: Unit) -> list[Column]:
    """Columns of a row's ``gain``, and of its p-value adjusted over a number of methods."""
    about = (
        f"for all {number} comparisons with ERM together, by step-down max-t, or by Holm's method "
        "where their runs differ"
    )
    return [
        gain_column(unit, attrgetter("gain")),
        Column(ADJUSTED, lambda row: PValue(row.gain.p) if row.gain else None, about, True),
    ]


def unit_facts(gains: Collection[Gain], unit: Unit) -> Facts:
    """Whether there are enough domains or trials for intervals of a unit, and for p-values.

    A test of m differences by their signs alone, the exact one without an assumption on their
    distribution beyond symmetry, has no p-value below 2 / 2^m.

    Example:
        >>> unit_facts(adjusted_gains([[[1.0], [2.0], [1.5]]], "new-domain"), "new-domain")
        {'3 domains are few': 'without the assumption of normal differences ... below 0.25'}
    """
    if not gains:
        return {}
    if all(gain.p is None for gain in gains):
        lack = {
            "domains": "every test domain has one trial; train further ones, or take new-domain",
            "new-domain": "there is one test domain; leave out further ones, or take domains",
        }
        return {f"no interval of {UNITS[unit]}": f"{lack[unit]} as the unit"}
    n, what = max(len(gain.values) for gain in gains), "pairs" if unit == "domains" else "domains"
    floor = 2.0 ** (1 - n)
    few = f"without the assumption of normal differences no adjusted p can fall below {floor:.3g}"
    return {f"{n} {what} are few": few * (floor > LEVEL)}
