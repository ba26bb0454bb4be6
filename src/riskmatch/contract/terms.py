"""Check what an objective returns."""

from __future__ import annotations

from torch import Tensor

from riskmatch.registry import PartError
from riskmatch.terms import Terms


def checked_terms(terms: object, objective: object) -> Terms:
    """What an objective returned.

    Raises:
        PartError: it is not :class:`Terms`, or their sum is no loss to train on.
    """
    fault = ""
    if not isinstance(terms, Terms):
        fault = f"{type(terms).__name__}; return Terms({{'risk': ev.risk, …}})"
    else:
        for name, part in terms.parts.items():
            if not isinstance(part, Tensor):
                fault = f"{type(part).__name__} as the term '{name}'; keep it a tensor"
            elif part.ndim:
                fault = f"a term '{name}' of shape {tuple(part.shape)}; reduce it, by .mean() say"
        if not terms.parts:
            fault = "no terms; return at least the risk, Terms({'risk': ev.risk})"
        elif not fault and not any(part.requires_grad for part in terms.parts.values()):
            fault = "terms that do not depend on the weights; return them with their graph"
    if fault:
        raise PartError(
            f"{type(objective).__name__} must return Terms whose parts are tensors with one number "
            f"each, got {fault}."
        )
    assert isinstance(terms, Terms)
    return terms
