"""Each method against a plain re-implementation of its published form, in float64 to 1e-10.

The oracles loop over domains and samples, keep one forward pass per domain, copy networks and use
torch's own Adam: none of the ways in which the library computes the same things.
"""

import copy
import itertools
import random

import pytest
import torch
from scipy.optimize import brentq
from scipy.stats import norm
from torch.nn.functional import cross_entropy

from riskmatch.contract import Memory, OptimSpec
from riskmatch.data.domain import Batch
from riskmatch.engine import fit
from riskmatch.models import MLP
from riskmatch.objectives import (
    CORAL,
    EQRM,
    ERM,
    IGA,
    IRM,
    MLDG,
    RDM,
    CausIRL,
    ERMSwitch,
    FeatureMMD,
    Fish,
    Fishr,
    GroupDRO,
    Mixup,
    VREx,
)

LR, DECAY, STEPS, WARMUP, CLASSES = 1e-3, 0.01, 7, 3, 3
EQUAL, RAGGED = (8, 8, 8, 8), (7, 4, 9, 2)


def network():
    torch.manual_seed(3)
    return MLP((5,), CLASSES, widths=(8, 6)).double()


def data(sizes):
    """Per step a list of one (x, y) per domain."""
    rng = torch.Generator().manual_seed(4)
    return [
        [
            (
                torch.randn(n, 5, generator=rng, dtype=torch.float64) + 0.5 * domain,
                torch.randint(CLASSES, (n,), generator=rng),
            )
            for domain, n in enumerate(sizes)
        ]
        for _ in range(STEPS)
    ]


def adam(net, lr=LR):
    return torch.optim.Adam(net.parameters(), lr=lr, weight_decay=DECAY)


def risk(net, x, y):
    return cross_entropy(net(x)[1], y)


