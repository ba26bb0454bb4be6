"""Name the columns of a table without which a model of all the others is much worse."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riskmatch.data.doctor.findings import Finding
from riskmatch.data.table import TableDomains

LIFT = 0.03
"""Least lift of the metric by a column that is named."""
LIKELY = 0.8
"""Metric above that of a constant guess, as a share of the possible, of a column that by itself is
likely to leak."""
ROWS = 5_000
"""Rows that lifts are measured in."""


def check_lifts(
    table: TableDomains, x: NDArray[np.float64], y: NDArray[Any], leaks: Collection[str | None]
) -> Iterator[Finding]:
    """The columns without which gradient boosting loses more than :data:`LIFT` of its metric.

    The metric, accuracy or R², is that of one half of the rows, on the other half of which the
    model is fitted; a lift below two standard errors counts as none. A column is left out only if
    permuting it costs as much; columns that are known to leak always are.

    Args:
        table: the table; one of tags has no findings.
        x: (n, columns) inputs of all domains.
        y: (n,) labels.
        leaks: columns that are known to leak.
    """
    rng, classes = np.random.default_rng(0), table.labels == "classes"
    rows = rng.permutation(len(x))[:ROWS]
    half = len(rows) // 2
    columns = [k for k, column in enumerate(table.columns) if column.name not in leaks]
    few = len(columns) < 2 or len({*y[rows[:half]].tolist()}) < 2 if y.ndim == 1 else True
    if few or table.too_many_classes():
        return
    x, y = x[rows], y[rows]

    def errors(inputs: list[int], model: Any = None, permuted: int | None = None) -> Any:
        """The model, and the error of each row: of a constant guess their mean is one or less."""
        new = x[half:, inputs]
        if permuted is not None:
            new[:, permuted] = rng.permutation(new[:, permuted])
        model = model or _booster(classes).fit(x[:half, inputs], y[:half])
        wrong = model.predict(new) - y[half:]
        return model, (wrong != 0) * 1.0 if classes else wrong**2 / y[half:].var()

    model, best = errors(columns)
    constant = np.mean(y[half:] != np.bincount(y[:half]).argmax()) if classes else 1.0
    for place, k in enumerate(columns):
        if (errors(columns, model, place)[1] - best).mean() <= LIFT:
            continue
        without = errors([column for column in columns if column != k])[1]
        lift = without - best
        if lift.mean() <= max(LIFT, 2 * lift.std() / np.sqrt(len(lift))):
            continue
        alone, name = errors([k])[1].mean(), table.columns[k].name
        likely = alone <= min(without.mean(), (1 - LIKELY) * constant)
        scores = (f"{100 * (1 - error):.0f}" for error in (without.mean(), best.mean(), alone))
        message = (
            "lifts the {} by {:.0f} points, from {} to {}, and reaches {} by itself; leak: {}"
        ).format(
            "accuracy" if classes else "R²",
            100 * lift.mean(),
            *scores,
            "likely" if likely else "possible",
        )
        cure = f"If it is not known when predicting, leave it out: --ignore {name}"
        yield Finding("lift", "warning" if likely else "note", message, cure, column=name)


def _booster(classes: bool) -> Any:
    from sklearn.ensemble import (  # type: ignore[import-untyped]
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
    )

    booster = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return booster(max_iter=50, random_state=0, early_stopping=False)
