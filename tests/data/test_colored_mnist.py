import pytest
import torch
from digits import accept, place, random_mnist, real

from riskmatch.data import DATASETS, load, split
from riskmatch.data.colored_mnist import colored_mnist


@pytest.fixture(scope="module")
def paper():
    real()
    return colored_mnist()


@pytest.fixture(scope="module")
def authors_code():
    real()
    return load("colored-mnist", {"preset": "authors-code"})


def parts(data):
    """Every split of every domain."""
    return {
        (domain.name, name): part
        for domain in data.domains
        for name, part in split(domain, trial=0).items()
    }


def disagreement(domain) -> float:
    mass = domain.x.sum((2, 3))
    assert (mass > 0).sum(1).eq(1).all()  # one channel holds the digit, the other is empty
    return (mass.argmax(1) != domain.y).float().mean().item()


def prints(images):
    """A number for each image (n, 14, 14), sorted; equal images have equal numbers."""
    places = torch.randint(2**40, (14 * 14,), generator=torch.Generator().manual_seed(0))
    return (images.flatten(1).mul(255).round().long() * places).sum(1).sort().values


def grey(*domains):
    return torch.cat([domain.x.sum(1) for domain in domains])


@pytest.mark.needs_data
@pytest.mark.parametrize(("preset", "held_out"), [("paper", 5_000), ("authors_code", 10_000)])
def test_sizes_and_shapes_follow_the_preset(preset, held_out, request):
    data = request.getfixturevalue(preset)
    assert {key: len(part) for key, part in parts(data).items()} == {
        ("0.1", "train"): 25_000,
        ("0.1", "val"): held_out,
        ("0.2", "train"): 25_000,
        ("0.2", "val"): held_out,
        ("0.9", "train"): 10_000,
        ("0.9", "val"): 10_000,
    }
    assert (data.classes, data.input_shape, data.test_only) == (2, (2, 14, 14), ("0.9",))
    for part in parts(data).values():
        assert (part.x.dtype, part.y.dtype) == (torch.float32, torch.int64)
        assert part.x.min() == 0
        assert part.x.max() == 1


@pytest.mark.needs_data
@pytest.mark.parametrize("preset", ["paper", "authors_code"])
def test_colour_disagrees_with_probability_p(preset, request):
    for (name, _), part in parts(request.getfixturevalue(preset)).items():
        sd = (0.25 / len(part)) ** 0.5
        assert disagreement(part) == pytest.approx(float(name), abs=4 * sd)


@pytest.mark.needs_data
def test_a_quarter_of_the_labels_is_flipped():
    digits, test = real(), colored_mnist().domains[-1]
    truth = (digits.test_digits >= 5).long()
    assert torch.equal(grey(test), digits.test_images[:, ::2, ::2] / 255)  # the order is MNIST's
    assert (test.y != truth).float().mean().item() == pytest.approx(0.25, abs=0.018)
    for side in (0, 1):  # whatever the digit
        wrong = (test.y != truth)[truth == side].float().mean().item()
        assert wrong == pytest.approx(0.25, abs=0.025)


@pytest.mark.needs_data
def test_paper_preset_uses_every_training_digit_once(paper):
    of = parts(paper)
    training = [of[name, part] for name in ("0.1", "0.2") for part in ("train", "val")]
    everything = real().train_images[:, ::2, ::2] / 255
    assert torch.equal(prints(grey(*training)), prints(everything))
    held_out = prints(grey(of["0.1", "val"], of["0.2", "val"]))
    assert torch.equal(held_out, prints(grey(of["0.9", "val"])))


@pytest.mark.needs_data
def test_authors_code_preset_uses_held_out_digits_in_every_domain(authors_code, paper):
    of, paper = parts(authors_code), parts(paper)
    vals = [of[name, "val"] for name in ("0.1", "0.2", "0.9")]
    assert all(torch.equal(grey(val), grey(vals[0])) for val in vals)
    assert all(torch.equal(val.y, vals[0].y) for val in vals)
    for name in ("0.1", "0.2"):  # the training digits are the paper's
        assert torch.equal(of[name, "train"].x, paper[name, "train"].x)


