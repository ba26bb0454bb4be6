import math

import pytest
import torch
from digits import accept, place, random_mnist

from riskmatch.data import load
from riskmatch.data.rotated_mnist import rotated

IMAGES = torch.rand(3, 28, 28, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_quarter_turns_are_exact(turns):
    expected = IMAGES.rot90(turns, (1, 2))  # counter-clockwise
    torch.testing.assert_close(rotated(IMAGES, 90 * turns), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("degrees", [15, 30, 75])
def test_rotation_is_bilinear(degrees):
    angle, centre, image = math.radians(degrees), 13.5, IMAGES[0].double()
    expected = torch.zeros(28, 28, dtype=torch.float64)
    for row in range(28):
        for column in range(28):
            right, up = column - centre, centre - row
            from_column = centre + right * math.cos(angle) + up * math.sin(angle)
            from_row = centre - (-right * math.sin(angle) + up * math.cos(angle))
            top, left = math.floor(from_row), math.floor(from_column)
            for r in (top, top + 1):
                for c in (left, left + 1):
                    if 0 <= r < 28 and 0 <= c < 28:
                        weight = (1 - abs(r - from_row)) * (1 - abs(c - from_column))
                        expected[row, column] += weight * image[r, c]
    torch.testing.assert_close(rotated(IMAGES, degrees)[0].double(), expected, rtol=0, atol=1e-4)


@pytest.fixture
def made(monkeypatch, tmp_path):
    files = random_mnist(train=50, test=12)
    accept(monkeypatch, files)
    return place(files, tmp_path)


def test_digits_are_divided_between_six_angles(made):
    data = load("rotated-mnist", {}, made)
    assert data.names == ("0", "15", "30", "45", "60", "75")
    assert (data.classes, data.input_shape) == (10, (1, 28, 28))
    assert [len(domain) for domain in data.domains] == [11, 11, 10, 10, 10, 10]
    labels = torch.cat([domain.y for domain in data.domains])
    assert torch.equal(labels.bincount(), torch.tensor([7, 7, *[6] * 8]))


def test_seed_determines_the_division(made):
    first, same, other = (load("rotated-mnist", {"seed": s}, made).domains[1] for s in (0, 0, 1))
    assert torch.equal(first.x, same.x)
    assert not torch.equal(first.x, other.x)
