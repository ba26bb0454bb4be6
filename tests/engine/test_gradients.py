"""Norms of the gradients of risk and penalty, and that they leave training as it is."""

from dataclasses import fields, replace

import pytest
import torch
from tiny_runs import final_state, lines, tiny

from riskmatch.engine import loop
from riskmatch.engine.assemble import assemble
from riskmatch.engine.evaluate import gradient_norms
from riskmatch.engine.run import train
from riskmatch.objectives import methods
from riskmatch.runs import records


def configured(method, warmup=20, **changes):
    """A run whose weight is recorded."""
    run = tiny(method, **changes)
    hparams = {**run.hparams, "weight": 2.0}
    return replace(run, hparams={**hparams, "warmup": warmup} if "warmup" in hparams else hparams)


def test_norms_are_those_of_the_terms():
    parts = assemble(configured("vrex", dropout=0.0), "cpu")
    stepper, n = parts.stepper, 7
    stepper.memory.step = 5000  # past the warm-up
    domains = [parts.splits[name]["train"] for name in stepper.domains]
    model, risks = stepper.model.eval(), []
    for domain in domains:
        risks.append(torch.nn.functional.cross_entropy(model(domain.x[:n])[1], domain.y[:n]))
    mean = torch.stack(risks).mean()
    penalty = 2.0 * torch.stack([(risk - mean) ** 2 for risk in risks]).mean()
    expected = {}
    for name, term in (("risk", mean), ("penalty", penalty)):
        gradients = torch.autograd.grad(term, list(model.parameters()), retain_graph=True)
        expected[name] = torch.cat([g.flatten() for g in gradients]).norm().item()
    model.train()
    assert gradient_norms(stepper, parts.splits, n) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("n", [7, 60])  # risks of which autograd is asked, or not
def test_norms_of_rdm_are_those_of_its_criterion(n):
    parts = assemble(configured("rdm", dropout=0.0, batch_size=n), "cpu")
    stepper = parts.stepper
    stepper.memory.step = 30
    domains = [parts.splits[name]["train"] for name in stepper.domains]
    model, risks = stepper.model.eval(), []
    for domain in domains:
        logits = model(domain.x[:n])[1]
        risks.append(torch.nn.functional.cross_entropy(logits, domain.y[:n], reduction="none"))
    mean = torch.stack([part.mean() for part in risks]).mean()
    groups = torch.arange(len(risks)).repeat_interleave(n)
    penalty = stepper.objective.criterion(torch.cat(risks), groups).loss - mean
    expected = {}
    for name, term in (("risk", mean), ("penalty", penalty)):
        gradients = torch.autograd.grad(term, list(model.parameters()), retain_graph=True)
        expected[name] = torch.cat([g.flatten() for g in gradients]).norm().item()
    model.train()
    assert gradient_norms(stepper, parts.splits, n) == pytest.approx(expected, rel=1e-3)


PENALISED = [
    name for name, method in methods().items() if any(f.name == "weight" for f in fields(method))
]


@pytest.mark.parametrize("method", PENALISED)
@pytest.mark.filterwarnings("ignore::riskmatch.runs.findings.RunWarning")  # of RDM's learning rates
def test_every_penalty_has_a_gradient_once_it_acts(tmp_path, method):
    evaluations = train(configured(method), tmp_path).evaluations
    norms = [e.gradients for e in evaluations if e.step >= 40]
    assert len(norms) == 2
    assert all(norm["risk"] > 0 and norm["penalty"] > 0 for norm in norms)


@pytest.mark.parametrize("method", ["rdm", "fishr", "causirl"])
def test_training_is_the_same_without_them(tmp_path, monkeypatch, method):
    run = configured(method)
    train(run, tmp_path / "with")
    monkeypatch.setattr(loop, "gradient_norms", lambda *_: {})
    train(run, tmp_path / "without")
    assert final_state(tmp_path / "with" / run.id) == final_state(tmp_path / "without" / run.id)


def test_norms_are_recorded_from_the_step_at_which_the_method_acts(tmp_path):
    run = configured("rdm", warmup=30)
    evaluations = train(run, tmp_path).evaluations
    assert [e.step for e in evaluations if e.gradients] == [40, 60]
    assert evaluations[-1].gradients.keys() == {"risk", "penalty"}
    assert records.read(tmp_path / run.id).evaluations == evaluations
    erm = train(tiny("erm"), tmp_path).evaluations
    assert not any(e.gradients for e in erm)


def test_resumed_run_has_the_same_norms(tmp_path):
    run = configured("rdm")

    def stop(progress):
        if progress.step == 40:  # before the evaluation of this step
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(run, tmp_path / "stopped", on_step=stop)
    train(run, tmp_path / "stopped", resume=True)
    train(run, tmp_path / "whole")
    assert lines(tmp_path / "stopped" / run.id) == lines(tmp_path / "whole" / run.id)
