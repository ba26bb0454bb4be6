"""A metric that records lack, from the predictions that runs have stored."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from riskmatch import registry
from riskmatch.metrics import MetricFacts, find_metric
from riskmatch.runs import predictions
from riskmatch.runs.frame import metrics_of
from riskmatch.trust import is_own


def with_metric(runs: pd.DataFrame, evaluations: pd.DataFrame, metric: str | None) -> pd.DataFrame:
    """The evaluations, with a metric of the user's own that no record has.

    It is computed at the last step of every run, of the samples whose predictions are stored, and
    missing elsewhere. With any other metric, the evaluations are returned as they are.

    Args:
        runs: runs with their folders, as :func:`riskmatch.results` returns them.
        evaluations: the evaluations of these runs.
        metric: a name; None is the primary metric of the runs.

    Raises:
        PartError: there is no such metric.
        ValueError: no run has predictions of its last step.
    """
    own = metric and (is_own(metric) or registry.announced("metric", metric))
    if metric is None or not own or metric in metrics_of(evaluations):
        return evaluations
    judge = find_metric(metric)
    folders = runs.drop_duplicates("run").set_index("run")["folder"]
    ordered = evaluations.dropna(subset=["step"]).sort_values("step", kind="stable")
    last = ordered.drop_duplicates("run", keep="last")
    rows: dict[object, dict[str, float]] = {}
    for place, run, step in zip(last.index, last["run"], last["step"], strict=True):
        with suppress(OSError, ValueError):  # predictions were not stored
            rows[place] = {
                f"{metric}/{split}/{domain}": judge(part.label, part.predicted, part.scores)[0]
                for domain, splits in predictions.read(Path(folders[run]), int(step)).items()
                for split, part in splits.items()
            }
    if not rows:
        raise ValueError(
            f"No run has the metric {metric!r}, and none has stored predictions of its last step, "
            f"from which it could be computed. Train with --metrics {metric} (metrics={metric!r}), "
            "or with riskmatch.train(…, predictions=True)."
        )
    added = pd.DataFrame.from_dict(rows, orient="index").reindex(evaluations.index)
    joined = pd.concat([evaluations, added], axis="columns")
    facts = MetricFacts(judge.title, judge.higher, judge.range)
    known = {**evaluations.attrs.get("metrics", {}), metric: asdict(facts)}
    joined.attrs = {**evaluations.attrs, "metrics": known}
    return joined
