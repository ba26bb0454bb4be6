"""riskmatch's own data sets pass the checks for data sets; faulty ones fail them."""

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from riskmatch.data import Domain, DomainSet, load_data
from riskmatch.data.catalogue import resolve
from riskmatch.data.colored_digits import colored_digits
from riskmatch.testing import ConformanceError, datasets
from riskmatch.testing.datasets import CHECKS

X, Y = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 2
GOOD = DomainSet("good", (Domain("a", X, Y), Domain("b", X + 1, Y)), 2, class_names=("no", "yes"))


def named(check):
    return check.__name__


@pytest.mark.parametrize("check", CHECKS, ids=named)
@pytest.mark.parametrize("load", [colored_digits, partial(colored_digits, samples=7)])
def test_colored_digits_conform(check, load):
    check(load)


@pytest.mark.needs_data
@pytest.mark.parametrize("check", CHECKS, ids=named)
@pytest.mark.parametrize("name", ["colored-mnist", "rotated-mnist"])
def test_mnist_data_sets_conform(check, name):
    source = resolve(name).source
    if source.cure() is not None:
        pytest.skip("MNIST is not on this machine")
    check(source.load)


@pytest.mark.parametrize("check", CHECKS, ids=named)
@pytest.mark.parametrize("augment", [True, False])
def test_image_folder_conforms(check, augment, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    for domain, label, number in itertools.product(("ink", "oil"), ("cat", "dog"), range(3)):
        path = tmp_path / "pets" / domain / label / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (20, 20, 3), np.uint8)).save(path)
    load = resolve(str(tmp_path / "pets")).source.load
    check(partial(load, image_size=16, augment=augment))


@pytest.mark.parametrize("check", CHECKS, ids=named)
def test_tensors_conform(check):
    check(lambda: load_data({"a": (X, Y), "b": (X + 1, Y)}))


@pytest.mark.parametrize("check", CHECKS, ids=named)
def test_tables_conform_once_they_are_fitted(check):
    columns = {
        "u": [1.0, None] * 3,
        "v": list("abcabc"),
        "y": list("nynyny"),
        "site": list("AABBAB"),
    }
    table = load_data(pd.DataFrame(columns), label="y", domain="site")
    check(lambda: table.fitted(["B"]))


def unannotated(*, size=3):
    """Has size."""
    return GOOD


def undocumented(*, size: int = 3):
    """Says nothing."""
    return GOOD


def positional(size: int = 3):
    """Has size."""
    return GOOD


def required(*, size: int):
    """Has size."""
    return GOOD


COUNT = itertools.count()


def changing():
    return replace(GOOD, domains=(Domain("a", X + next(COUNT), Y), GOOD.domains[1]))


def other(**changes):
    return lambda: replace(GOOD, **changes)


def first(x=X, y=Y, name="a", validation=None):
    return other(domains=(Domain(name, x, y, validation), GOOD.domains[1]))


class Losing(Domain):
    def take(self, rows):
        return Domain(self.name, self.x[rows * 0], self.y[rows * 0])


@pytest.mark.parametrize(
    ("check", "load", "message"),
    [
        ("options_are_documented", unannotated, "unannotated: option 'size' has no type"),
        ("options_are_documented", undocumented, "'size' is not in the docstring"),
        ("options_are_documented", positional, "'size' must be keyword-only"),
        ("options_are_documented", required, "'size' has no default"),
        ("domains_are_named", lambda: [1], "must return a DomainSet, got list"),
        ("domains_are_named", other(domains=GOOD.domains[:1]), "1 domain"),
        ("domains_are_named", first(name=" a"), "name ' a'"),
        ("domains_are_named", first(X[:1], Y[:1]), r"'a' has 1 sample"),
        ("domains_for_tests_exist", other(test_only=("c",)), r"unknown domains \['c'\]"),
        ("domains_for_tests_exist", other(test_only=("a", "b")), "every domain"),
        ("inputs_have_one_shape", first(X.double()), "several dtypes"),
        ("inputs_have_one_shape", first(validation=Domain("a", X[:, :2], Y)), "several shapes"),
        ("inputs_are_finite", first(X / 0), "'a' has inputs that are not finite"),
        ("labels_are_classes", first(y=Y + 1), "'a' go from 1 to 2 with 2 classes"),
        ("labels_are_classes", first(y=Y.float()), "'a' must be int64"),
        ("labels_are_classes", other(classes=1), "1 class"),
        ("class_names_match_classes", other(class_names=("no",)), "2 classes but.*'no'"),
        ("loads_the_same_twice", changing, "different inputs in 'a'"),
        ("splits_cover_each_sample_once", other(domains=(Losing("a", X, Y),)), "'a' loses"),
        ("splits_cover_each_sample_once", first(validation=Domain("b", X, Y)), "same name"),
        ("rows_can_be_taken_and_moved", other(domains=(Losing("a", X, Y),)), "take.*'a'"),
        ("survives_pickling", other(augment=lambda x, generator: x), "cannot be pickled"),
        (
            "augmentation_follows_its_generator",
            other(augment=lambda x, generator: x + torch.rand(1)),
            "same generator",
        ),
        (
            "augmentation_follows_its_generator",
            other(augment=lambda x, generator: x.mul_(2)),
            "changes the batch",
        ),
        (
            "augmentation_follows_its_generator",
            other(augment=lambda x, generator: x[:1]),
            "turns 4 inputs into 1",
        ),
    ],
)
def test_faulty_data_set_is_refused(check, load, message):
    with pytest.raises(ConformanceError, match=message):
        getattr(datasets, check)(load)
