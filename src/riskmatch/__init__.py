"""Domain generalisation by matching the distributions of risks.

>>> import torch, riskmatch
>>> risks = torch.tensor([0.1, 0.2, 0.9, 1.4], requires_grad=True)
>>> riskmatch.RiskMatching(weight=1.0)(risks, torch.tensor([0, 0, 1, 1])).loss.backward()
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from riskmatch.accumulation import accumulate as accumulate
    from riskmatch.data import load_data as load_data
    from riskmatch.deployment import advise as advise
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
    from riskmatch.engine.train import train as train
    from riskmatch.estimators import RiskMatchingClassifier as RiskMatchingClassifier
    from riskmatch.estimators import RiskMatchingRegressor as RiskMatchingRegressor
    from riskmatch.matching import Matching as Matching
    from riskmatch.matching import RiskMatching as RiskMatching
    from riskmatch.matching import risk_matching_penalty as risk_matching_penalty
    from riskmatch.runs.frame import results as results
    from riskmatch.selection import choose as choose

    __version__: str

_HOMES = {
    "Matching": "riskmatch.matching",
    "RBFMixture": "riskmatch.divergence",
    "RiskMatching": "riskmatch.matching",
    "RiskMatchingClassifier": "riskmatch.estimators",
    "RiskMatchingRegressor": "riskmatch.estimators",
    "Run": "riskmatch.engine.load",
    "accumulate": "riskmatch.accumulation",
    "advise": "riskmatch.deployment.advising",
    "choose": "riskmatch.selection",
    "evaluate": "riskmatch.deployment.evaluation",
    "export": "riskmatch.deployment.exporting",
    "fit": "riskmatch.engine.step",
    "load_data": "riskmatch.data",
    "load_model": "riskmatch.deployment.model",
    "load_run": "riskmatch.engine.load",
    "mmd2": "riskmatch.divergence",
    "monitor": "riskmatch.deployment.monitoring",
    "predict": "riskmatch.deployment.prediction",
    "results": "riskmatch.runs.frame",
    "risk_matching_penalty": "riskmatch.matching",
    "save_model": "riskmatch.deployment.saving",
    "train": "riskmatch.engine.train",
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

    def __getattr__(name: str) -> Any:
        """Import a public name on first use, so that torch is loaded only where it is needed."""
        if name == "__version__":
            from importlib.metadata import version

            return version("riskmatch")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
