"""Each method against a plain re-implementation of its published form, in float64 to 1e-10.

The oracles loop over domains and samples, keep one forward pass per domain, copy networks and use
torch's own Adam: none of the ways in which the library computes the same things.
"""

import copy
import itertools
import math
import random

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.stats import norm
from torch.nn.functional import cross_entropy

from riskmatch.contract import Memory, OptimSpec, prepare
from riskmatch.data.domain import Batch
from riskmatch.engine import fit
from riskmatch.models import MLP
from riskmatch.objectives import (
    ARM,
    CORAL,
    EQRM,
    ERM,
    IBERM,
    IBIRM,
    IGA,
    IRM,
    LPFT,
    MIRO,
    MLDG,
    MTL,
    RDM,
    RSC,
    SD,
    TRM,
    ANDMask,
    CausIRL,
    ERMPlusPlus,
    ERMSwitch,
    FeatureMMD,
    Fish,
    Fishr,
    GroupDRO,
    Mixup,
    SagNet,
    SANDMask,
    SelfReg,
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
            if step in (warmup if isinstance(warmup, tuple) else (warmup,)):
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


def sd(net, parts, step, state):
    return mean(risk(net, x, y) + 0.1 * (net(x)[1] ** 2).mean() for x, y in parts)


def feature_variance(net, parts):
    variances = []
    for x, _ in parts:
        columns = net(x)[0].T
        variances.append(mean(((f - f.mean()) ** 2).sum() / (len(x) - 1) for f in columns))
    return mean(variances)


def ib_erm(net, parts, step, state):
    return mean(risks(net, parts)) + (10.0 if step >= WARMUP else 0) * feature_variance(net, parts)


def ib_irm(net, parts, step, state):
    return irm(net, parts, step, state) + (10.0 if step >= 5 else 0) * feature_variance(net, parts)


def masked(mask):
    """Entry by entry; ``mask`` of the gradients of all domains."""

    def train(net, steps, rng):
        optimizer, weights = adam(net), list(net.parameters())
        for parts in steps:
            gradients = [torch.autograd.grad(r, weights) for r in risks(net, parts)]
            for weight, *each in zip(weights, *gradients, strict=True):
                entries = torch.stack([g.flatten() for g in each]).T.tolist()
                masks = [mask(entry) for entry in entries]
                scale = mean(masks) + 1e-10
                kept = [m * mean(entry) / scale for m, entry in zip(masks, entries, strict=True)]
                weight.grad = weight.new_tensor(kept).view_as(weight)
            optimizer.step()

    return train


def agreement(entry):
    return abs(sum(g > 0 for g in entry) - sum(g < 0 for g in entry)) / len(entry)


def and_mask(entry):
    return float(agreement(entry) >= 0.6)


def sand_mask(entry):
    variance = sum((g - mean(entry)) ** 2 for g in entry) / (len(entry) - 1)
    return max(0.0, math.tanh(1e-3 / variance * (agreement(entry) - 0.3))) if variance else 0.0


def rsc(net, parts, step, state):
    rows, drops = [], []
    for x, y in parts:
        for f, label in zip(net(x)[0], y, strict=True):
            gradient = net.classifier.weight[label].tolist()
            small = f.new_tensor([g < np.quantile(gradient, 1 - 0.3) for g in gradient])
            whole, part = (net.classifier(v).softmax(0)[label].item() for v in (f, f * small))
            rows.append((f, small, label))
            drops.append(whole - part)
    least = np.quantile(drops, 1 - 0.4)
    losses = [
        cross_entropy(net.classifier(f if drop < least else f * small), label)
        for (f, small, label), drop in zip(rows, drops, strict=True)
    ]
    sizes = [len(y) for _, y in parts]
    starts = itertools.accumulate([0, *sizes[:-1]])
    return mean(mean(losses[a : a + n]) for a, n in zip(starts, sizes, strict=True))


def brought(objective, net, parts, state):
    """The modules of a method, as the engine builds them from the same generator."""
    if "modules" not in state:
        memory = Memory(generator=state["rng"])
        prepare(memory, objective, net, parts[0][0], len(parts))
        state["modules"] = memory.modules
    return state["modules"]


def selfreg(net, parts, step, state):
    projector = brought(SelfReg(), net, parts, state)["projector"]
    rng = random.Random(torch.randint(2**62, (), generator=state["rng"]).item())
    share = rng.betavariate(0.5, 0.5)
    y = torch.cat([y for _, y in parts]).tolist()
    partners = []
    for _ in range(2):
        order = torch.randperm(len(y), generator=state["rng"]).tolist()
        partner = [0] * len(y)
        for label in set(y):
            members = [i for i in range(len(y)) if y[i] == label]
            for i, j in zip(members, [j for j in order if y[j] == label], strict=True):
                partner[i] = j
        partners.append(partner)
    f, z = net(torch.cat([x for x, _ in parts]))
    p = projector(f)
    same = mixed = 0.0
    for values, others, factor in ((z, z, 1.0), (f, p, 0.3)):
        for i, (a, b) in enumerate(zip(*partners, strict=True)):
            both = share * others[a] + (1 - share) * others[b]
            same = same + factor * ((values[i] - others[a]) ** 2).mean() / len(y)
            mixed = mixed + factor * ((values[i] - both) ** 2).mean() / len(y)
    risk = mean(risks(net, parts))
    return risk + min(risk.item(), 1.0) * (share * same + (1 - share) * mixed)


class Extended(torch.nn.Module):
    """A classifier of features beside an embedding, in one matrix, and the rest of the network."""

    def __init__(self, net, marginal):
        super().__init__()
        self.featurizer, self.bias = net.featurizer, net.classifier.bias
        both = torch.cat([net.classifier.weight, marginal.weight], 1)
        self.weight = torch.nn.Parameter(both.detach())


def mtl(net, steps, rng):
    marginal = brought(MTL(), net, steps[0], {"rng": rng})["marginal"]
    both, embeddings = Extended(net, marginal), {}
    optimizer = adam(both)
    for parts in steps:
        loss = 0.0
        for domain, (x, y) in enumerate(parts):
            f = both.featurizer(x)
            embedding = 0.9 * f.mean(0) + (1 - 0.9) * embeddings.get(domain, 0.0)
            embeddings[domain] = embedding.detach()
            inputs = torch.stack([torch.cat([row, embedding]) for row in f])
            loss = loss + cross_entropy(inputs @ both.weight.T + both.bias, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.classifier.weight.data = both.weight.data[:, : net.classifier.in_features]


def trm(first_terms):
    """``first_terms`` maps v and (I − H) v to the first two terms of the Neumann series."""

    def loss(net, parts, step, state):
        risk = mean(risks(net, parts))
        if step < WARMUP:
            return risk
        features, m = [net(x)[0] for x, _ in parts], len(parts)
        if "heads" not in state:
            state["heads"] = [torch.nn.Linear(6, CLASSES).double() for _ in parts]
            state["alpha"] = [[float(i != j) for j in range(m)] for i in range(m)]
            for weight in itertools.chain(*(head.parameters() for head in state["heads"])):
                weight.data.zero_()
        for head, f, (_, y) in zip(state["heads"], features, parts, strict=True):
            optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
            for _ in range(30):
                optimizer.zero_grad()
                cross_entropy(head(f.detach()), y).backward()
                optimizer.step()
        total = 0.0
        for q, (head, alpha) in enumerate(zip(state["heads"], state["alpha"], strict=True)):
            alpha[:] = [a / sum(alpha) for a in alpha]
            each = [cross_entropy(head(f), y) for f, (_, y) in zip(features, parts, strict=True)]
            weighted = [a * r for a, r in zip(alpha, each, strict=True)]
            (v,) = torch.autograd.grad(sum(weighted), head.weight, retain_graph=True)
            (slope,) = torch.autograd.grad(each[q], head.weight, create_graph=True)

            flat = head.weight.detach().flatten()
            hessian = torch.autograd.functional.hessian(
                lambda w, b=head.bias, q=q: cross_entropy(
                    features[q].detach() @ w.view(CLASSES, 6).T + b.detach(), parts[q][1]
                ),
                flat,
            )
            shrink = torch.eye(len(flat)) - hessian
            terms = first_terms(v.flatten(), shrink @ v.flatten())
            inverse, last = sum(terms), shrink @ v.flatten()
            for _ in range(9):
                if inverse.abs().max() > 10:
                    break
                last = shrink @ last
                inverse = inverse + last
            total = total + sum(weighted) - 0.1 * inverse @ slope.flatten()
            alpha[:] = [a * math.exp(0.1 * r.item()) for a, r in zip(alpha, weighted, strict=True)]
        return risk + total / m

    return loss


def arm(net, steps, rng):
    context = brought(ARM(), net, steps[0], {"rng": rng})["context"]
    both = torch.nn.ModuleList([net, context])
    optimizer = adam(both)
    for parts in steps:
        contexts = context.context(torch.cat([net(x)[0] for x, _ in parts]))
        losses, start = [], 0
        for x, y in parts:
            shift = context.shift.weight @ mean(contexts[start : start + len(y)])
            losses.append(cross_entropy(torch.stack([z + shift for z in net(x)[1]]), y))
            start += len(y)
        optimizer.zero_grad()
        mean(losses).backward()
        optimizer.step()


def classifier_first(steps_alone, lr):
    """ERM that steps the classifier alone at first, with an Adam of its own."""

    def train(net, steps, rng):
        optimizers = adam(net.classifier, lr), adam(net)
        for step, parts in enumerate(steps):
            net.zero_grad()
            mean(risks(net, parts)).backward()
            optimizers[step >= steps_alone].step()

    return train


def miro(net, steps, rng):
    before = copy.deepcopy(net)
    b = torch.full((6,), math.log(math.exp(0.1 - 1e-5) - 1), dtype=torch.float64).requires_grad_()
    optimizers = adam(net), torch.optim.Adam([b], lr=10 * LR, weight_decay=DECAY)
    for parts in steps:
        penalties = []
        for x, _ in parts:
            variance = torch.log(1 + torch.exp(b)) + 1e-5
            with torch.no_grad():
                target = before(x)[0]
            normal = torch.distributions.Normal(net(x)[0], variance.sqrt())
            constant = 0.5 * math.log(2 * math.pi)
            penalties.append((-normal.log_prob(target) - constant).mean())
        net.zero_grad()
        b.grad = None
        (mean(risks(net, parts)) + 0.5 * mean(penalties)).backward()
        for optimizer in optimizers:
            optimizer.step()


def sagnet(net, steps, rng):
    style = brought(SagNet(), net, steps[0], {"rng": rng})["style"]
    of_features, of_content, of_style = adam(net.featurizer), adam(net.classifier), adam(style)

    def mixed(parts, what):
        """Features of each domain, with the style or the content of another sample."""
        f = net.featurizer(torch.cat([x for x, _ in parts]))
        alpha = torch.rand(len(f), 1, generator=rng)[:, 0]
        order, rows = torch.randperm(len(f), generator=rng).tolist(), []
        for i, j in enumerate(order):
            (m, v), (other_m, other_v) = ((f[k].mean(), f[k].var()) for k in (i, j))
            content = (f[i] - m) / (v + 1e-5).sqrt()
            if what == "style":
                m = alpha[i] * m + (1 - alpha[i]) * other_m
                v = alpha[i] * v + (1 - alpha[i]) * other_v
            else:
                content = ((f[j] - other_m) / (other_v + 1e-5).sqrt()).detach()
            rows.append(content * (v + 1e-5).sqrt() + m)
        return torch.stack(rows).split([len(y) for _, y in parts])

    def take(loss, *optimizers):
        for part in (net, style):
            part.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()

    def classified(top, parts, what):
        pairs = zip(mixed(parts, what), parts, strict=True)
        return mean(cross_entropy(top(f), y) for f, (_, y) in pairs)

    for parts in steps:
        take(classified(net.classifier, parts, "style"), of_features, of_content)
        take(classified(style, parts, "content"), of_style)
        uniform = mean(-style(f).log_softmax(1).mean() for f in mixed(parts, "content"))
        take(0.1 * uniform, of_features)


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
    "sd": (SD(weight=0.1), minimise(sd)),
    "ib-erm": (IBERM(weight=10.0, warmup=WARMUP), minimise(ib_erm, WARMUP)),
    "ib-irm": (IBIRM(100.0, WARMUP, 10.0, 5), minimise(ib_irm, (WARMUP, 5))),
    "andmask": (ANDMask(tau=0.6), masked(and_mask)),
    "sandmask": (SANDMask(tau=0.3, slope=1e-3), masked(sand_mask)),
    "rsc": (RSC(drop_features=0.3, drop_samples=0.4), minimise(rsc)),
    "selfreg": (SelfReg(), minimise(selfreg)),
    "mtl": (MTL(ema=0.9), mtl),
    "trm": (TRM(0.1, WARMUP, 0.1), minimise(trm(lambda v, then: (v, then)))),
    "trm, authors' code": (
        TRM(0.1, WARMUP, 0.1, "authors-code"),
        minimise(trm(lambda v, then: (then, then))),
    ),
    "arm": (ARM(), arm),
    "lp-ft": (LPFT(WARMUP, 5e-3), classifier_first(WARMUP, 5e-3)),
    "erm-plus-plus": (ERMPlusPlus(WARMUP, 5e-3, 3), classifier_first(WARMUP + 1, 5e-3)),
    "miro": (MIRO(weight=0.5), miro),
    "sagnet": (SagNet(), sagnet),
    "fish": (Fish(meta_lr=0.1), fish),
    "mldg": (MLDG(beta=0.5, meta_test=2), mldg),
}


@pytest.mark.parametrize("sizes", [EQUAL, RAGGED], ids=["equal", "ragged"])
@pytest.mark.parametrize("name", CASES)
def test_weights_after_training_are_the_oracles(name, sizes):
    objective, oracle = CASES[name]
    assert deviation(objective, oracle, sizes) <= 1e-10
    assert name == "erm" or deviation(objective, CASES["erm"][1], sizes) > 1e-5


def test_miro_without_its_penalty_is_erm():
    assert deviation(MIRO(weight=0.0), CASES["erm"][1], RAGGED) <= 1e-12


def test_pools_of_rdm_differ_on_ragged_batches_only():
    objective = RDM(5.0, WARMUP, 5e-4, 0.1)
    by_samples = CASES["rdm, samples"][1]
    assert deviation(objective, by_samples, EQUAL) <= 1e-12
    assert deviation(objective, by_samples, RAGGED) > 1e-5
