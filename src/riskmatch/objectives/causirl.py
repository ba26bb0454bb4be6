"""Causality-based invariant representation learning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from riskmatch.contract import Eval, Memory, Objective, Terms
from riskmatch.divergence import feature_coral, feature_mmd2
from riskmatch.divergence.checks import check_option
from riskmatch.space import NOT_NEGATIVE, LogUniform, tuned

Distance = Literal["coral", "mmd"]


@dataclass(frozen=True)
class CausIRL(Objective):
    r"""Match the features of two random mixtures of the domains.

    .. math:: \frac1m \sum_e \bar R_e + \gamma\, D(A, B), \qquad
              A = \bigcup_e \{f_i : i < c_e\}, \quad B = \bigcup_e \{f_i : i \ge c_e\}

    Every domain's features are cut at a random point c_e; the first parts of all domains make up A,
    the second parts B. The penalty is 0 where A or B has fewer than two samples.
    """

    weight: float = tuned(1.0, LogUniform(-1, 1), NOT_NEGATIVE, domainbed="mmd_gamma")
    """γ, of the distance between features."""
    distance: Distance = "coral"
    """D: means and covariances, or the kernel distance of the features."""

    title = "CausIRL (CORAL)"
    idea = "features"
    variants = ("distance",)
    variant_titles: ClassVar[Mapping[str, str]] = {"mmd": "CausIRL (MMD)"}
    domainbed: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "CausIRL_CORAL": {"distance": "coral"},
        "CausIRL_MMD": {"distance": "mmd"},
    }
    needs = "features"
    citation = (
        "Chevalley et al., Invariant Causal Mechanisms through Distribution Matching, arXiv 2022"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_option("distance", self.distance, get_args(Distance))

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        return Terms.penalised(ev.risk, self.weight, lambda: self._penalty(ev, memory))

    def _penalty(self, ev: Eval, memory: Memory) -> Tensor:
        parts = ev.per_domain(ev.features)
        cuts = [int(torch.randint(len(part), (), generator=memory.generator)) for part in parts]
        first = torch.cat([part[:cut] for part, cut in zip(parts, cuts, strict=True)])
        second = torch.cat([part[cut:] for part, cut in zip(parts, cuts, strict=True)])
        if min(len(first), len(second)) < 2:
            return ev.features.new_zeros(())
        between = feature_coral if self.distance == "coral" else feature_mmd2
        return between([first, second])
