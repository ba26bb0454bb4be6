"""Empirical risk minimisation."""

from __future__ import annotations

from dataclasses import dataclass

from riskmatch.contract import Eval, Memory, Objective, Terms


@dataclass(frozen=True)
class ERM(Objective):
    r"""The mean of the domain risks.

    .. math:: \frac1m \sum_{e=1}^m \bar R_e
    """

    title = "ERM"
    idea = "risks"
    plain = True
    citation = "Vapnik, An overview of statistical learning theory, IEEE TNN 1999"

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        return Terms({"risk": ev.risk})
