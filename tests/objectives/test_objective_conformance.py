"""Every method passes the conformance suite; a new file in `objectives/` is found by itself."""

from dataclasses import dataclass, field

import pytest
import torch

from riskmatch.contract import Eval, Memory, Objective, Terms
from riskmatch.objectives import EQRM, RDM, CausIRL, methods
from riskmatch.registry import PartError
from riskmatch.space import LogUniform, tuned
from riskmatch.testing import ConformanceError
from riskmatch.testing import objectives as suite
from riskmatch.testing.objectives import CHECKS

VARIANTS = {
    **{name: method() for name, method in methods().items()},
    "causirl mmd": CausIRL(distance="mmd"),
    "eqrm extreme": EQRM(log_tail=-1000.0),
    "rdm variance": RDM(match="variance"),
    "rdm moments": RDM(divergence="moments"),
    "rdm rescaled": RDM(rescale=True),
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("objective", VARIANTS.values(), ids=VARIANTS.keys())
def test_method_conforms(objective, check):
    check(objective)


@dataclass(frozen=True)
class Rogue(Objective):
    """Breaks every promise that can be broken quietly."""

    weight: float = tuned(100.0, LogUniform(-1, 1))
    calls: list = field(default_factory=list)
    needs = "everything"

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        self.calls.append(1)  # state outside the memory
        noise = torch.rand(())  # randomness outside the generator
        again = Eval(ev.model, ev.batch).risk  # a second forward pass
        penalty = self.weight * (again - ev.risk).detach()
        return Terms({"risk": (noise + len(self.calls)) * ev.logits.sum(), "penalty": penalty})


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (suite.is_described, "Rogue: has no citation"),
        (suite.defaults_lie_in_their_ranges, "default 100.0 of 'weight' is outside"),
        (suite.same_seed_same_bits, "two runs with the same seed differ"),
        (suite.resumes_with_the_same_bits, "keep state in memory.state"),
        (suite.zero_weights_are_not_computed, "with weight=0 its term is still there"),
        (suite.one_forward_pass, "took 2 forward passes"),
        (suite.running_statistics_see_the_batch_once, "disturbs the running statistics"),
    ],
)
def test_suite_names_the_broken_promise(check, message):
    with pytest.raises(ConformanceError, match=message):
        check(Rogue())


def test_suite_misses_a_gradient():
    @dataclass(frozen=True)
    class Headless(Objective):
        """Trains the features alone."""

        def __call__(self, ev, memory):
            return Terms({"risk": ev.features.sum()})

    with pytest.raises(ConformanceError, match="no gradient reaches classifier"):
        suite.gradients_reach_every_weight(Headless())


WRONG = {
    "Tensor; return Terms": lambda ev: ev.risk,
    r"'risk' of shape \(\d+,\)": lambda ev: Terms({"risk": ev.risks}),
    "float as the term 'risk'": lambda ev: Terms({"risk": 0.5}),
    "no terms": lambda ev: Terms({}),
    "do not depend on the weights": lambda ev: Terms({"risk": ev.risk.detach()}),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_an_objective_returns_is_checked(message):
    class Own(Objective):
        def __call__(self, ev, memory):
            return WRONG[message](ev)

    for check in (suite.trains_on_one_domain, suite.gradients_reach_every_weight):
        with pytest.raises(PartError, match=f"Own must return Terms.*{message}"):
            check(Own())