@pytest.mark.needs_data
def test_splits_do_not_depend_on_the_trial(paper):
    first, other = (split(paper.domains[0], trial) for trial in (0, 1))
    assert all(torch.equal(first[name].x, other[name].x) for name in ("train", "val"))
    assert first["train"].validation is None


@pytest.mark.needs_data
def test_seed_determines_the_data(paper):
    torch.manual_seed(1)
    again, other = colored_mnist(), colored_mnist(seed=1)
    for domain, same, different in zip(paper.domains, again.domains, other.domains, strict=True):
        assert torch.equal(domain.x, same.x)
        assert torch.equal(domain.y, same.y)
        assert not torch.equal(domain.y, different.y)


@pytest.mark.needs_data
def test_colored_test_digits_at_any_p(paper):
    data = colored_mnist(test_p=[k / 10 for k in range(11)])
    at = dict(enumerate(data.domains[2:]))
    assert torch.equal(at[9].x, paper.domains[2].x)
    assert torch.equal(at[9].y, paper.domains[2].y)
    assert (disagreement(at[0]), disagreement(at[10])) == (0, 1)
    for k, domain in at.items():
        assert disagreement(domain) == pytest.approx(k / 10, abs=0.02)
        assert torch.equal(domain.y, at[0].y)


@pytest.mark.needs_data
def test_oracle_colours_are_independent_of_labels():
    real()
    data = colored_mnist(p=[0.5, 0.5], test_p=[0.5, 0.9])
    assert data.names == ("0.5", "0.5-2", "test 0.5", "0.9")
    assert data.test_only == ("test 0.5", "0.9")
    assert [len(domain) for domain in data.domains] == [25_000, 25_000, 10_000, 10_000]
    for domain in data.domains[:3]:
        assert disagreement(domain) == pytest.approx(0.5, abs=0.02)


@pytest.mark.needs_data
@pytest.mark.parametrize("name", ["colored-mnist", "rotated-mnist"])
def test_catalogue_facts_match_the_data(name):
    real()
    data, source = load(name), DATASETS[name]
    assert (data.names, data.classes) == (source.domains, source.classes)
    assert sum(len(d) + len(d.validation or ()) for d in data.domains) == source.samples


@pytest.fixture
def made(monkeypatch, tmp_path):
    files = random_mnist()
    accept(monkeypatch, files)
    return place(files, tmp_path)


def test_test_domain_is_not_trained_on(made):
    data = load("colored-mnist", {}, made)
    assert [domain.name for domain in data.without(("0.9",))] == ["0.1", "0.2"]
    with pytest.raises(ValueError, match=r"Domain '0.9' of 'colored-mnist' is for tests only"):
        data.without(("0.1",))


def test_fewer_samples_are_a_subset_with_the_same_shares(made):
    whole, few = (load("colored-mnist", {"samples": n}, made) for n in (60, 24))
    assert [(len(d), len(d.validation)) for d in few.domains] == [(10, 2), (10, 2), (4, 4)]
    for domain, part in zip(whole.domains, few.domains, strict=True):
        assert {row.sum().item() for row in part.x} <= {
            row.sum().item() for d in whole.domains for row in (*d.x, *d.validation.x)
        }, domain.name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "papr"}, "Unknown preset of colored-mnist 'papr'. Did you mean 'paper'"),
        ({"p": 0.5}, "p of colored-mnist must be a list of numbers, got 0.5"),
        ({"p": []}, "p must list a probability.*per domain"),
        ({"test_p": [1.5]}, "test_p must list a probability from 0 to 1.*1.5"),
        ({"p": "0.5"}, "p of colored-mnist must be a list of numbers, got '0.5'"),
        ({"samples": 5}, "samples must be 12 or more, got 5"),
    ],
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        load("colored-mnist", options)
