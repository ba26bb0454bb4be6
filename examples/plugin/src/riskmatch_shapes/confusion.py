"""A method with a network of its own: features that leave a classifier of domains undecided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from riskmatch.contract import Eval, Memory, Objective, OptimSpec, Shape, Terms
from riskmatch.space import NOT_NEGATIVE, POSITIVE, LogUniform, tuned


@dataclass(frozen=True)
class DomainConfusion(Objective):
    r"""Train a classifier q of domains on the features, and the features towards its ignorance.

    .. math:: \min_q \; - \operatorname*{mean}_i \log q_{e_i}(f_i), \qquad
              \min_{\text{network}} \; \bar R - \frac{\lambda}{m} \operatorname*{mean}_i
              \sum_e \log q_e(f_i)

    with m domains. Both take a step in each step, by optimisers of their own.
    """

    weight: float = tuned(1.0, LogUniform(-2, 2), NOT_NEGATIVE)
    """λ, of the cross-entropy with equal shares of all domains."""
    critic_lr: float = tuned(1e-3, LogUniform(-5, -2), POSITIVE)
    """Learning rate of the classifier of domains."""

    title = "Domain confusion"
    idea = "adversarial"
    needs = "features"
    citation = "Tzeng et al., Simultaneous Deep Transfer Across Domains and Tasks, ICCV 2015"

    def modules(self, shape: Shape) -> dict[str, nn.Module]:
        """The classifier, features → domains."""
        return {"critic": nn.Linear(shape.features, shape.domains)}

    def optim(self, base: OptimSpec, step: int) -> Mapping[str, OptimSpec]:
        """The optimiser of the network as configured, and that of the classifier."""
        return {"network": base, "critic": OptimSpec("adam", self.critic_lr)}

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """The terms of one step."""
        critic = ev.modules["critic"]
        critic_risk = cross_entropy(critic(ev.features.detach()), ev.batch.domains)
        parts = Terms.penalised(ev.risk, self.weight, lambda: self._confusion(ev, critic))
        return Terms({**parts.parts, "critic": critic_risk}, parts.raw)

    def _confusion(self, ev: Eval, critic: nn.Module) -> Tensor:
        """() the cross-entropy with equal shares; it changes the features alone."""
        fixed = {name: weight.detach() for name, weight in critic.named_parameters()}
        logits = functional_call(critic, fixed, (ev.features,))
        return -logits.log_softmax(1).mean()
