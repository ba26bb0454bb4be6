import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from riskmatch.data import Domain, DomainSet, split

names = st.text(min_size=1, max_size=8)
sizes = st.integers(2, 200)
trials = st.integers(0, 5)


def domain(name: str, size: int) -> Domain:
    return Domain(name, torch.arange(size)[:, None], torch.arange(size))


@given(names, sizes, trials)
@settings(max_examples=50, deadline=None)
def test_split_uses_every_sample_once(name, size, trial):
    parts = split(domain(name, size), trial)
    rows = {part: parts[part].y.tolist() for part in ("train", "val")}
    assert sorted(rows["train"] + rows["val"]) == list(range(size))
    assert len(rows["val"]) == max(1, round(0.2 * size))
    assert all(part == sorted(part) for part in rows.values())
    assert all(torch.equal(part.x[:, 0], part.y) for part in parts.values())


@given(names, sizes, trials)
@settings(max_examples=25, deadline=None)
def test_split_depends_only_on_name_and_trial(name, size, trial):
    def held_out(n, t):
        return split(domain(n, size), t)["val"].y.tolist()

    torch.manual_seed(size)
    assert held_out(name, trial) == held_out(name, trial)
    if size >= 100:  # smaller ones may agree by chance
        assert held_out(name, trial) != held_out(name, trial + 1)
        assert held_out(name, trial) != held_out(name + "'", trial)


def test_one_sample_cannot_be_split():
    with pytest.raises(ValueError, match=r"Domain 'a' has 1 sample\(s\)"):
        split(domain("a", 1), 0)


def test_invalid_domains_are_refused():
    with pytest.raises(ValueError, match="has 3 inputs but 2 labels"):
        Domain("a", torch.zeros(3, 1), torch.zeros(2))
    with pytest.raises(ValueError, match="the same name"):
        DomainSet("d", (domain("a", 3), domain("a", 4)), 2)
    with pytest.raises(ValueError, match="must have one shape"):
        DomainSet("d", (domain("a", 3), Domain("b", torch.zeros(2, 4), torch.zeros(2))), 2)


def test_test_domains_are_checked():
    data = DomainSet("d", (domain("art", 3), domain("photo", 4)), 2)
    assert [left.name for left in data.without(("art",))] == ["photo"]
    with pytest.raises(ValueError, match=r"Unknown domain of 'd' 'fhoto'. Did you mean 'photo'"):
        data.without(("fhoto",))
    with pytest.raises(ValueError, match="is left to train on"):
        data.without(("art", "photo"))
