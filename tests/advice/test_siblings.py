"""Domains that are siblings by what they do."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from riskmatch.advice.siblings import find_siblings, joined, sibling_costs, siblings_among
from riskmatch.data import Domain, DomainSet

NAMES = ("a", "b", "c", "d", "e")


def made(siblings=(), numbers=False, seed=0, grouped=False):
    """Five domains with columns of their own that follow the label, which siblings share."""
    rng, domains, n = np.random.default_rng(seed), [], 1500 if grouped else 300
    own = {name: np.arange(12) // 2 == 1 + k for k, name in enumerate(NAMES)}
    own |= {b: own[a] for a, b in siblings}
    for name in NAMES:
        y = rng.normal(size=n) if numbers else rng.integers(0, 2, n)
        direction = 0.2 + 0.8 * own[name]
        x = rng.normal(size=(n, 12)) + np.outer(y if numbers else 2 * y - 1, direction)
        labels = torch.tensor(y, dtype=torch.float if numbers else torch.long)
        groups = torch.arange(n) if grouped else None
        domains.append(Domain(name, torch.tensor(x).float(), labels, groups=groups))
    return DomainSet("made", tuple(domains), 0 if numbers else 2)


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_siblings_are_found_and_no_others(numbers, grouped):
    pairs = [("a", "d"), ("b", "e")]
    assert set(siblings_among(sibling_costs(made(pairs, numbers, grouped=grouped)))) == {*pairs}


@pytest.mark.parametrize("numbers", [False, True])
def test_without_siblings_none_are_found(numbers):
    found = [siblings_among(sibling_costs(made((), numbers, seed))) for seed in range(20)]
    assert sum(map(bool, found)) <= 3  # the level of all pairs together is 5 %


def test_probes_are_ridge_regressions_in_which_domains_weigh_the_same():
    data = made(numbers=True)
    costs = {(one.domain, one.other): one for one in sibling_costs(data)}
    from riskmatch.data.splits import splits

    parts = {name: by["train"] for name, by in splits(data.domains, 0).items()}
    every = torch.cat([part.x for part in parts.values()]).numpy()
    y = torch.cat([part.y for part in parts.values()]).numpy()

    def standard(name):
        x = (parts[name].x.numpy() - every.mean(0)) / every.std(0)
        return x, (parts[name].y.numpy() - y.mean()) / y.std()

    def explained(*left_out):
        x, z = map(np.concatenate, zip(*map(standard, set(NAMES) - {*left_out}), strict=True))
        n = len(parts["a"])
        kept = len(NAMES) - len(left_out)
        trace = (x**2).sum() / n + kept  # with the constant
        model = Ridge(n * 0.1 * trace / 13).fit(x, z)
        x, z = standard(left_out[0])
        return 1 - np.mean((model.predict(x) - z) ** 2)

    cost = costs["a", "b"]
    assert (cost.alone, cost.both) == pytest.approx((explained("a"), explained("a", "b")), abs=1e-4)


def test_advice_says_how_siblings_were_looked_for_and_what_was_found():
    together, finding = find_siblings("made.npz", made([("a", "d")]))
    assert together == [["a", "d"]]
    for fact in ("probes", "a and d (", "points", "left out together"):
        assert fact in finding
    together, finding = find_siblings("made.npz", made())
    assert together == []
    assert finding.endswith(": none.")


def test_siblings_that_would_leave_two_sets_are_named_with_the_cure():
    data = made([("a", "d"), ("b", "e")])
    few = DomainSet("few", tuple(d for d in data.domains if d.name != "c"), 2)
    together, finding = find_siblings("made.npz", few)
    assert together == []
    for fact in ("too few domains", "--leave-out-together a+d,b+e"):
        assert fact in finding


def test_other_inputs_are_not_probed():
    images = [Domain(name, torch.zeros(9, 3, 4, 4), torch.arange(9) % 2) for name in NAMES]
    assert sibling_costs(DomainSet("images", tuple(images), 2)) == []
    _, finding = find_siblings("made.npz", DomainSet("images", tuple(images), 2))
    assert "not looked for" in finding


def test_sets_that_share_a_domain_are_one():
    assert joined([("b", "e"), ("a", "d"), ("e", "c")], NAMES) == [["a", "d"], ["b", "c", "e"]]
