"""State that a method keeps per domain goes by the names of the domains, not by their positions."""

from dataclasses import replace

import pytest
import torch

from riskmatch.contract import Eval, Memory, OptimSpec
from riskmatch.data.domain import Batch
from riskmatch.data.sampler import Sampler
from riskmatch.engine import Stepper, fit
from riskmatch.engine.assemble import assemble
from riskmatch.models import MLP
from riskmatch.objectives import ERM, MTL, TRM, Fishr, GroupDRO
from riskmatch.runs.config import RunConfig

CLASSES = 3
STILL = OptimSpec("sgd", 0.0)  # leaves the weights as they are
METHODS = [GroupDRO(eta=0.7), Fishr(weight=1.0, warmup=0), MTL(ema=0.7), TRM(warmup=0)]


def network():
    torch.manual_seed(0)
    return MLP((4,), CLASSES, widths=(6,))


def batch(*names, step=0):
    """Samples that depend on the step and the names of the domains alone."""
    parts = []
    for name in names:
        rng = torch.Generator().manual_seed(100 * step + ord(name))
        x = torch.randn(5, 4, generator=rng) + ord(name) % 5
        parts.append((x, torch.randint(CLASSES, (5,), generator=rng)))
    return Batch.join(parts, names)


def states(objective, batches):
    memory = Memory()
    fit(network(), objective, batches, STILL, memory)
    return memory


def weights(memory, *names):
    q = memory.recall_domains("q", names, torch.zeros(len(names)))
    return dict(zip(names, q.tolist(), strict=True))


def test_batch_without_names_goes_by_positions():
    plain = Batch(torch.zeros(3, 2), torch.zeros(3, dtype=torch.long), (1, 2))
    assert plain.names == ("0", "1")
    assert [part.names for part in plain.split()] == [("0",), ("1",)]
    assert replace(plain, names=("a", "b")).to("cpu").names == ("a", "b")


@pytest.mark.parametrize("names", [("a",), ("a", "a"), ("a", "b", "c")])
def test_batch_needs_one_name_per_domain(names):
    with pytest.raises(ValueError, match="2 different names of domains"):
        Batch(torch.zeros(3, 2), torch.zeros(3, dtype=torch.long), (1, 2), names)


def test_batches_of_a_run_carry_the_names_of_its_domains():
    run = assemble(tiny_groupdro(), "cpu")
    assert next(run.sampler).names == run.stepper.domains == ("0.9", "0.8")
    assert isinstance(run.sampler, Sampler)


@pytest.mark.parametrize("objective", METHODS, ids=lambda objective: type(objective).__name__)
def test_order_of_the_domains_in_a_batch_does_not_matter(objective):
    sorted_ = states(objective, [batch(*"abc", step=step) for step in range(4)])
    orders = ["cab", "bca", "abc", "acb"]
    shuffled = states(objective, [batch(*names, step=k) for k, names in enumerate(orders)])
    assert sorted_.state.keys() == shuffled.state.keys()
    for name, value in sorted_.state.items():
        torch.testing.assert_close(shuffled.state[name], value)


def test_groupdro_on_subsets_updates_the_domains_of_each_batch():
    eta, seen = 0.7, [("a", "b"), ("c", "a"), ("b",), ("a", "b", "c")]
    memory = states(GroupDRO(eta), [batch(*names, step=k) for k, names in enumerate(seen)])
    q = {}
    for step, names in enumerate(seen):
        start = sum(q.values()) / len(q) if q else 1.0
        for name in names:
            risk = Eval(network(), batch(name, step=step)).risk.item()
            q[name] = q.get(name, start) * torch.tensor(eta * risk).exp().item()
        q = {name: value / sum(q.values()) for name, value in q.items()}
    assert weights(memory, *"abc") == pytest.approx(q, rel=1e-5)


def test_groupdro_weighs_only_the_risks_of_the_batch():
    memory = states(GroupDRO(0.7), [batch(*"abc")])
    (numbers,) = fit(network(), GroupDRO(0.7), [batch("b", step=1)], STILL, memory)
    risk = Eval(network(), batch("b", step=1)).risk.item()
    assert numbers["weighted risk"] == pytest.approx(weights(memory, "b")["b"] * risk, rel=1e-5)
    assert sum(weights(memory, *"abc").values()) == pytest.approx(1.0)


def test_groupdro_with_the_same_domains_has_the_bits_of_the_plain_formula():
    model, memory = network(), Memory()
    plain, q = network(), torch.ones(3)
    optimizer = torch.optim.SGD(plain.parameters(), 0.1)
    for step in range(10):
        data = batch(*"abc", step=step)
        fit(model, GroupDRO(0.3), [data], OptimSpec("sgd", 0.1), memory)
        risks = Eval(plain, data).domain_risks
        q = q * (0.3 * risks.detach()).exp()
        q = q / q.sum()
        optimizer.zero_grad()
        (q @ risks).backward()
        optimizer.step()
    assert torch.equal(memory.recall_domains("q", "abc", torch.zeros(3)), q)
    assert all(map(torch.equal, model.parameters(), plain.parameters()))


def test_fishr_on_subsets_updates_the_domains_of_each_batch():
    seen, ema = [("a", "b"), ("c", "a"), ("a", "b", "c")], 0.9
    objective = Fishr(weight=1.0, warmup=0, ema=ema)
    memory = states(objective, [batch(*names, step=k) for k, names in enumerate(seen)])
    average = {}
    for step, names in enumerate(seen):
        for name in names:
            fresh = Memory()
            objective(Eval(network(), batch(name, step=step)), fresh)
            average[name] = ema * average.get(name, 0.0) + fresh.state[f"variances/{name}"]
    for name, value in average.items():
        torch.testing.assert_close(memory.state[f"variances/{name}"], value)


def test_mtl_predicts_with_the_mean_of_all_domains_that_were_seen():
    seen, ema = [("a", "b"), ("c", "a"), ("b",)], 0.7
    memory = states(MTL(ema), [batch(*names, step=k) for k, names in enumerate(seen)])
    embeddings = dict.fromkeys("abc", torch.zeros(6))
    for step, names in enumerate(seen):
        for name in names:
            mean = Eval(network(), batch(name, step=step)).features.mean(0)
            embeddings[name] = ema * mean + (1 - ema) * embeddings[name]
    expected = torch.stack(list(embeddings.values())).mean(0)
    torch.testing.assert_close(memory.modules["marginal"].mean, expected)


def test_other_domains_in_the_same_places_do_not_take_over_state():
    memory = states(GroupDRO(0.7), [batch(*"ab", step=step) for step in range(5)])
    before = weights(memory, *"ab")
    fit(network(), GroupDRO(0.7), [batch(*"cd", step=5)], STILL, memory)
    after = weights(memory, *"abcd")
    assert after["a"] / after["b"] == pytest.approx(before["a"] / before["b"])
    assert sum(after.values()) == pytest.approx(1.0)


def tiny_groupdro():
    options = {"batch_size": 8, "steps": 9, "data_options": {"samples": 60}}
    return RunConfig("colored-digits", ("0.1",), "groupdro", {"eta": 0.5}, **options)


def test_domain_with_a_risk_that_is_not_finite_is_named():
    data = batch(*"ab")
    data.x[7] = torch.nan
    with pytest.raises(RuntimeError, match="domain 'b'"):
        Stepper(network(), ERM(), Memory()).step(data)
