"""Methods that bring networks: steps against loops written out in torch, and what is evaluated."""

import copy
import math
from dataclasses import dataclass, replace

import pytest
import torch
from corrected import BOUND, Corrected
from safetensors.torch import load_file
from tiny_runs import tiny
from torch import nn
from torch.nn.functional import cross_entropy

import riskmatch
from riskmatch.contract import (
    Eval,
    Memory,
    Objective,
    OptimSpec,
    Predictor,
    Shape,
    Terms,
    classifier_of,
    featurizer_of,
    prepare,
)
from riskmatch.data.domain import Batch
from riskmatch.engine import fit, load_run
from riskmatch.engine.assemble import assemble, domains_of
from riskmatch.engine.evaluate import score_samples
from riskmatch.engine.run import train
from riskmatch.engine.step import Stepper, StepSettings
from riskmatch.models import CNN, MLP, Backbone, Head, TableMLP
from riskmatch.objectives import MIRO
from riskmatch.registry import PartError
from riskmatch.runs.findings import RunWarning, findings

SIZES = (4, 6)


def batches(count=5, width=3):
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        x = torch.randn(sum(SIZES), width, generator=generator)
        yield Batch(x, torch.randint(3, (len(x),), generator=generator), SIZES)


def network():
    torch.manual_seed(1)
    return MLP((3,), 3, widths=(5,))


def test_turns_and_optimisers_by_name_are_a_loop_in_torch():
    model, memory = network(), Memory()
    theirs = copy.deepcopy(model)
    history = fit(model, Corrected(), batches(), OptimSpec(lr=0.02, weight_decay=0.1), memory)
    assert memory.shape == Shape(features=5, outputs=3, domains=2)

    begun = Memory()  # whose generator has the same seed
    prepare(begun, Corrected(), theirs, torch.zeros(2, 3), domains=2)
    correction = begun.modules["correction"]
    start = copy.deepcopy(theirs).eval()
    featurizer, classifier = theirs.featurizer, theirs.classifier
    first = torch.optim.Adam(featurizer.parameters(), lr=0.02, weight_decay=0.1)
    second = torch.optim.Adam(classifier.parameters(), lr=0.01, weight_decay=0.1)
    third = torch.optim.Adam(correction.parameters(), lr=0.01, weight_decay=0.1, betas=(0.5, 0.9))
    for batch, numbers in zip(batches(), history, strict=True):
        features, logits = theirs(batch.x)
        risks = cross_entropy(logits, batch.y, reduction="none")
        risk = (risks[:4].mean() + risks[4:].mean()) / 2
        loss = risk + 0.1 * (features - start(batch.x)[0].detach()).square().mean()
        first.zero_grad()
        second.zero_grad()
        loss.backward()
        first.step()
        second.step()
        correction.bias.data.clamp_(-BOUND, BOUND)  # after this turn too
        assert numbers["loss"] == pytest.approx(loss.item(), rel=1e-5)
        third.zero_grad()
        features, logits = theirs(batch.x)
        corrected = cross_entropy(logits + correction(features), batch.y)
        corrected.backward()
        third.step()
        correction.bias.data.clamp_(-BOUND, BOUND)
        assert numbers["correction"] == pytest.approx(corrected.item(), rel=1e-5)
    for ours, expected in (
        *zip(model.parameters(), theirs.parameters(), strict=True),
        *zip(memory.modules["correction"].parameters(), correction.parameters(), strict=True),
    ):
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)


@dataclass(frozen=True)
class Named(Objective):
    """Steps what ``names`` says at each step, a word per step."""

    names: tuple = ()

    def modules(self, shape):
        return {"extra": nn.Linear(shape.features, 2)}

    def optim(self, base, step):
        return dict.fromkeys(self.names[step].split("+"), base)

    def __call__(self, ev, memory):
        return Terms({"risk": ev.risk, "extra": ev.modules["extra"](ev.features).square().mean()})


def test_optimiser_that_is_absent_keeps_its_state_and_its_weights():
    model, memory = network(), Memory(base=OptimSpec(lr=0.1))
    stepper = Stepper(model, Named(("extra", "network", "classifier", "extra")), memory)
    seen = []
    for batch in batches(4):
        before = copy.deepcopy([model.state_dict(), memory.modules.state_dict()])
        stepper.step(batch)
        after = [model.state_dict(), memory.modules.state_dict()]
        changed = {
            name
            for one, other in zip(before, after, strict=True)
            for name in other
            if name in one and not torch.equal(one[name], other[name])
        }
        seen.append({name.partition(".")[0] for name in changed})
    assert seen[1:] == [{"featurizer", "classifier"}, {"classifier"}, {"extra"}]
    states = stepper.phases["extra"].optimizer.state_dict()["state"]
    assert {int(state["step"]) for state in states.values()} == {2}
    assert [phase.start for phase in stepper.phases.values()] == [0, 1, 2]


