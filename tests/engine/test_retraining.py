"""The schedule that validation risk says, the run again on all samples, and the start on disk."""

from collections import Counter

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load as from_bytes
from safetensors.torch import save
from tiny_runs import assert_same_run, tiny

import riskmatch
from riskmatch.data import Domain, DomainSet
from riskmatch.engine.assemble import assemble
from riskmatch.engine.averaging import WeightAverage
from riskmatch.engine.checkpoint import load
from riskmatch.engine.loop import plateau_factor
from riskmatch.engine.run import FIRST, START, train
from riskmatch.runs.config import RunConfig


def torch_factor(risks):
    """The factor of torch's own schedule, 0 after its third fall."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "min", patience=1)
    for risk in risks:
        scheduler.step(risk)
    lr = optimizer.param_groups[0]["lr"]
    return lr if lr > 5e-4 else 0.0


@pytest.mark.parametrize("seed", range(8))
def test_a_plateau_is_that_of_torch(seed):
    generator = torch.Generator().manual_seed(seed)
    falling = torch.linspace(1, 0.7, 12) + 0.1 * torch.rand(12, generator=generator)
    risks = falling.tolist()
    for count in range(len(risks) + 1):
        assert plateau_factor(risks[:count]) == pytest.approx(torch_factor(risks[:count]))


def erm_plus_plus(**changes):
    settings = {"schedule": "plateau", "retrain": True, "eval_every": 10, **changes}
    return tiny("erm-plus-plus", **settings)


def stop_at(step):
    def on_step(progress):
        if progress.step == step:
            raise KeyboardInterrupt

    return on_step


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    return out, train(erm_plus_plus(), out)


@pytest.mark.parametrize("stops", [(7,), (33,), (25, 45)])
def test_interrupted_runs_end_in_the_same_bits(whole, tmp_path, stops):
    out, _ = whole
    config = erm_plus_plus()
    for stop in stops:  # of the first run, then of the second, which begins at step 0
        with pytest.raises(KeyboardInterrupt):
            train(config, tmp_path, resume=True, on_step=stop_at(stop))
    train(config, tmp_path, resume=True)
    assert_same_run(tmp_path / config.id, out / config.id)


def test_the_second_run_has_the_validation_scores_of_the_first_and_all_samples(whole):
    out, record = whole
    first = train(erm_plus_plus(retrain=False), out / record.config.id / FIRST)
    for ours, theirs in zip(record.evaluations, first.evaluations, strict=True):
        for name in ours.scores.keys() - {"0.1"}:
            assert ours.scores[name]["val"] == theirs.scores[name]["val"]
            assert ours.scores[name]["train"] != theirs.scores[name]["train"]
        assert ours.scores["0.1"]["val"] != theirs.scores["0.1"]["val"]
    assert list(riskmatch.results(out)["run"].unique()) == [record.config.id]


def test_all_samples_of_training_domains_are_trained_on():
    x = torch.arange(20.0)[:, None]
    parts = [Domain(n, x + k, torch.arange(20) % 2) for k, n in enumerate("abc")]
    domains = DomainSet("pairs", tuple(parts), 2)
    config = RunConfig("colored-digits", ("c",), "erm", batch_size=0, retrain=True)
    assembly = assemble(config, "cpu", domains=domains)
    seen = Counter(next(assembly.sampler).x[:, 0].tolist())
    assert seen == Counter(x[:, 0].tolist()) + Counter((x + 1)[:, 0].tolist())


def test_whole_groups_are_not_trained_on_again():
    x, groups = torch.zeros(20, 1), torch.arange(20)
    y = torch.arange(20) % 2
    domains = DomainSet("pairs", tuple(Domain(n, x, y, groups=groups) for n in "abc"), 2)
    config = RunConfig("colored-digits", ("c",), "erm", retrain=True)
    with pytest.raises(ValueError, match=r"'.*' are whole groups.*--no-retrain"):
        assemble(config, "cpu", domains=domains)


def test_the_mean_of_the_weights_is_what_is_evaluated_and_shipped(whole):
    out, record = whole
    config = erm_plus_plus(steps=13)
    assembly = assemble(config, "cpu")
    average = WeightAverage(config, assembly.stepper.objective.averages_from)
    weights = []
    for step in range(1, 14):
        assembly.stepper.step(next(assembly.sampler))
        average.add(step, assembly.stepper.model)
        weights.append({k: v.clone() for k, v in assembly.stepper.model.named_parameters()})
    for name, mean in average.current().items():
        torch.testing.assert_close(mean, (weights[-1][name] + weights[-2][name]) / 2)
    path = sorted((out / record.config.id / "checkpoints").glob("*.safetensors"))[-1]
    snapshot = load(path, record.config.id)
    assert snapshot.group("averaged")
    network = riskmatch.load_run(out / record.config.id).model()
    for name, value in network.state_dict().items():
        assert torch.equal(value, snapshot.group("averaged")[name])


def test_the_network_of_the_start_is_stored_once_and_read_again(tmp_path):
    config = tiny("miro")
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path, on_step=stop_at(25))
    path = tmp_path / config.id / START
    content = path.read_bytes()
    assert not any("start/" in name for name in load_names(tmp_path / config.id))
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"start\.safetensors is damaged"):
        train(config, tmp_path, resume=True)
    path.write_bytes(save({k: v + 1 for k, v in from_bytes(content).items()}))
    other = train(config, tmp_path, resume=True)
    assert other.evaluations[-1].terms["penalty"] > 0
    whole = train(config, tmp_path / "whole")
    assert other.evaluations[-1].terms["penalty"] != whole.evaluations[-1].terms["penalty"]


def load_names(folder):
    (path, *_) = sorted((folder / "checkpoints").glob("*.safetensors"))
    with safe_open(path, "pt") as file:
        return list(file.keys())
