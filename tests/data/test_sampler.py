import pytest
import torch

from riskmatch.data import Domain, Sampler


def domain(name: str, size: int) -> Domain:
    return Domain(name, torch.arange(float(size))[:, None], torch.zeros(size, dtype=torch.long))


def drawn(sampler: Sampler, batches: int) -> list[list[float]]:
    return [next(sampler).x.flatten().tolist() for _ in range(batches)]


@pytest.mark.parametrize("stop", [0, 1, 3, 4, 11])
def test_restored_sampler_continues_unchanged(stop):
    domains = [domain("a", 7), domain("b", 20)]
    whole = drawn(Sampler(domains, 3, seed=1), 20)
    first = Sampler(domains, 3, seed=1)
    drawn(first, stop)
    second = Sampler(domains, 3, seed=1)
    second.restore(first.state())
    assert drawn(second, 20 - stop) == whole[stop:]


@pytest.mark.parametrize("stop", [1, 4])
@pytest.mark.parametrize("batch_size", [0, 3, 9])
def test_restored_sampler_continues_unchanged_with_replacement(stop, batch_size):
    domains = [domain("a", 7), domain("b", 20)]
    whole = drawn(Sampler(domains, batch_size, seed=1, replacement=True), 6)
    rest = Sampler(domains, batch_size, seed=1, replacement=True)
    rest.restore({"drawn": stop})
    assert drawn(rest, 6 - stop) == whole[stop:]
    assert len({tuple(batch) for batch in whole}) == 6


def test_whole_domains_with_replacement_are_bootstraps():
    sampler = Sampler([domain("a", 1000), domain("b", 500)], 0, seed=0, replacement=True)
    for _ in range(2):
        batch = next(sampler)
        assert batch.sizes == (1000, 500)
        distinct = len(batch.split()[0].x.unique())
        assert 590 < distinct < 675  # 1000 · (1 − 1/e) = 632, give or take four deviations


def test_draws_with_replacement_are_uniform_and_fill_the_batch():
    sampler = Sampler([domain("a", 5)], 50, seed=3, replacement=True)
    counts = torch.cat([next(sampler).x for _ in range(40)]).long().flatten().bincount()
    assert counts.sum() == 2000
    assert ((counts - 400).abs() < 5 * (2000 * 0.2 * 0.8) ** 0.5).all()


def test_epoch_has_every_sample_at_most_once():
    batches = drawn(Sampler([domain("a", 10)], 5, seed=0), 4)
    first, second = batches[0] + batches[1], batches[2] + batches[3]
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second


def test_epoch_ends_before_a_short_batch():
    batches = drawn(Sampler([domain("a", 8)], 3, seed=0), 40)
    assert all(len(batch) == 3 for batch in batches)
    for one, two in zip(batches[::2], batches[1::2], strict=True):
        assert not set(one) & set(two)


def test_small_domain_is_used_whole():
    batch = next(Sampler([domain("a", 3), domain("b", 9)], 4, seed=0))
    assert batch.sizes == (3, 4)
    assert sorted(batch.x[:3].flatten().tolist()) == [0, 1, 2]


@pytest.mark.parametrize("batch_size", [0, 20])
def test_batch_size_0_repeats_one_batch(batch_size):
    sampler = Sampler([domain("a", 3), domain("b", 9)], batch_size, seed=0)
    first = next(sampler)
    assert first.sizes == (3, 9)
    assert next(sampler) is first
    assert sampler.state() == {"drawn": 2}


@pytest.mark.parametrize("processes", [1, 2, 3, 9])
@pytest.mark.parametrize(("batch_size", "replacement"), [(0, False), (4, False), (4, True)])
def test_shares_of_processes_together_are_the_batch(batch_size, replacement, processes):
    domains = [domain("a", 3), domain("b", 9)]
    samplers = [
        Sampler(domains, batch_size, 0, replacement=replacement) for _ in range(processes + 1)
    ]
    for _ in range(4):
        whole = next(samplers[0])
        shares = [s.next_share(rank, processes) for rank, s in enumerate(samplers[1:])]
        found = torch.full_like(whole.x, -1)
        for share in shares:
            found[share.positions] = share.own.x[: len(share.positions)]
            assert (share.whole.sizes, share.whole.names) == (whole.sizes, whole.names)
            assert abs(len(share.positions) - len(whole.y) / processes) < 1
            assert len(share.own.y) == max(1, len(share.positions))
        assert torch.equal(found, whole.x)
    assert samplers[1].state() == samplers[0].state()


def test_processes_augment_their_shares_with_other_random_numbers():
    def noise(x, generator):
        return torch.rand(x.shape, generator=generator)

    samplers = [Sampler([domain("a", 8)], 4, 0, noise) for _ in range(2)]
    shares = [s.next_share(rank, 2).own.x for rank, s in enumerate(samplers)]
    assert not torch.equal(*shares)


def test_order_does_not_depend_on_other_domains():
    alone = Sampler([domain("a", 10)], 3, seed=0)
    together = Sampler([domain("z", 5), domain("a", 10)], 3, seed=0)
    for _ in range(10):
        assert torch.equal(next(alone).x, next(together).split()[1].x)


def test_seeds_and_names_give_different_orders():
    samplers = [Sampler([domain(n, 50)], 25, s) for n, s in [("a", 0), ("a", 1), ("b", 0)]]
    orders = {tuple(drawn(sampler, 1)[0]) for sampler in samplers}
    assert len(orders) == 3


def test_global_random_state_is_unchanged():
    before = torch.get_rng_state()
    drawn(Sampler([domain("a", 10)], 3, seed=0), 10)
    assert torch.equal(torch.get_rng_state(), before)


def test_negative_batch_size_is_refused():
    with pytest.raises(ValueError, match=r"batch_size must be 0 .* got -1"):
        Sampler([domain("a", 3)], -1, seed=0)
