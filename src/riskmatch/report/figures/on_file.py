"""What figures read of runs: records, and what they said of their samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from riskmatch.report import titles
from riskmatch.report.findings.runs import RunOnFile
from riskmatch.runs import predictions
from riskmatch.runs.config import RunConfig
from riskmatch.runs.predictions import Predictions
from riskmatch.runs.records import Split

Runs = Mapping[str, RunOnFile]
"""By the titles of their panels."""


class NoPredictions(FileNotFoundError):
    """A run did not keep what it said of its samples."""


def predicted_steps(run: RunOnFile) -> tuple[int, ...]:
    """The steps whose predictions are on file.

    Raises:
        NoPredictions: there are none.
    """
    steps = predictions.steps(run.folder)
    if not steps:
        raise NoPredictions(
            f"{run.folder} holds no predictions, which this figure shows. riskmatch train and "
            "riskmatch reproduce keep them, riskmatch sweep does not: train this run again in "
            "another folder."
        )
    return steps


def last_predictions(run: RunOnFile) -> dict[str, dict[Split, Predictions]]:
    """What a run said at the last step on file."""
    return predictions.read(run.folder, predicted_steps(run)[-1])


def about(configs: Iterable[RunConfig]) -> str:
    """What runs are of, in a line for below a figure.

    Example:
        >>> about([RunConfig("pacs", ("sketch",), "erm", model="lite0", steps=1000)])
        'PACS, lite0, 1000 steps.'
    """
    told = dict.fromkeys(
        f"{titles.DATA.get(c.data, c.data)}, {network(c.model, c.model_options)}, {c.steps} steps"
        for c in configs
    )
    return "; ".join(told) + "."


def about_runs(runs: Runs) -> str:
    """The same of runs."""
    return about(run.config for run in runs.values())


def network(model: str, options: Mapping[str, object]) -> str:
    """The network in a few words.

    Example:
        >>> network("lite0", {"frozen": True})
        'a head on the frozen features of lite0'
    """
    return f"a head on the frozen features of {model}" if options.get("frozen") else model
