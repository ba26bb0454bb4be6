import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from riskmatch.data import Domain
from riskmatch.data.stored import Stored

PIXELS = torch.arange(7 * 4 * 2 * 3, dtype=torch.uint8).view(7, 4, 2, 3)
PLAIN = PIXELS.permute(0, 3, 1, 2)


@given(st.lists(st.lists(st.integers(0, 10), min_size=1, max_size=6), max_size=3))
def test_views_of_views_are_those_of_the_tensor(taken):
    stored, plain = Stored(PIXELS), PLAIN
    for rows in taken:
        chosen = torch.tensor(rows) % len(plain)
        stored, plain = stored.take(chosen), plain[chosen]
    assert stored.shape == tuple(plain.shape)
    assert stored.dtype == plain.dtype
    assert torch.equal(stored[:], plain)
    assert torch.equal(stored[torch.arange(len(plain)).flip(0)], plain.flip(0))


@pytest.mark.parametrize("size", [1, 3, 7, 50])
def test_pieces_are_those_of_the_tensor(size):
    pieces, expected = list(Stored(PIXELS).split(size)), PLAIN.split(size)
    assert len(pieces) == len(expected)
    assert all(map(torch.equal, pieces, expected))


def test_what_comes_out_is_a_copy_with_the_channels_last():
    out = Stored(PIXELS)[torch.tensor([1, 2])]
    assert out.is_contiguous(memory_format=torch.channels_last)
    out.zero_()
    assert PIXELS[1].any()


def test_another_device_is_where_the_rows_come_out():
    stored = Stored(PIXELS).to("meta")
    assert stored.device == torch.device("meta")
    assert stored.take(torch.tensor([0])).device == torch.device("meta")
    assert stored[torch.tensor([0])].device == torch.device("meta")


def test_a_domain_takes_rows_without_reading_them():
    domain = Domain("a", Stored(PIXELS), torch.arange(7))
    part = domain.take(torch.tensor([4, 2]))
    assert isinstance(part.x, Stored)
    assert torch.equal(part.x[:], PLAIN[[4, 2]])
    assert part.y.tolist() == [4, 2]
    assert part.to("meta").x.device == torch.device("meta")
