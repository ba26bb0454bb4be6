"""Domain generalisation by matching the distributions of risks.

>>> import torch, riskmatch
>>> risks = torch.tensor([0.1, 0.2, 0.9, 1.4], requires_grad=True)
>>> riskmatch.RiskMatching(weight=1.0)(risks, torch.tensor([0, 0, 1, 1])).loss.backward()
"""

from __future__ import annotations

from riskmatch.lazy import lazy_names

TYPE_CHECKING = False  # typing takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Any

    from riskmatch.accumulation import accumulate as accumulate
    from riskmatch.advice import advise as advise
    from riskmatch.data import load_data as load_data
    from riskmatch.deployment import evaluate as evaluate
    from riskmatch.deployment import export as export
    from riskmatch.deployment import load_model as load_model
    from riskmatch.deployment import monitor as monitor
    from riskmatch.deployment import predict as predict
    from riskmatch.deployment import save_model as save_model
    from riskmatch.divergence import RBFMixture as RBFMixture
    from riskmatch.divergence import mmd2 as mmd2
    from riskmatch.engine import Run as Run
    from riskmatch.engine import fit as fit
    from riskmatch.engine import load_run as load_run
    from riskmatch.estimators import RiskMatchingClassifier as RiskMatchingClassifier
    from riskmatch.estimators import RiskMatchingRegressor as RiskMatchingRegressor
    from riskmatch.matching import Matching as Matching
    from riskmatch.matching import RiskMatching as RiskMatching
    from riskmatch.matching import risk_matching_penalty as risk_matching_penalty
    from riskmatch.runs.frame import results as results
    from riskmatch.selection import choose as choose
    from riskmatch.training import cost as cost
    from riskmatch.training import train as train

    __version__: str

_HOMES = {
    "Matching": "matching",
    "RBFMixture": "divergence",
    "RiskMatching": "matching",
    "RiskMatchingClassifier": "estimators",
    "RiskMatchingRegressor": "estimators",
    "Run": "engine.load",
    "accumulate": "accumulation",
    "advise": "advice.advising",
    "choose": "selection",
    "cost": "training",
    "evaluate": "deployment.evaluation",
    "export": "deployment.exporting",
    "fit": "engine.step",
    "load_data": "data",
    "load_model": "deployment.model",
    "load_run": "engine.load",
    "mmd2": "divergence",
    "monitor": "deployment.monitoring",
    "predict": "deployment.prediction",
    "results": "runs.frame",
    "risk_matching_penalty": "matching",
    "save_model": "deployment.saving",
    "train": "training",
}

__all__ = [
    "Matching",
    "RBFMixture",
    "RiskMatching",
    "RiskMatchingClassifier",
    "RiskMatchingRegressor",
    "Run",
    "accumulate",
    "advise",
    "choose",
    "cost",
    "evaluate",
    "export",
    "fit",
    "load_data",
    "load_model",
    "load_run",
    "mmd2",
    "monitor",
    "predict",
    "results",
    "risk_matching_penalty",
    "save_model",
    "train",
]

if not TYPE_CHECKING:  # or every misspelt name would pass a type checker
    _load, __dir__ = lazy_names(__name__, _HOMES)

    def __getattr__(name: str) -> Any:
        """A public name, imported on first use."""
        if name == "__version__":
            from importlib.metadata import version

            return version("riskmatch")
        return _load(name)
