"""Transfer risk minimisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.autograd import grad

from riskmatch.contract import Eval, Memory, Objective, Terms
from riskmatch.space import NOT_NEGATIVE, LogUniform, tuned
from riskmatch.validation import check_option

HEAD_STEPS, HEAD_LR, SERIES, LARGE = 30, 0.1, 10, 10.0
Series = Literal["paper", "authors-code"]


@dataclass(frozen=True)
class TRM(Objective):
    r"""Learn features on which the best classifier of one domain serves the others.

    .. math:: \bar R + \frac1m \sum_e \bigl[ T_e - \lambda\, \langle \hat H_e^{-1} \nabla_w T_e,
              \nabla_w R_e(w_e) \rangle \bigr], \qquad
              T_e = \sum_{j \ne e} \alpha_{ej} R_j(w_e), \qquad
              \alpha_{ej} \leftarrow \alpha_{ej} \exp(\eta\, \alpha_{ej} R_j(w_e))

    The linear classifier w_e of domain e takes 30 steps of gradient descent at rate 0.1 on its
    features before each step. The weights α of a row sum to 1 before they are used. The inverse
    Hessian of R_e is that of eleven terms of a Neumann series, cut off where an entry exceeds 10;
    ``series="authors-code"`` has its second term in place of the first, as the released code.
    Products are by the weights of w_e, without its bias. Before ``warmup``, and with a single
    domain, it is ERM.

    Of each domain ``head/NAME`` (c, d + 1) in the memory is its classifier, the last column its
    bias, which starts at 0; ``share/NAME/OTHER`` is α.
    """

    weight: float = tuned(1e-4, LogUniform(-5, 0), NOT_NEGATIVE, domainbed="cos_lambda")
    """λ, of the product of gradients."""
    warmup: int = tuned(200, LogUniform(0, 4, integer=True), NOT_NEGATIVE, domainbed="iters")
    """Steps of ERM before the transfer risk is added."""
    eta: float = tuned(1e-2, LogUniform(-3, -1), NOT_NEGATIVE, domainbed="groupdro_eta")
    """η, the step size of the weights of the domains."""
    series: Series = "paper"
    """How the inverse Hessian is approximated."""

    title = "TRM"
    idea = "risks"
    needs = "features"
    citation = (
        "Xu and Jaakkola, Learning Representations that Support Robust Transfer of Predictors, "
        "arXiv 2021"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_option("series", self.series, get_args(Series))

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        names, m = ev.batch.names, len(ev.batch.names)
        if memory.step < self.warmup or m == 1:
            return Terms({"risk": ev.risk})
        heads = _fitted_heads(ev, memory)
        pairs = [f"{one}/{other}" for one in names for other in names]
        others = 1 - torch.eye(m, dtype=heads.dtype, device=heads.device)
        shares = memory.recall_domains("share", pairs, others.flatten()).view(m, m)
        shares = shares / shares.sum(1, keepdim=True)
        risks, products = [], []
        for domain, head in enumerate(heads):
            weight = head[:, :-1].detach().requires_grad_()
            there = ev.domain_means(ev.risks_of(ev.features @ weight.T + head[:, -1]))  # (m,)
            risks.append(shares[domain] * there)
            if self.weight:
                products.append(self._product(risks[-1].sum(), there[domain], weight))
        weighted = torch.stack(risks)  # (m, m)
        memory.keep_domains("share", pairs, (shares * (self.eta * weighted).exp()).flatten())
        transfer = weighted.sum() / m
        parts, raw = {"risk": ev.risk, "transfer": transfer}, {"transfer": transfer}
        if products:
            raw["product"] = torch.stack(products).mean()
            parts["product"] = -self.weight * raw["product"]
        return Terms(parts, raw)

    def _product(self, transfer: Tensor, risk: Tensor, weight: Tensor) -> Tensor:
        """() the product of the gradients, of which the first is a constant."""
        (term,) = grad(transfer, weight, retain_graph=True)
        (slope,) = grad(risk, weight, create_graph=True)
        total = term
        for number in range(SERIES):
            (change,) = grad(slope, weight, term, retain_graph=True)
            term = term - change
            more = term + (term if self.series == "authors-code" and not number else total)
            # As ending the loop, without waiting for a number.
            total = torch.where(total.abs().max() > LARGE, total, more) if number else more
        return (total * slope).sum()


def _fitted_heads(ev: Eval, memory: Memory) -> Tensor:
    """(m, c, d + 1) the classifier of each domain, after its steps."""
    features, ys = ev.per_domain(ev.features.detach()), ev.per_domain(ev.batch.y)
    start = features[0].new_zeros(len(ys), ev.logits.shape[1], features[0].shape[1] + 1)
    heads = memory.recall_domains("head", ev.batch.names, start)
    for _ in range(HEAD_STEPS):
        heads.requires_grad_()
        risks = [
            ev.risks_of(part @ head[:, :-1].T + head[:, -1], y).mean()
            for part, head, y in zip(features, heads, ys, strict=True)
        ]
        (slope,) = grad(torch.stack(risks).sum(), heads)
        heads = (heads - HEAD_LR * slope).detach()
    memory.keep_domains("head", ev.batch.names, heads)
    return heads