@pytest.mark.parametrize(
    ("names", "fact"),
    [("body", "'body'.*network, featurizer, classifier, extra"), ("network+classifier", "twice")],
)
def test_optimiser_of_a_wrong_name_is_refused(names, fact):
    with pytest.raises(PartError, match=f"Named.optim.*{fact}"):
        fit(network(), Named((names,)), batches(1), OptimSpec())


def test_module_with_the_name_of_a_part_is_refused():
    class Taken(Named):
        def modules(self, shape):
            return {"classifier": nn.Linear(2, 2)}

    with pytest.raises(PartError, match=r"Taken.*'classifier'"):
        fit(network(), Taken(("network",)), batches(1), OptimSpec())


def test_clipping_takes_the_weights_of_a_turn_together():
    model, memory = network(), Memory(base=OptimSpec("sgd", lr=1.0))
    stepper = Stepper(model, Named(("featurizer+extra",)), memory, StepSettings(clip=1e-3))
    stepper.prepare(torch.zeros(2, 3), 2)
    weights = [*model.featurizer.parameters(), *memory.modules.parameters()]
    before = [weight.detach().clone() for weight in weights]
    stepper.step(next(batches(1)))
    moved = torch.cat([(w - b).flatten() for w, b in zip(weights, before, strict=True)])
    assert moved.norm().item() == pytest.approx(1e-3, rel=1e-3)


def test_a_schedule_holds_for_every_optimiser():
    memory = Memory(base=OptimSpec("sgd", lr=1.0))
    stepper = Stepper(
        network(), Named(("network+extra",) * 4), memory, StepSettings(schedule="cosine", steps=4)
    )
    for batch in batches(4):
        stepper.step(batch)
        rates = {phase.optimizer.param_groups[0]["lr"] for phase in stepper.phases.values()}
        expected = (1 + math.cos(math.pi * memory.step / 4)) / 2
        assert list(rates) == pytest.approx([expected], abs=1e-12)


