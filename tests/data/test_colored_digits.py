import pytest
import torch

from riskmatch.data import load


@pytest.fixture(scope="module")
def digits():
    return load("colored-digits", {"samples": 4000})


def test_shapes_and_names(digits):
    assert digits.names == ("0.9", "0.8", "0.1")
    assert (digits.classes, digits.input_shape) == (2, (2, 8, 8))
    assert all(len(domain) == 4000 for domain in digits.domains)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_colour_agrees_with_the_stated_probability(digits, place):
    domain = digits.domains[place]
    color = domain.x.sum((2, 3)).argmax(1)  # the channel that holds the digit
    assert (domain.x.sum((2, 3)) > 0).sum(1).eq(1).all()
    agreement = (color == domain.y).float().mean().item()
    assert agreement == pytest.approx(float(domain.name), abs=0.03)  # 4 standard deviations


def test_seed_determines_the_samples():
    torch.manual_seed(1)
    first = load("colored-digits", {"samples": 50}).domains[0]
    torch.manual_seed(2)
    second = load("colored-digits", {"samples": 50}).domains[0]
    other = load("colored-digits", {"samples": 50, "seed": 1}).domains[0]
    assert torch.equal(first.x, second.x)
    assert torch.equal(first.y, second.y)
    assert not torch.equal(first.x, other.x)


def test_with_p_it_is_built_as_colored_mnist():
    data = load("colored-digits", {"samples": 600, "p": [0.1, 0.2], "test_p": [0.9, 0.1]})
    assert (data.names, data.test_only) == (("0.1", "0.2", "0.9", "test 0.1"), ("0.9", "test 0.1"))
    assert [len(domain) for domain in data.domains] == [250, 250, 100, 100]
    assert data.input_shape == (2, 8, 8)
    for domain, p in zip(data.domains, (0.1, 0.2, 0.9, 0.1), strict=True):
        color = domain.x.sum((2, 3)).argmax(1)
        assert (color != domain.y).float().mean().item() == pytest.approx(p, abs=0.12)  # 4 SE


def test_samples_are_jittered_independently(digits):
    grey = digits.domains[0].x.sum(1).flatten(1)
    assert len(grey.unique(dim=0)) == len(grey)
