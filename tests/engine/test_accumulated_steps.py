"""Steps that accumulate the gradient over pieces of a batch."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

from riskmatch.contract import Memory, Objective, OptimSpec, Terms
from riskmatch.data import Batch
from riskmatch.engine.run import train
from riskmatch.engine.step import Stepper, StepSettings
from riskmatch.models import MLP
from riskmatch.objectives import CORAL, EQRM, ERM, RDM, GroupDRO, VREx
from riskmatch.runs.config import RunConfig

METHODS = [
    ERM(),
    RDM(warmup=0, variance_weight=0.1),
    RDM(warmup=0, match="variance", divergence="moments", variance_weight=0.0),
    VREx(warmup=0),
    EQRM(warmup=0),
    GroupDRO(),
]


def batch_of(sizes=(20, 7, 13)):
    generator = torch.Generator().manual_seed(0)
    n = sum(sizes)
    x = torch.randn(n, 6, generator=generator, dtype=torch.float64)
    return Batch(x, torch.randint(3, (n,), generator=generator), sizes)


def weights_after(objective, settings, batch, steps=5):
    torch.manual_seed(0)
    model = MLP((6,), 3).double()
    memory = Memory(OptimSpec("sgd", lr=0.05))
    stepper = Stepper(model, objective, memory, settings)
    numbers = [(stepper.step(batch), stepper.worst_domain()) for _ in range(steps)]
    return torch.cat([p.detach().flatten() for p in model.parameters()]), numbers


@pytest.mark.parametrize("objective", METHODS, ids=lambda o: type(o).__name__)
@pytest.mark.parametrize("size", [1, 8, 39, 40])
def test_pieces_give_the_steps_of_the_whole_batch(objective, size):
    whole, numbers = weights_after(objective, StepSettings(), batch_of())
    pieces, others = weights_after(objective, StepSettings(accumulate=size), batch_of())
    assert (pieces - whole).norm() / whole.norm() < 1e-12
    for (one, worst), (other, other_worst) in zip(numbers, others, strict=True):
        assert worst == other_worst
        assert one == pytest.approx(other, rel=1e-9)


def test_clipping_sees_the_gradient_of_the_whole_batch():
    whole, _ = weights_after(VREx(warmup=0), StepSettings(clip=0.01), batch_of())
    pieces, _ = weights_after(VREx(warmup=0), StepSettings(clip=0.01, accumulate=8), batch_of())
    torch.testing.assert_close(pieces, whole, rtol=1e-10, atol=1e-12)


def test_a_method_that_needs_more_than_risks_is_refused_by_name():
    with pytest.raises(ValueError, match=r"CORAL needs features.*accumulate=0"):
        weights_after(CORAL(), StepSettings(accumulate=8), batch_of())


@dataclass(frozen=True)
class ReadsLogits(Objective):
    """Says that it needs risks alone, and reads logits."""

    citation = ""

    def __call__(self, ev, memory):
        return Terms({"risk": ev.risk, "size": ev.logits.square().mean()})


@dataclass(frozen=True)
class ReadsGradients(Objective):
    """Says that it needs risks alone, and reads gradients."""

    citation = ""

    def __call__(self, ev, memory):
        return Terms({"risk": ev.risk, "norm": sum(g.sum() for g in ev.grad(ev.risk).values())})


@pytest.mark.parametrize("objective", [ReadsLogits(), ReadsGradients()])
def test_a_method_that_reads_more_than_it_says_is_stopped(objective):
    with pytest.raises(ValueError, match="reads more than risks"):
        weights_after(objective, StepSettings(accumulate=8), batch_of())


class WithBatchNorm(nn.Module):
    """A network whose outputs depend on the other samples of a batch."""

    def __init__(self):
        super().__init__()
        self.norm, self.head = nn.BatchNorm1d(6), nn.Linear(6, 3)

    def forward(self, x):
        features = self.norm(x)
        return features, self.head(features)


def test_batch_norm_in_training_mode_is_refused():
    model = WithBatchNorm().double()
    stepper = Stepper(model, ERM(), Memory(OptimSpec()), StepSettings(accumulate=8))
    with pytest.raises(ValueError, match="layer norm is a BatchNorm"):
        stepper.step(batch_of())


RUN = RunConfig(
    "colored-digits",
    ("0.1",),
    "rdm",
    {"warmup": 5, "divergence": "moments", "weight": 10.0},
    steps=12,
    eval_every=6,
    dropout=0.2,
    batch_size=24,
    data_options={"samples": 60},
    model_options={"widths": [8]},
)


def test_a_run_without_dropout_has_the_record_of_the_whole_batch(tmp_path):
    whole = train(replace(RUN, dropout=0.0), tmp_path)
    pieces = train(replace(RUN, dropout=0.0, accumulate=10), tmp_path)
    assert whole.config.id != pieces.config.id
    for one, other in zip(whole.evaluations, pieces.evaluations, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-4)


def test_an_interrupted_run_resumes_to_the_same_numbers(tmp_path):
    config = replace(RUN, accumulate=10)
    expected = train(config, tmp_path / "whole")

    def interrupt(progress):
        if progress.step == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "cut", on_step=interrupt)
    resumed = train(config, tmp_path / "cut", resume=True)
    assert [e.loss for e in resumed.evaluations] == [e.loss for e in expected.evaluations]
    assert [e.scores for e in resumed.evaluations] == [e.scores for e in expected.evaluations]


def test_a_run_of_a_method_on_features_is_refused_before_its_data_are_loaded(tmp_path):
    config = replace(RUN, method="coral", hparams={}, accumulate=10, data="/nowhere")
    with pytest.raises(ValueError, match="CORAL needs features"):
        train(config, tmp_path)
