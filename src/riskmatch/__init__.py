"""Domain generalisation by matching the distributions of risks.

>>> import torch, riskmatch
>>> risks = torch.tensor([0.1, 0.2, 0.9, 1.4], requires_grad=True)
>>> riskmatch.RiskMatching(weight=1.0)(risks, torch.tensor([0, 0, 1, 1])).loss.backward()
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from riskmatch.divergence import RBFMixture, mmd2
    from riskmatch.matching import Matching, RiskMatching, risk_matching_penalty

__all__ = ["Matching", "RBFMixture", "RiskMatching", "mmd2", "risk_matching_penalty"]

_HOMES = {
    "Matching": "riskmatch.matching",
    "RBFMixture": "riskmatch.divergence",
    "RiskMatching": "riskmatch.matching",
    "mmd2": "riskmatch.divergence",
    "risk_matching_penalty": "riskmatch.matching",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that torch is loaded only where needed."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
