"""Domain generalisation by matching the distributions of risks.

>>> import torch, riskmatch
>>> risks = torch.tensor([0.1, 0.2, 0.9, 1.4], requires_grad=True)
>>> riskmatch.RiskMatching(weight=1.0)(risks, torch.tensor([0, 0, 1, 1])).loss.backward()
"""

from riskmatch.divergence import RBFMixture, mmd2
from riskmatch.matching import Matching, RiskMatching, risk_matching_penalty

__all__ = ["Matching", "RBFMixture", "RiskMatching", "mmd2", "risk_matching_penalty"]
