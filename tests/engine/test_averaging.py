"""Averaged weights follow the published rules, and are what is evaluated, resumed and shipped."""

from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_runs import assert_same_run, tiny
from torch import nn

from riskmatch.data.domain import Domain
from riskmatch.data.sampler import Sampler
from riskmatch.engine import run as runs
from riskmatch.engine.averaging import WeightAverage
from riskmatch.engine.load import final_predictions, load_run
from riskmatch.runs.config import RunConfig


def scalar(value):
    network = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(network.weight, value)
    return network


def config(average, **changes):
    return RunConfig("toy", ("a",), "erm", average=average, **changes)


def test_swa_is_the_mean_of_the_last_quarter_and_ema_its_recursion():
    values = np.random.default_rng(0).normal(size=40)
    swa, ema = (WeightAverage(config(kind, steps=40)) for kind in ("swa", "ema"))
    expected = values[0]
    for step, value in enumerate(values, start=1):
        swa.add(step, scalar(value))
        ema.add(step, scalar(value))
        if step > 1:
            decay = min(0.999, step / (step + 9))
            expected = decay * expected + (1 - decay) * value
    assert float(swa.current()["weight"]) == pytest.approx(values[30:].mean())
    assert float(ema.current()["weight"]) == pytest.approx(expected)


def published_window(risks):
    """First and last evaluation of the window, by the algorithm of Cha et al. (2021)."""
    start, threshold = None, None
    for i in range(len(risks)):
        if threshold is None:
            if i >= 2 and risks[i - 2] == min(risks[i - 2 : i + 1]):
                start, threshold = i - 2, 1.3 * fmean(risks[i - 2 : i + 1])
        elif threshold < min(risks[max(0, i - 5) : i + 1]):
            return start, i - 6, True
    return start, len(risks) - 1, False


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=25))
def test_swad_averages_the_published_window(risks):
    every, values = 2, np.random.default_rng(len(risks)).normal(size=2 * len(risks))
    average = WeightAverage(config("swad", steps=1000))
    for step, value in enumerate(values, start=1):
        average.add(step, scalar(value))
        if step % every == 0:
            average.observe(step, float(risks[step // every - 1]))
    start, end, ended = published_window(risks)
    start = end if start is None else start  # no window yet: the steps of the last evaluation
    assert average.ended is ended
    expected = values[every * start : every * (end + 1)].mean()
    assert float(average.current()["weight"]) == pytest.approx(expected)


def test_averaging_starts_when_the_method_acts():
    run = replace(config("ema"), method="rdm", hparams={"warmup": 10, "weight": 1.0}, steps=20)
    average = WeightAverage(run)
    average.add(10, scalar(1.0))
    assert average.current() is None
    average.add(11, scalar(2.0))
    assert float(average.current()["weight"]) == 2


def test_statistics_of_batch_norm_are_those_of_the_averaged_weights():
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    sampler = Sampler([Domain("a", x, torch.zeros(60, dtype=torch.long))], batch_size=20, seed=0)
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.BatchNorm1d(2).eval(), nn.ReLU())
    average = WeightAverage(config("ema"))
    average.add(1, model)
    with torch.no_grad():
        model[0].weight.mul_(3)
    before, random = {k: v.clone() for k, v in model.state_dict().items()}, torch.get_rng_state()
    next(sampler)
    with average.applied(model, sampler) as averaged:
        batches = Sampler(sampler._domains, 20, 0)
        hidden = [model[0](next(batches).x).detach() for _ in range(32)]
    mean = torch.stack([part.mean(0) for part in hidden]).mean(0)
    variance = torch.stack([part.var(0) for part in hidden]).mean(0)
    assert torch.allclose(averaged["1.running_mean"], mean, atol=1e-6)
    assert torch.allclose(averaged["1.running_var"], variance, atol=1e-6)
    assert torch.equal(averaged["2.running_mean"], before["2.running_mean"])  # frozen
    assert torch.equal(averaged["0.weight"] * 3, before["0.weight"])
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    assert torch.equal(torch.get_rng_state(), random)
    assert sampler.state() == {"drawn": 1}


@pytest.mark.parametrize("average", ["ema", "swa", "swad"])
def test_an_interrupted_run_has_the_same_averages(tmp_path, average):
    run = tiny("rdm", average=average, eval_every=5)

    def interrupt(progress):
        if progress.step == 48:
            raise KeyboardInterrupt

    whole = runs.train(run, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        runs.train(run, tmp_path / "parts", on_step=interrupt)
    runs.train(run, tmp_path / "parts", resume=True)
    assert_same_run(tmp_path / "whole" / run.id, tmp_path / "parts" / run.id)
    plain = runs.train(replace(run, average="none"), tmp_path / "plain")
    last, raw = whole.evaluations[-1], plain.evaluations[-1]
    assert last.loss == raw.loss  # training is the same
    assert last.scores != raw.scores
    assert whole.evaluations[0] == replace(
        plain.evaluations[0],
        seconds=whole.evaluations[0].seconds,
        seconds_per_step=whole.evaluations[0].seconds_per_step,
        peak_memory=whole.evaluations[0].peak_memory,
    )  # in the warm-up


def test_the_averaged_network_is_shipped(tmp_path):
    run = tiny(average="ema", lr=0.01)
    record = runs.train(run, tmp_path)
    shipped = final_predictions(load_run(tmp_path / run.id))
    for name, splits in record.evaluations[-1].scores.items():
        for split, score in splits.items():
            assert float(shipped[name][split].risk.mean()) == pytest.approx(score.risk, rel=1e-5)
    weights = load_run(tmp_path / run.id).model().state_dict()
    plain = replace(run, average="none")
    runs.train(plain, tmp_path)
    others = load_run(tmp_path / plain.id).model().state_dict()
    assert not torch.equal(weights["classifier.weight"], others["classifier.weight"])


def test_a_run_stops_where_the_window_of_swad_ends(tmp_path, monkeypatch):
    risks = iter([0.5, 0.6, 0.7, *[2.0] * 20])
    monkeypatch.setattr("riskmatch.engine.loop.Session._raw_validation_risk", lambda _: next(risks))
    run = tiny(average="swad", eval_every=2)
    record = runs.train(run, tmp_path)
    # The window holds evaluations 1 to 3; six above the tolerance follow.
    assert record.evaluations[-1].step == 18
    assert record.stopped_early


def test_swa_needs_the_number_of_steps():
    with pytest.raises(ValueError, match=r"swa.*patience=3.*swad"):
        config("swa", patience=3)
    with pytest.raises(ValueError, match="'swad'"):
        config("swda")
    assert config("swad", pretrain=10).erm_phase().average == "none"