def risks(net, parts):
    return [risk(net, x, y) for x, y in parts]


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def deviation(objective, oracle, sizes):
    """The largest difference between the weights that the two arrive at."""
    ours, theirs = network(), network()
    batches = [Batch.join(parts) for parts in data(sizes)]
    memory = Memory(generator=torch.Generator().manual_seed(5))
    fit(ours, objective, batches, OptimSpec("adam", LR, DECAY), memory)
    oracle(theirs, data(sizes), torch.Generator().manual_seed(5))
    pairs = zip(ours.parameters(), theirs.parameters(), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


def minimise(loss, warmup=0, lr_after=LR):
    """Minimise ``loss(net, parts, step, state)``, with a fresh Adam at the switch."""

    def train(net, steps, rng):
        optimizer, state = adam(net), {"rng": rng}
        for step, parts in enumerate(steps):
            if step == warmup:
                optimizer = adam(net, lr_after)
            optimizer.zero_grad()
            loss(net, parts, step, state).backward()
            optimizer.step()

    return train


def erm(net, parts, step, state):
    return mean(risks(net, parts))


def vrex(net, parts, step, state):
    each = risks(net, parts)
    weight = 10.0 if step >= WARMUP else 1.0
    return mean(each) + weight * mean((r - mean(each)) ** 2 for r in each)


def irm(net, parts, step, state):
    penalties = []
    for x, y in parts:
        scale = torch.ones((), dtype=torch.float64, requires_grad=True)
        z = net(x)[1] * scale
        halves = [cross_entropy(z[start::2], y[start::2]) for start in (0, 1)]
        even, odd = (torch.autograd.grad(half, scale, create_graph=True)[0] for half in halves)
        penalties.append(even * odd)
    return mean(risks(net, parts)) + (100.0 if step >= WARMUP else 1.0) * mean(penalties)


def groupdro(net, parts, step, state):
    each = risks(net, parts)
    q = state.setdefault("q", [1.0] * len(each))
    grown = [w * torch.exp(0.1 * r.detach()) for w, r in zip(q, each, strict=True)]
    state["q"] = [w / sum(grown) for w in grown]
    return sum(w * r for w, r in zip(state["q"], each, strict=True))


def iga(net, parts, step, state):
    each, weights = risks(net, parts), list(net.parameters())
    center = torch.autograd.grad(mean(each), weights, retain_graph=True)
    spread = 0.0
    for r in each:
        gradient = torch.autograd.grad(r, weights, create_graph=True)
        spread = spread + sum(((g - c) ** 2).sum() for g, c in zip(gradient, center, strict=True))
    return mean(each) + 1000.0 * spread


def coral_distance(a, b):
    def covariance(f):
        rows = f - f.mean(0)
        return sum(torch.outer(row, row) for row in rows) / (len(f) - 1)

    return ((a.mean(0) - b.mean(0)) ** 2).mean() + ((covariance(a) - covariance(b)) ** 2).mean()


def mmd_distance(a, b):
    def average_kernel(u, v):
        squares = ((u[:, None] - v[None]) ** 2).sum(-1)
        return mean(torch.exp(-(10.0**p) * squares) for p in range(-3, 4)).mean() * 7

    return average_kernel(a, a) + average_kernel(b, b) - 2 * average_kernel(a, b)


def matching(distance):
    def loss(net, parts, step, state):
        features = [net(x)[0] for x, _ in parts]
        pairs = itertools.combinations(features, 2)
        return mean(risks(net, parts)) + 2.0 * mean(distance(a, b) for a, b in pairs)

    return loss


def mixing(distance):
    def loss(net, parts, step, state):
        first, second = [], []
        for x, _ in parts:
            cut = torch.randint(len(x), (), generator=state["rng"]).item()
            features = net(x)[0]
            first.append(features[:cut])
            second.append(features[cut:])
        pools = torch.cat(first), torch.cat(second)
        return mean(risks(net, parts)) + 2.0 * distance(*pools)

    return loss


def mixup(net, parts, step, state):
    order = torch.randperm(len(parts), generator=state["rng"]).tolist()
    rng = random.Random(torch.randint(2**62, (), generator=state["rng"]).item())
    total = 0.0
    for position, i in enumerate(order):
        (x, y), (other_x, other_y) = parts[i], parts[order[(position + 1) % len(order)]]
        n, share = min(len(x), len(other_x)), rng.betavariate(0.2, 0.2)
        logits = net(share * x[:n] + (1 - share) * other_x[:n])[1]
        total = total + share * cross_entropy(logits, y[:n])
        total = total + (1 - share) * cross_entropy(logits, other_y[:n])
    return total / len(parts)


def fishr(net, parts, step, state):
    head = list(net.classifier.parameters())
    variances = []
    for domain, (x, y) in enumerate(parts):
        rows = []
        for i in range(len(x)):
            own = cross_entropy(net(x[i : i + 1])[1], y[i : i + 1])
            rows.append(
                torch.cat([g.flatten() for g in torch.autograd.grad(own, head, create_graph=True)])
            )
        gradients = torch.stack(rows)
        variance = ((gradients - gradients.mean(0)) ** 2).mean(0)
        average = 0.9 * state.get(domain, 0.0) + (1 - 0.9) * variance
        state[domain] = average.detach()
        variances.append(average / (1 - 0.9))
    penalty = mean(((v - mean(variances)) ** 2).mean() for v in variances)
    return mean(risks(net, parts)) + (1000.0 if step >= WARMUP else 0.0) * penalty


def eqrm(alpha=None, log_tail=None):
    def loss(net, parts, step, state):
        each = torch.stack(risks(net, parts))
        if step < WARMUP:
            return each.mean()
        width = 1.06 * each.std() * len(each) ** -0.2
        if log_tail is not None:
            return (each + width * (-2 * log_tail) ** 0.5).mean()
        points, h = each.detach().numpy(), width.item()
        root = brentq(lambda v: norm.cdf((v - points) / h).mean() - alpha, -50, 50, xtol=1e-15)
        density = (norm.pdf((root - points) / h) / h).mean()
        normal = torch.distributions.Normal(0.0, 1.0)
        return root - (normal.cdf((root - each) / width).mean() - alpha) / density

    return loss


def rdm(pool):
    """Per-sample loops over pairs; ``pool`` gives the weight of a sample of a domain of size n."""

    def kernel(x, y):
        return sum(torch.exp(-(10.0**p) * (x - y) ** 2) for p in range(-4, 4))

    def loss(net, parts, step, state):
        each = [cross_entropy(net(x)[1], y, reduction="none") for x, y in parts]
        means = [r.mean() for r in each]
        if step < WARMUP:
            return mean(means)
        worst = each[max(range(len(each)), key=lambda domain: means[domain].item())]
        pooled = [(r, pool(len(own), each)) for own in each for r in own]
        signed = [(r, 1 / len(worst)) for r in worst] + [(r, -w) for r, w in pooled]
        penalty = sum(a * b * kernel(x, y) for x, a in signed for y, b in signed)
        center = sum(w * r for r, w in pooled)
        spread = sum(w * (r - center) ** 2 for r, w in pooled) / (1 - sum(w * w for _, w in pooled))
        own = sum((r - worst.mean()) ** 2 for r in worst) / (len(worst) - 1)
        return mean(means) + 5.0 * penalty + 0.1 * (spread + own)

    return loss


def fish(net, steps, rng):
    state = None
    for parts in steps:
        inner = copy.deepcopy(net)
        optimizer = adam(inner)
        if state is not None:
            optimizer.load_state_dict(state)
        for x, y in parts:
            optimizer.zero_grad()
            risk(inner, x, y).backward()
            optimizer.step()
        state = optimizer.state_dict()
        with torch.no_grad():
            for outer, walked in zip(net.parameters(), inner.parameters(), strict=True):
                outer += 0.1 * (walked - outer)


def mldg(net, steps, rng):
    optimizer = adam(net)
    for parts in steps:
        optimizer.zero_grad()
        for weight in net.parameters():
            weight.grad = torch.zeros_like(weight)
        order = torch.randperm(len(parts), generator=rng).tolist()
        for position, i in enumerate(order[:-2]):
            inner = copy.deepcopy(net)
            inner.zero_grad()
            risk(inner, *parts[i]).backward()
            before = [weight.grad.clone() for weight in inner.parameters()]
            adam(inner).step()
            after = torch.autograd.grad(
                risk(inner, *parts[order[-2:][position % 2]]), list(inner.parameters())
            )
            for weight, g, h in zip(net.parameters(), before, after, strict=True):
                weight.grad += (g + 0.5 * h) / len(parts)
        optimizer.step()


def by_domain(size, each):
    return 1 / (len(each) * size)


def by_sample(size, each):
    return 1 / sum(map(len, each))


CASES = {
    "erm": (ERM(), minimise(erm)),
    "erm-switch": (ERMSwitch(WARMUP, 5e-4), minimise(erm, WARMUP, 5e-4)),
    "vrex": (VREx(weight=10.0, warmup=WARMUP), minimise(vrex, WARMUP)),
    "irm": (IRM(weight=100.0, warmup=WARMUP), minimise(irm, WARMUP)),
    "groupdro": (GroupDRO(eta=0.1), minimise(groupdro)),
    "iga": (IGA(weight=1000.0), minimise(iga)),
    "coral": (CORAL(weight=2.0), minimise(matching(coral_distance))),
    "mmd": (FeatureMMD(weight=2.0), minimise(matching(mmd_distance))),
    "causirl coral": (CausIRL(2.0, "coral"), minimise(mixing(coral_distance))),
    "causirl mmd": (CausIRL(2.0, "mmd"), minimise(mixing(mmd_distance))),
    "mixup": (Mixup(alpha=0.2), minimise(mixup)),
    "fishr": (Fishr(weight=1000.0, warmup=WARMUP, ema=0.9), minimise(fishr, WARMUP)),
    "eqrm": (EQRM(0.75, WARMUP, 5e-4), minimise(eqrm(alpha=0.75), WARMUP, 5e-4)),
    "eqrm extreme": (
        EQRM(warmup=WARMUP, lr_after=5e-4, log_tail=-1000.0),
        minimise(eqrm(log_tail=-1000.0), WARMUP, 5e-4),
    ),
    "rdm": (RDM(5.0, WARMUP, 5e-4, 0.1), minimise(rdm(by_domain), WARMUP, 5e-4)),
    "rdm, samples": (
        RDM(5.0, WARMUP, 5e-4, 0.1, pool="samples"),
        minimise(rdm(by_sample), WARMUP, 5e-4),
    ),
    "fish": (Fish(meta_lr=0.1), fish),
    "mldg": (MLDG(beta=0.5, meta_test=2), mldg),
}


@pytest.mark.parametrize("sizes", [EQUAL, RAGGED], ids=["equal", "ragged"])
@pytest.mark.parametrize("name", CASES)
def test_weights_after_training_are_the_oracles(name, sizes):
    objective, oracle = CASES[name]
    assert deviation(objective, oracle, sizes) <= 1e-10
    assert name == "erm" or deviation(objective, CASES["erm"][1], sizes) > 1e-5


def test_pools_of_rdm_differ_on_ragged_batches_only():
    objective = RDM(5.0, WARMUP, 5e-4, 0.1)
    by_samples = CASES["rdm, samples"][1]
    assert deviation(objective, by_samples, EQUAL) <= 1e-12
    assert deviation(objective, by_samples, RAGGED) > 1e-5
