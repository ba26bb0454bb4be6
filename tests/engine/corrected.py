"""A method with a network, turns, optimisers by name, a projection and a prediction of its own."""

from dataclasses import dataclass, replace

from torch import nn

from riskmatch.contract import Objective, Terms

BOUND = 0.05


@dataclass(frozen=True)
class Corrected(Objective):
    """Add a linear correction to the logits, trained at a second turn at a rate of its own."""

    rate: float = 0.01

    title = "Corrected"
    needs = "features"
    needs_start = True
    citation = "a test"

    def modules(self, shape):
        return {"correction": nn.Linear(shape.features, shape.outputs)}

    def turns(self, step):
        return 2

    def optim(self, base, step, turn=0):
        if turn == 0:
            return {"featurizer": base, "classifier": replace(base, lr=base.lr / 2)}
        return {"correction": replace(base, lr=self.rate, betas=(0.5, 0.9))}

    def __call__(self, ev, memory):
        if memory.turn == 0:
            drift = (ev.features - ev.start.features).square().mean()
            return Terms({"risk": ev.risk, "drift": 0.1 * drift})
        return Terms({"correction": ev.risks_of(self.predict(ev)).mean()})

    def after_turn(self, modules, memory):
        modules["correction"].bias.clamp_(-BOUND, BOUND)

    def predict(self, ev):
        return ev.logits + ev.modules["correction"](ev.features)
