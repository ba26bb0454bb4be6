"""Methods with an adversary or a bottleneck against plain re-implementations, to 1e-10."""

import copy
import itertools
import math

import pytest
import torch
from test_published_semantics import (
    CASES,
    CLASSES,
    DECAY,
    EQUAL,
    LR,
    RAGGED,
    adam,
    brought,
    deviation,
    mean,
    minimise,
    risks,
)
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

import riskmatch
from riskmatch.contract import Eval, Memory, OptimSpec, prepare
from riskmatch.data.domain import Batch
from riskmatch.engine import fit
from riskmatch.models import MLP
from riskmatch.objectives import ADRMX, CAD, CDANN, DANN, URM, CondCAD, Transfer


def adversarial(objective, per_class=False):
    """Sample by sample; ``per_class`` adds the embedding of the class, and weighs classes alike."""

    def train(net, steps, rng):
        modules = brought(objective, net, steps[0], {"rng": rng})
        k, options = objective.critic_steps, {"betas": (0.5, 0.9)}
        ours = torch.optim.Adam(net.parameters(), LR, weight_decay=DECAY, **options)
        theirs = torch.optim.Adam(
            modules.parameters(), objective.critic_lr, weight_decay=0.01, **options
        )
        for number, parts in enumerate(steps, 1):
            labels = [int(label) for _, y in parts for label in y]
            loss = 0.0
            for domain, (x, y) in enumerate(parts):
                for row, label in zip(net(x)[0], y, strict=True):
                    seen = row + modules["embedding"].weight[label] if per_class else row
                    own = cross_entropy(modules["discriminator"](seen), torch.tensor(domain))
                    (slope,) = torch.autograd.grad(own, seen, create_graph=True)
                    share = 1 / (len(parts) * len(y))
                    of_class = 1 / (CLASSES * labels.count(int(label)))
                    loss = loss + (of_class if per_class else share) * own
                    loss = loss + 0.5 * share * (slope**2).sum()
            if number % (k + 1) >= k:
                loss, stepped = mean(risks(net, parts)) - objective.weight * loss, ours
            else:
                stepped = theirs
            ours.zero_grad()
            theirs.zero_grad()
            loss.backward()
            stepped.step()

    return objective, train


def bottleneck(within_class):
    """One logarithm per sample; 0.1 is λ, 0.5 the temperature."""

    def loss(net, parts, step, state):
        samples = [
            (f, int(label), domain)
            for domain, (x, y) in enumerate(parts)
            for f, label in zip(net(x)[0], y, strict=True)
        ]
        values = []
        for i, (f, label, domain) in enumerate(samples):
            among = [other for j, other in enumerate(samples) if j != i]
            if not any(other[1] == label for other in among):
                continue
            if within_class:
                among = [other for other in among if other[1] == label]
            near = {d: [torch.exp(f @ g / 0.5) for g, _, e in among if e == d] for d in range(9)}
            elsewhere = [value for d in near if d != domain for value in near[d]]
            if elsewhere:
                values.append(-torch.log(sum(elsewhere) / sum(elsewhere + near[domain])))
        return mean(risks(net, parts)) + 0.1 * 0.5 / 0.07 * mean(values)

    return minimise(loss)


def transfer(net, steps, rng):
    optimizer, adversary = adam(net), copy.deepcopy(net.classifier)

    def gap():
        each = [cross_entropy(adversary(net.featurizer(x)), y) for x, y in parts]
        return 2.0 * (max(each) - min(each))

    for parts in steps:
        for loss in (lambda: mean(risks(net, parts)), gap):  # noqa: B023, called at once
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()
        adversary.load_state_dict(net.classifier.state_dict())
        ascent = torch.optim.SGD(adversary.parameters(), lr=0.05)
        for _ in range(5):
            ascent.zero_grad()
            (-gap()).backward()
            ascent.step()
            with torch.no_grad():
                pairs = list(zip(adversary.parameters(), net.classifier.parameters(), strict=True))
                distance = math.sqrt(sum(((a - c) ** 2).sum() for a, c in pairs))
                if distance > 0.1:
                    for a, c in pairs:
                        a.copy_(c + 0.1 / distance * (a - c))