def test_modules_have_a_stream_of_their_own():
    config = tiny("corrected:Corrected")
    one, other, erm = (assemble(c, "cpu").stepper for c in (config, config, tiny("erm")))
    assert torch.equal(
        one.memory.modules["correction"].weight, other.memory.modules["correction"].weight
    )
    for ours, theirs in zip(one.model.parameters(), erm.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    changed = assemble(replace(config, seed=1), "cpu").stepper.memory.modules["correction"]
    assert not torch.equal(changed.weight, one.memory.modules["correction"].weight)


NETWORKS = {
    "mlp": lambda: (MLP((4,), 3, dropout=0.5, widths=(6, 5)), torch.randn(7, 4)),
    "single logit": lambda: (MLP((4,), 2, widths=(5,), single_logit=True), torch.randn(7, 4)),
    "cnn": lambda: (CNN((2, 8, 8), 3, widths=(8, 16)), torch.randn(7, 2, 8, 8)),
    "table": lambda: (TableMLP((4,), 3, cardinalities=(5,), widths=(6,)), torch.ones(7, 4)),
    "head": lambda: (Head((4,), 3, dropout=0.5), torch.randn(7, 4)),
    "cosine": lambda: (Head((4,), 3, head="cosine"), torch.randn(7, 4)),
    "hidden": lambda: (Head((2, 4), 3, 0.5, hidden=5), torch.randn(7, 2, 4)),
    "backbone": lambda: (Backbone(nn.Linear(4, 6), Head((6,), 3), False), torch.randn(7, 4)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_every_built_in_network_is_a_featurizer_and_a_classifier(name):
    torch.manual_seed(0)
    model, x = NETWORKS[name]()
    model.eval()
    ev = Eval(model, Batch(x, torch.zeros(7, dtype=torch.long), (7,)))
    assert torch.equal(ev.classify(ev.features), ev.logits)
    inputs = x[:, 0] if name == "hidden" else x
    assert torch.equal(model.classifier(model.featurizer(inputs)), ev.logits)
    parts = [*model.featurizer.parameters(), *model.classifier.parameters()]
    assert {*map(id, parts)} == {*map(id, model.parameters())}
    assert len(parts) == len(list(model.parameters()))
    others = {key: weight + 0.1 for key, weight in ev.params.items()}
    there = ev.at(others)
    torch.testing.assert_close(there.classify(there.features), there.logits)
    assert not torch.equal(there.classify(ev.features), ev.logits)


class Own(nn.Module):
    """Features before a dropout; a weight outside of any layer."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.ones(3))
        self.body = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
        self.top = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3))

    def forward(self, x):
        features = self.body(x + self.shift)
        return features, self.top(features)


class Hugging(nn.Module):
    """Features that are an attribute's inputs, twice removed."""

    def __init__(self, scale=1.0):
        super().__init__()
        self.body, self.classifier = nn.Linear(3, 4), nn.Linear(4, 3)
        self.scale = scale

    def forward(self, x):
        features = self.body(x)
        return features, self.classifier(features.relu()) * self.scale


def test_classifier_of_ones_own_network_is_the_last_layer_that_maps_features_to_logits():
    model = Own().train()
    classifier = classifier_of(model, torch.randn(4, 3))
    assert classifier is model.top
    assert all(layer.training for layer in model.modules())
    rest = [*featurizer_of(model, classifier).parameters()]
    assert {*map(id, rest)} == {id(model.shift), *map(id, model.body.parameters())}


def test_network_without_a_classifier_is_refused_where_it_is_needed():
    fit(Hugging(), Named(("network+extra",)), batches(1), OptimSpec())
    with pytest.raises(PartError, match=r"Hugging.*name that layer classifier"):
        fit(Hugging(), Named(("classifier",)), batches(1), OptimSpec())


class Normalised(nn.Module):
    """Whose outputs in training depend on the batch and on chance."""

    def __init__(self):
        super().__init__()
        self.featurizer = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Dropout(0.5))
        self.classifier = nn.Linear(5, 3)

    def forward(self, x):
        features = self.featurizer(x)
        return features, self.classifier(features)


def test_start_is_the_network_before_the_first_step_in_evaluation_mode():
    torch.manual_seed(0)
    model, memory = Normalised(), Memory(base=OptimSpec(lr=0.1))
    before, stepper = copy.deepcopy(model).eval(), Stepper(model.train(), MIRO(), memory)
    for batch in batches(3):
        stepper.step(batch)
        assert torch.equal(stepper.evaluate(batch).start.features, before(batch.x)[0])
    assert not any(layer.training for layer in memory.start.modules())
    for name, value in before.state_dict().items():  # statistics of batches, too
        assert torch.equal(memory.start.state_dict()[name], value)
        assert not torch.equal(model.state_dict()[name], value)


def test_start_is_stored_once_beside_the_run(tmp_path):
    config = tiny("miro")
    train(config, tmp_path)
    folder, initial = tmp_path / config.id, assemble(config, "cpu").stepper.model.state_dict()
    stored = load_file(folder / "start.safetensors")
    assert stored.keys() == initial.keys()
    assert all(torch.equal(stored[name], value) for name, value in initial.items())
    weights = [value for value in initial.values() if value.ndim > 1]
    for path in (folder / "checkpoints").glob("*.safetensors"):
        assert not any(torch.equal(v, w) for v in load_file(path).values() for w in weights)


def test_what_predicts_is_evaluated_averaged_saved_and_restored(tmp_path):
    config = tiny("corrected:Corrected", steps=40, eval_every=20, average="swa")
    record = train(config, tmp_path)
    run = load_run(tmp_path / config.id)
    model = run.model()
    assert isinstance(model, Predictor)
    data = domains_of(config)
    scored = score_samples(model, data.domains[0])
    x = data.domains[0].x
    with torch.no_grad():
        features, logits = model.network(x)
        expected = logits + model.brought["correction"](features)
    assert torch.equal(model(x)[1], expected)
    assert (scored.predicted == expected.argmax(1).numpy()).all()
    assert not torch.equal(expected, logits)
    last = record.evaluations[-1].scores["0.9"]
    means = [last[part].risk for part in ("train", "val")]
    whole = cross_entropy(expected, data.domains[0].y).item()
    assert min(means) <= whole <= max(means)


@pytest.mark.parametrize("purpose", ["accumulate", "processes"])
def test_methods_with_networks_take_batches_whole(purpose):
    @dataclass(frozen=True)
    class Turning(Objective):
        def turns(self, step):
            return 2

        def __call__(self, ev, memory):
            return Terms({"risk": ev.risk})

    from riskmatch.engine.step import check_splits

    for method, cause in ((Turning(), "several turns"), (Named(), "networks of its own")):
        with pytest.raises(ValueError, match=cause):
            check_splits(method, purpose)


def on_vectors(method, out, **options):
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(60) % 2
    domains = {
        name: (torch.randn(60, 5, generator=generator) + shift + y[:, None], y)
        for shift, name in enumerate("abc")
    }
    options = {"model": "linear", "steps": 2, "eval_every": 2, "out": out, **options}
    return riskmatch.train(domains, method, "c", **options)


@pytest.mark.parametrize("method", ["coral", "mmd", "causirl"])
def test_penalty_without_a_gradient_is_warned_about_and_recorded(method, tmp_path):
    with pytest.warns(RunWarning, match=rf"{method} has no effect.*hidden=256"):
        run = on_vectors(method, tmp_path)
    assert run.record.no_gradient
    assert any("hidden=256" in finding for finding in findings(load_run(run.folder).record))
    assert riskmatch.results(tmp_path)["no_gradient"].all()


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("coral", {"model_options": {"hidden": 4}}),
        ("fishr", {"warmup": 0}),
        ("vrex", {"warmup": 0}),
        ("erm", {}),
    ],
)
@pytest.mark.filterwarnings("error::riskmatch.runs.findings.RunWarning")
def test_penalty_with_a_gradient_is_not(method, options, tmp_path):
    assert not on_vectors(method, tmp_path, **options).record.no_gradient
    assert not riskmatch.results(tmp_path)["no_gradient"].any()
