"""What a step waits for on a device, and terms that are read every few steps."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from simulated_device import DEVICE, SimulatedDevice, count_of_a_step

from riskmatch import RiskMatching, fit, load_run, risk_matching_penalty, train
from riskmatch.contract import Memory, OptimSpec
from riskmatch.data import Batch
from riskmatch.divergence import DomainIndex, forms
from riskmatch.divergence.checks import NonFiniteError
from riskmatch.engine.step import DivergedError, StepSettings
from riskmatch.models import MLP
from riskmatch.objectives import ERM, RDM, VREx
from riskmatch.registry import built_in, find

RECORD = Path(__file__).parents[2] / "results" / "bench" / "waits.json"


@pytest.mark.parametrize("name", sorted(built_in("method")))
def test_a_step_waits_no_more_often_than_recorded(name):
    waits, uploads = count_of_a_step(name)
    allowed = json.loads(RECORD.read_text())["now"][name]
    assert (sum(waits.values()), sum(uploads.values())) <= (allowed["waits"], allowed["uploads"])
    assert sum(uploads.values()) <= allowed["uploads"]


def test_a_simulated_device_counts_reads_and_refuses_other_tensors():
    with SimulatedDevice() as device:
        values = torch.arange(4.0).to(DEVICE)
        assert sum(device.uploads.values()) == 1
        assert (values.max().item(), bool((values > 1).any()), values.tolist()[1]) == (3, True, 1)
        assert len(values[values > 1]) == 2
        assert sum(device.waits.values()) == 4
        with pytest.raises(RuntimeError, match="two devices"):
            values + torch.arange(4.0)


@pytest.mark.parametrize("match", ["worst", "variance"])
@pytest.mark.parametrize("divergence", ["mmd", "moments", "energy", "wasserstein-1"])
@pytest.mark.parametrize("samples", [90, 200, 201])
def test_the_criterion_waits_as_stated_and_computes_what_it_does_on_the_cpu(
    match, divergence, samples, monkeypatch
):
    assert forms.DENSE_ON_DEVICE == 8192
    monkeypatch.setattr(forms, "DENSE_ON_DEVICE", 200)
    allowed = int(samples > 200 and divergence == "mmd")
    generator = torch.Generator().manual_seed(0)
    values = 3 * torch.rand(samples, dtype=torch.float64, generator=generator)
    labels = torch.arange(samples) % 3
    criterion = RiskMatching(5.0, match, divergence, variance_weight=0.1)
    known = values.clone().requires_grad_()
    expected = criterion(known, labels).loss
    expected.backward()
    with SimulatedDevice() as device:
        risks = values.to(DEVICE).requires_grad_()
        index = DomainIndex.of(labels).to(DEVICE)
        criterion(risks, index).loss.backward()  # what is kept for later calls is made here
        for domains, more in ((index, 0), (labels.to(DEVICE), 1)):
            device.waits.clear()
            risks.grad = None
            found = criterion(risks, domains).loss
            found.backward()
            assert sum(device.waits.values()) <= allowed + more, device.waits
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(risks.grad.cpu(), known.grad, rtol=1e-7, atol=1e-9)


def test_labels_bring_the_check_of_finite_risks_along():
    labels = torch.tensor([0, 0, 1, 1])
    with SimulatedDevice():
        risks = torch.tensor([0.1, 0.2, 0.3, torch.nan]).to(DEVICE)
        for call in (RiskMatching(), risk_matching_penalty):
            with pytest.raises(NonFiniteError, match="1 NaN in domain 1"):
                call(risks, labels.to(DEVICE))
        index = DomainIndex.of(labels).to(DEVICE)
        assert RiskMatching()(risks, index).loss.isnan().item()
        with pytest.raises(NonFiniteError, match="1 NaN in domain 1"):
            index.check_finite(risks)


def batches(steps, bad=None):
    generator = torch.Generator().manual_seed(1)
    for step in range(steps):
        x = torch.randn(12, 4, generator=generator)
        if step == bad:
            x[5] = torch.nan
        yield Batch(x, torch.arange(12) % 2, (4, 8), ("calm", "stormy"))


@pytest.mark.parametrize("method", [ERM(), VREx(warmup=3), RDM(warmup=5, weight=1.0)])
def test_numbers_that_are_read_every_few_steps_are_those_of_every_step(method):
    histories = []
    for log_every in (1, 4):
        settings = StepSettings(log_every=log_every)
        torch.manual_seed(0)
        histories.append(fit(MLP((4,), 2), method, batches(10), OptimSpec(lr=1e-3), None, settings))
    assert histories[0] == histories[1]
    assert len(histories[0]) == 10
    assert all(row["worst domain"] in ("calm", "stormy") for row in histories[1])


@pytest.mark.parametrize(("log_every", "steps"), [(1, 5), (4, 8)])
def test_a_term_that_is_not_finite_is_named_with_its_step_and_domain(log_every, steps):
    torch.manual_seed(0)
    memory, settings = Memory(), StepSettings(log_every=log_every)
    with pytest.raises(DivergedError, match="Step 5: risk is not finite in domain 'stormy'") as hit:
        fit(MLP((4,), 2), ERM(), batches(10, bad=5), OptimSpec(lr=1e-3), memory, settings)
    assert (hit.value.step, hit.value.domain) == (5, "stormy")
    assert memory.step == steps


def test_a_run_has_the_same_records_and_keeps_no_checkpoint_of_what_diverged(tmp_path):
    options = {"data_options": {"samples": 60}, "steps": 12, "eval_every": 6, "batch_size": 8}
    runs = [
        train(
            "colored-digits", "vrex", "0.1", warmup=4, out=tmp_path / str(n), log_every=n, **options
        )
        for n in (1, 5)
    ]
    first, second = (
        [
            dataclasses.replace(e, seconds=0, seconds_per_step=0, peak_memory=0)
            for e in run.record.evaluations
        ]
        for run in runs
    )
    assert first == second
    options |= {"lr": 1e30, "eval_every": 12, "checkpoint_every": 4}
    with pytest.raises(DivergedError) as hit:
        train("colored-digits", "erm", "0.1", out=tmp_path / "bad", log_every=100, **options)
    assert hit.value.step < 12
    (folder,) = (tmp_path / "bad").iterdir()
    assert load_run(folder).record.status == "failed"
    assert not list(folder.glob("checkpoints/*"))


def test_log_every_must_be_positive(tmp_path):
    with pytest.raises(ValueError, match="log_every must be at least 1"):
        train("colored-digits", "erm", "0.1", out=tmp_path, log_every=0, steps=2)


def test_every_method_is_in_the_record():
    recorded = json.loads(RECORD.read_text())
    assert set(recorded["now"]) == set(built_in("method"))
    assert recorded["now"]["erm"]["waits"] == recorded["now"]["rdm"]["waits"] == 0
    assert find("method", "rdm").value is RDM


def test_evaluations_of_a_run_in_mixed_precision_are_in_mixed_precision(tmp_path, monkeypatch):
    seen = []

    def forward(self, x, known=MLP.forward):
        seen.append(torch.is_autocast_enabled("cpu"))
        return known(self, x)

    monkeypatch.setattr(MLP, "forward", forward)
    options = {"data_options": {"samples": 60}, "model": "mlp", "steps": 2, "batch_size": 8}
    for amp in (True, False):
        seen.clear()
        run = train("colored-digits", "erm", "0.1", amp=amp, out=tmp_path / str(amp), **options)
        assert len(seen) > 4
        assert set(seen[2:]) == {amp}  # the first calls find the parts of the network
        assert 0 < run.record.evaluations[-1].scores["0.1"]["train"].risk < 5
