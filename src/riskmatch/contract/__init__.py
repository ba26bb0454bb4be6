"""What the engine and the methods agree on."""

from riskmatch.contract.adam import adam_step
from riskmatch.contract.evaluation import Eval, MissingFeaturesError, Params, outputs
from riskmatch.contract.objective import (
    Memory,
    Needs,
    Objective,
    OptimFactory,
    OptimSpec,
    checked_terms,
)
from riskmatch.contract.risks import RiskFunction, cross_entropy_risks, risk_function
from riskmatch.terms import Terms

__all__ = [
    "Eval",
    "Memory",
    "MissingFeaturesError",
    "Needs",
    "Objective",
    "OptimFactory",
    "OptimSpec",
    "Params",
    "RiskFunction",
    "Terms",
    "adam_step",
    "checked_terms",
    "cross_entropy_risks",
    "outputs",
    "risk_function",
]