def uniform(activation, low):
    objective = URM(0.2, activation.__name__, critic_lr=2e-3, critic_hidden=2)

    def train(net, steps, rng):
        critic = brought(objective, net, steps[0], {"rng": rng})["discriminator"]
        ours = adam(net)
        theirs = torch.optim.Adam(critic.parameters(), lr=2e-3, weight_decay=DECAY)
        for parts in steps:
            features = [activation(net.featurizer(x)) for x, _ in parts]

            def judged(values, real):
                logits = critic(values)[:, 0]
                return binary_cross_entropy_with_logits(logits, torch.full_like(logits, real))

            ys = [y for _, y in parts]
            pairs = zip(features, ys, strict=True)
            loss = mean(cross_entropy(net.classifier(f), y) for f, y in pairs)
            loss = loss + 0.2 * mean(judged(f, 1.0) for f in features)
            ours.zero_grad()
            loss.backward()
            ours.step()
            shape = sum(map(len, ys)), features[0].shape[1]
            noise = torch.rand(shape, generator=rng, dtype=torch.float64) * (1 - low) + low
            start, real = 0, []
            for y in ys:
                real.append(judged(noise[start : start + len(y)], 1.0))
                start += len(y)
            loss = mean(real) + 0.2 * mean(judged(f.detach(), 0.0) for f in features)
            theirs.zero_grad()
            loss.backward()
            theirs.step()

    return objective, train


def contrast(features, labels, domains):
    """The loss with a factor 0.5 of a sample's domain and 0.5 of others."""
    unit = [f / f.norm() if f.norm() else f for f in features]
    losses = []
    for i, label in enumerate(labels):
        near = {
            j: (0.5 if domains[j] == domains[i] else 1 - 0.5) * torch.exp(unit[i] @ u / 0.07)
            for j, u in enumerate(unit)
            if j != i
        }
        same = [value for j, value in near.items() if labels[j] == label]
        if same:
            total = sum(near.values()) + 1e-5
            losses.append(-mean(torch.log(value / total + 1e-5) for value in same))
    return sum(losses) / (len(losses) + 1)


def disentangled(net, steps, rng):
    twin = copy.deepcopy(net)
    modules = brought(ADRMX(critic_depth=3, critic_width=7), net, steps[0], {"rng": rng})
    options = {"lr": LR, "betas": (0.5, 0.9)}
    critic = modules["discriminator"]
    theirs = torch.optim.Adam(critic.parameters(), **options)
    rest = itertools.chain(net.parameters(), twin.parameters(), modules["domain"].parameters())
    ours = torch.optim.Adam(rest, **options)
    for number, parts in enumerate(steps, 1):
        f, g = ([model.featurizer(x) for x, _ in parts] for model in (net, twin))
        h = [a - b for a, b in zip(f, g, strict=True)]

        def of_domain(module, parts_of_features):
            pairs = enumerate(parts_of_features)
            return mean(cross_entropy(module(v), torch.full((len(v),), e)) for e, v in pairs)

        def of_class(module, parts_of_features):
            pairs = zip(parts_of_features, (y for _, y in parts), strict=True)  # noqa: B023
            return mean(cross_entropy(module(v), y) for v, y in pairs)

        theirs.zero_grad()
        ours.zero_grad()
        if number % 3 < 2:
            of_domain(critic, h).backward()
            theirs.step()
            continue
        y = torch.cat([y for _, y in parts])
        domains = [e for e, (_, labels) in enumerate(parts) for _ in labels]
        all_f, all_g, all_h = map(torch.cat, (f, g, h))
        loss = of_class(net.classifier, f) + of_class(twin.classifier, h)
        loss = loss + of_domain(modules["domain"], g) - 0.75 * of_domain(critic, h)
        for values in (all_f, all_h):
            loss = loss + contrast(values, y.tolist(), domains)
        order = torch.randperm(len(y), generator=rng).tolist()
        for label in sorted(set(y.tolist())):
            members = [i for i in order if y[i] == label]
            others = [j for j in members if domains[j] != domains[members[0]]]
            if others:
                logits = net.classifier(all_h[members[0]] + all_g[others[0]])
                loss = loss + cross_entropy(logits, torch.tensor(label)) / CLASSES
        loss.backward()
        ours.step()


