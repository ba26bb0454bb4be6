"""What the engine and the methods agree on."""

from riskmatch.contract.adam import adam_step
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
    "adam_step",
    "cross_entropy_risks",
]
