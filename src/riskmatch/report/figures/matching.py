"""How far apart the risks of the training domains are, step by step, by the paper's two measures.

Each is a divergence on all samples of a split that are on file, not on a batch: squared MMD with
the kernels of the released code, to which the published weights belong.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from riskmatch.report.distribution import Array
from riskmatch.report.figures.curves import Curve
from riskmatch.report.figures.on_file import Runs, about_runs, predicted_steps
from riskmatch.report.figures.plot import Lines
from riskmatch.report.findings.runs import RunOnFile
from riskmatch.report.findings.snapshots import finite_risks
from riskmatch.report.style import BLUE, DASHED, VERMILION, Look
from riskmatch.runs import predictions
from riskmatch.runs.records import Split

VARIANCE, WORST = "L: every domain and the pool", "L̂: the worst domain and the pool"
SPLITS: dict[Split, tuple[str, Look]] = {
    "train": ("training samples", Look(BLUE, DASHED)),
    "val": ("validation samples", Look(VERMILION, width=1.8)),
}
YLABEL = "squared MMD, log scale"


def gap(runs: Runs, start: int = 0) -> Lines:
    """L and L̂ on the training samples, over the steps from ``start`` on."""
    panels = {}
    for title, run in runs.items():
        steps = _from(start, run)
        found = [both(_risks(run, step, "train")) for step in steps]
        variance, worst = ([pair[k] for pair in found] for k in (0, 1))
        panels[title] = [
            Curve(WORST, steps, worst, Look(VERMILION, width=1.8)),
            Curve(VARIANCE, steps, variance, Look(BLUE, DASHED)),
        ]
    title = "The distributional variance L and its stand-in L̂ during training"
    return Lines(title, "step", about_runs(runs), panels, YLABEL, log=True)


def matching(runs: Runs, start: int = 0) -> Lines:
    """L̂ on training and on validation samples, over the steps from ``start`` on."""
    panels = {}
    for title, run in runs.items():
        steps = _from(start, run)
        panels[title] = [
            Curve(label, steps, [both(_risks(run, step, split))[1] for step in steps], look)
            for split, (label, look) in SPLITS.items()
        ]
    return Lines(
        "The matching loss L̂ during training", "step", about_runs(runs), panels, YLABEL, log=True
    )


def both(samples: Sequence[Array]) -> tuple[float, float]:
    """L and L̂ of the risks of domains.

    Example:
        >>> variance, worst = both([np.array([0.1, 0.2]), np.array([0.9, 1.4, 1.5])])
        >>> variance > worst  # the larger domain is nearer to the pool, of which it is more
        True
    """
    import torch

    from riskmatch.matching import risk_matching_penalty

    risks = torch.from_numpy(np.concatenate(samples))
    domains = torch.arange(len(samples)).repeat_interleave(torch.tensor([*map(len, samples)]))
    variance = risk_matching_penalty(risks, domains, match="variance")
    worst = risk_matching_penalty(risks, domains, match="worst")
    return variance.item(), worst.item()


def _risks(run: RunOnFile, step: int, split: Split) -> list[Array]:
    """Of every training domain."""
    found = predictions.read(run.folder, step)
    training = (found[name] for name in found if name not in run.config.test_domains)
    return [finite_risks(splits[split]) for splits in training]


def _from(start: int, run: RunOnFile) -> list[int]:
    steps: Iterable[int] = predicted_steps(run)
    return [step for step in steps if step >= start]
