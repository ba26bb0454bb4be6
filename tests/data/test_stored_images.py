import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from riskmatch.data import Domain
from riskmatch.data.domain import StoredImages

PIXELS = torch.arange(7 * 4 * 2 * 3, dtype=torch.uint8).view(7, 4, 2, 3)
PLAIN = PIXELS.permute(0, 3, 1, 2)


@given(st.lists(st.lists(st.integers(0, 10), min_size=1, max_size=6), max_size=3))
def test_nested_views_match_a_tensor(taken):
    stored, plain = StoredImages(PIXELS), PLAIN
    for rows in taken:
        chosen = torch.tensor(rows) % len(plain)
        stored, plain = stored.take(chosen), plain[chosen]
    assert stored.shape == tuple(plain.shape)
    assert stored.dtype == plain.dtype
    assert torch.equal(stored[:], plain)
    assert torch.equal(stored[torch.arange(len(plain)).flip(0)], plain.flip(0))


@pytest.mark.parametrize("size", [1, 3, 7, 50])
def test_chunks_match_a_tensor(size):
    pieces, expected = list(StoredImages(PIXELS).split(size)), PLAIN.split(size)
    assert len(pieces) == len(expected)
    assert all(map(torch.equal, pieces, expected))


def test_indexing_returns_a_channels_last_copy():
    out = StoredImages(PIXELS)[torch.tensor([1, 2])]
    assert out.is_contiguous(memory_format=torch.channels_last)
    out.zero_()
    assert PIXELS[1].any()


def test_rows_are_returned_on_the_device():
    stored = StoredImages(PIXELS).to("meta")
    assert stored.device == torch.device("meta")
    assert stored.take(torch.tensor([0])).device == torch.device("meta")
    assert stored[torch.tensor([0])].device == torch.device("meta")


def test_domain_takes_rows_without_reading_them():
    domain = Domain("a", StoredImages(PIXELS), torch.arange(7))
    part = domain.take(torch.tensor([4, 2]))
    assert isinstance(part.x, StoredImages)
    assert torch.equal(part.x[:], PLAIN[[4, 2]])
    assert part.y.tolist() == [4, 2]
    assert part.to("meta").x.device == torch.device("meta")
