"""What the engine and the methods agree on."""

from riskmatch.contract.evaluation import Eval, Params, RiskFunction, cross_entropy_risks
from riskmatch.contract.objective import Memory, Needs, Objective, OptimSpec, Terms

__all__ = [
    "Eval",
    "Memory",
    "Needs",
    "Objective",
    "OptimSpec",
    "Params",
    "RiskFunction",
    "Terms",
    "cross_entropy_risks",
]
