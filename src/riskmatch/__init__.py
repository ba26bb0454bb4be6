"""Domain generalisation by matching the distributions of risks.

>>> import torch, riskmatch
>>> risks = torch.tensor([0.1, 0.2, 0.9, 1.4], requires_grad=True)
>>> riskmatch.RiskMatching(weight=1.0)(risks, torch.tensor([0, 0, 1, 1])).loss.backward()
"""

from lazy_loader import attach_stub

_load, __dir__, __all__ = attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    """A public name, imported on first use."""
    if name == "__version__":
        from importlib.metadata import version

        return version("riskmatch")
    return _load(name)