PENALISED = {"gradient_penalty": 0.5, "critic_lr": 2e-3, "critic_decay": 0.01, "critic_width": 7}
ADVERSARIAL = {
    "dann": adversarial(DANN(0.5, **PENALISED)),
    "dann, two steps": adversarial(DANN(0.5, critic_steps=2, critic_depth=4, **PENALISED)),
    "cdann": adversarial(CDANN(0.5, **PENALISED), per_class=True),
    "cad": (CAD(0.1, temperature=0.5), bottleneck(within_class=False)),
    "cond-cad": (CondCAD(0.1, temperature=0.5), bottleneck(within_class=True)),
    "transfer": (Transfer(2.0, radius=0.1, ascent_steps=5, ascent_lr=0.05), transfer),
    "urm": uniform(torch.tanh, -1.0),
    "urm, relu": uniform(torch.relu, 0.0),
    "adrmx": (ADRMX(critic_depth=3, critic_width=7), disentangled),
}


@pytest.mark.parametrize("sizes", [EQUAL, RAGGED], ids=["equal", "ragged"])
@pytest.mark.parametrize("name", ADVERSARIAL)
def test_weights_after_training_are_the_oracles(name, sizes):
    objective, oracle = ADVERSARIAL[name]
    assert deviation(objective, oracle, sizes) <= 1e-10
    assert deviation(objective, CASES["erm"][1], sizes) > 1e-5


def batch(labels=(0, 0, 1, 2, 0, 2, 1, 2), sizes=(5, 3)):
    x = torch.randn(len(labels), 5, generator=torch.Generator().manual_seed(0))
    return Batch(x, torch.tensor(labels), sizes)


def test_remixed_samples_have_a_class_in_common_and_no_domain():
    given, rng, met = batch((0, 0, 1, 2, 0, 2, 0, 2)), torch.Generator().manual_seed(1), set()
    for _ in range(200):
        pairs = ADRMX().draw(given.y, given.domains, rng).tolist()
        assert [given.y[i].item() for i, _ in pairs] == [0, 2]  # the 1 is in one domain alone
        met |= {tuple(pair) for pair in pairs}
    apart = {
        (i, j)
        for i, j in itertools.product(range(8), repeat=2)
        if given.y[i] == given.y[j] and given.domains[i] != given.domains[j]
    }
    assert met == apart


@pytest.mark.parametrize("objective", [CAD(), CondCAD()])
@pytest.mark.parametrize(
    "given", [batch(sizes=(8,)), batch((0, 1, 2), (2, 1))], ids=["one domain", "no class twice"]
)
def test_bottleneck_without_pairs_is_zero(objective, given):
    model = MLP((5,), 3, widths=(4,))
    terms = objective(Eval(model, given), Memory())
    terms.loss.backward()
    assert terms.raw["penalty"] == 0
    assert all(bool(torch.isfinite(weight.grad).all()) for weight in model.parameters())


def test_adversary_of_transfer_keeps_its_distance():
    model, memory = MLP((5,), 3, widths=(4,)), Memory()
    objective = Transfer(radius=0.05, ascent_steps=3, ascent_lr=10.0)
    fit(model, objective, [batch()] * 3, OptimSpec(lr=0.01), memory)
    gaps = [
        (memory.state[f"adversary/{name}"] - weight).square().sum().item()
        for name, weight in model.classifier.named_parameters()
    ]
    assert math.sqrt(sum(gaps)) == pytest.approx(0.05, rel=1e-4)


def test_copy_starts_as_the_network_and_needs_to_be_asked_for():
    model, memory = MLP((5,), 3, widths=(4,)), Memory()
    prepare(memory, ADRMX(), model, batch().x, domains=2)
    ev = Eval(model, batch(), modules=dict(memory.modules.items()))
    assert torch.equal(ev.copy.logits, ev.logits)
    assert not {id(w) for w in model.parameters()} & {id(w) for w in memory.modules.parameters()}
    with pytest.raises(ValueError, match="needs_copy"):
        _ = Eval(model, batch()).copy


@pytest.mark.parametrize("method", ["dann", "transfer", "adrmx"])
def test_gradient_of_the_penalty_is_logged_whichever_network_is_next(method, tmp_path):
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(30) % 2
    domains = {
        name: (torch.randn(30, 5, generator=generator) + i, y) for i, name in enumerate("abc")
    }
    options = {"model": "mlp", "steps": 5, "eval_every": 1, "lr": 0.01, "device": "cpu"}
    run = riskmatch.train(domains, method, "c", out=tmp_path, **options)
    norms = [evaluation.gradients["penalty"] for evaluation in run.record.evaluations]
    assert len(norms) == 5
    assert all(norm > 0 for norm in norms[2:])  # the copy of ADRMX begins at the network
