"""Domains from names, tensors, torch data sets and data frames."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from riskmatch.data import Domain, load, load_data
from riskmatch.engine.data_identity import identity_of

X, Y = torch.arange(12.0).view(4, 3), torch.tensor([0, 1, 2, 1])


class Pairs(Dataset):
    """A map-style data set with class names, as those of torchvision."""

    def __init__(self, samples, classes=None):
        self.samples = samples
        if classes is not None:
            self.classes = classes

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, row):
        return self.samples[row]


class Endless(IterableDataset):
    def __iter__(self):
        while True:
            yield X[0], Y[0]


def table(**changes):
    columns = {"age": [30, 60, 50], "bmi": [1.5, 2.5, 0.5], "ill": ["no", "yes", "no"]}
    return pd.DataFrame({**columns, "site": ["B", "A", "B"], **changes})


def test_name_path_and_domain_set(tmp_path):
    digits = load_data("colored-digits", options={"samples": 5})
    assert identity_of(digits) == identity_of(load("colored-digits", {"samples": 5}))
    assert load_data(digits) is digits
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_data(tmp_path / "nowhere")


def test_pairs_domains_and_torch_data_sets_give_the_same_domains():
    seen = []
    made = [
        load_data({"a": (X, Y), "b": (X + 1, Y)}),
        load_data({"a": (X.double(), Y.int()), "b": ((X + 1).numpy(), Y.numpy())}),
        load_data({"a": Domain("other", X, Y), "b": TensorDataset(X + 1, Y)}),
        load_data(
            {"a": Pairs(list(zip(X, Y.tolist(), strict=True))), "b": (X + 1, Y)},
            on_progress=lambda *args: seen.append(args),
        ),
    ]
    for data in made:
        assert data.names == ("a", "b")
        assert (data.classes, data.input_shape) == (3, (3,))
        assert data.domains[0].x.dtype == torch.float32
        assert identity_of(data) == identity_of(made[0])
    assert seen[-1] == ("reading a", 4, 4)


def test_fingerprint_follows_the_content():
    one, other = ({"a": (X, Y), "b": (X + step, Y)} for step in (1, 2))
    assert identity_of(load_data(one)).content != identity_of(load_data(other)).content
    relabelled = {"a": (X, Y), "b": (X + 1, Y.flip(0))}
    assert identity_of(load_data(one)).content != identity_of(load_data(relabelled)).content


def test_bytes_stay_bytes_and_own_validation_samples_are_kept():
    images = torch.zeros(4, 3, 8, 8, dtype=torch.uint8)
    validation = Domain("a", images[:2], Y[:2])
    data = load_data({"a": Domain("a", images, Y, validation), "b": (images, Y)})
    assert data.domains[0].x.dtype == torch.uint8
    assert len(data.domains[0].validation) == 2


def test_class_names_come_from_torch_data_sets():
    pairs = list(zip(X, Y, strict=True))
    named = Pairs(pairs, ["cat", "dog", "owl", "pig"])
    data = load_data({"a": named, "b": named})
    assert (data.classes, data.class_names) == (4, ("cat", "dog", "owl", "pig"))
    with pytest.raises(ValueError, match=r"'a' and 'b' name different classes.*cat, dog.*owl"):
        load_data({"a": named, "b": Pairs(pairs, ["owl"])})
    with pytest.raises(ValueError, match="Label 2 has no name"):
        load_data({"a": Pairs(pairs, ["cat"]), "b": (X, Y)})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({}, "empty"),
        ({"a": X}, r"'a' must be a pair \(x, y\).*got Tensor"),
        ({"a": (X, Y.to(torch.complex64))}, "'a': labels must be integers.*complex64"),
        ({"a": (X + 1j, Y)}, "'a': x must be real numbers, got torch.complex64"),
        ({"a": (X.numpy() + 1j, Y)}, "'a': x must be real"),
        ({"a": ({"ids": X + 1j}, Y)}, "'a': ids must be real"),
        ({"a": Domain("a", X, Y), None: (X, Y)}, "text or a number as its name, got None"),
        ({np.nan: (X, Y)}, "as its name, got nan"),
        ({("a", 1): (X, Y)}, r"as its name, got \('a', 1\)"),
        ({"": (X, Y)}, "as its name, got ''"),
        ({"a": (X, Y[:, None])}, r"'a': labels.*\(4, 1\)"),
        ({"a": (X, Y - 1)}, "'a': labels must be 0 or more, got -1"),
        ({"a": (X, Y[:3])}, "'a' has 4 inputs but 3 labels"),
        ({"a": (X[:0], Y[:0])}, "'a' has no samples"),
        ({"a": Pairs([])}, "'a' has no samples"),
        ({"a": (["x"], Y)}, "'a': x must be a tensor.*list"),
        ({"a": (np.array([None]), Y)}, "'a': x must be a tensor"),
        ({"a": (X, Y), "b": (X[:, :2], Y)}, r"one shape.*\(3,\).*\(2,\)"),
        ({"a": Endless()}, "'a' is an iterable data set.*map-style"),
        ({"a": Pairs([X[0]])}, "'a': sample 0 must be a pair"),
        ({"a": Pairs([("text", 0)])}, "'a': x must be a tensor"),
        ({"a": Pairs([(X[0], 0), (X[0, :2], 0)])}, r"'a': .*\[3\] at entry 0 and \[2\] at entry 1"),
        (
            {"a": Pairs([(X[0], {1})])},
            "'a': its samples cannot be joined .*set.* a number as label",
        ),
    ],
)
def test_unusable_mapping_is_one_clear_line(source, message):
    with pytest.raises(ValueError, match=message) as caught:
        load_data(source)
    assert "\n" not in str(caught.value)


def test_domains_of_the_users_own_have_names_and_real_inputs():
    with pytest.raises(ValueError, match="text as its name, got None"):
        Domain(None, X, Y)
    with pytest.raises(ValueError, match="'a': x must be real"):
        Domain("a", X + 1j, Y)


def test_data_frame_gives_sorted_domains_and_classes():
    data = load_data(table(), label="ill", domain="site")
    assert (data.names, data.class_names) == (("A", "B"), ("no", "yes"))
    assert data.domains[1].x.tolist() == [[30.0, 1.5], [50.0, 0.5]]
    assert [domain.y.tolist() for domain in data.domains] == [[1], [0, 0]]
    numbers = load_data(table(ill=[10, 2, 10], site=[2021.0, 9, 9]), label="ill", domain="site")
    assert (numbers.names, numbers.class_names) == (("9", "2021"), ("2", "10"))
    flags = load_data(table(age=[True, False, True]), label="ill", domain="site")
    assert flags.domains[0].x[0, 0] == 0


@pytest.mark.parametrize(
    ("frame", "columns", "message"),
    [
        (table(), {"domain": "site"}, "label=.*'age', 'bmi', 'ill', 'site'"),
        (table(), {"label": "ill"}, "domain=.*'age'"),
        (table(), {"label": "il", "domain": "site"}, "column .*'il'. Did you mean 'ill'"),
        (table(), {"label": "ill", "domain": "ill"}, "are the same column 'ill'"),
        (table()[:0], {"label": "ill", "domain": "site"}, "0 rows"),
        (table()[["ill", "site"]], {"label": "ill", "domain": "site"}, "at least one feature"),
        (table(), {"label": "ill", "domain": "site", "ignore": ["agee"]}, "'agee'.*'age'"),
        (table(), {"label": "ill", "domain": "site", "ignore": ["ill"]}, "'ill' is the label"),
        (table(age=[[1], [2], [3]]), {"label": "ill", "domain": "site"}, "'age' holds.*--ignore"),
        (table(age=None), {"label": "ill", "domain": "site"}, "'age' has no values.*--ignore"),
        (table(site="A"), {"label": "ill", "domain": "site"}, "'site' names one domain only, 'A'"),
        (table(site=["A", "", "B"]), {"label": "ill", "domain": "site"}, "1 missing.*row 2"),
        (table(ill=["no", None, "no"]), {"label": "ill", "domain": "site"}, "'ill' has 1 missing"),
        (table(age=[1, np.inf, 2]), {"label": "ill", "domain": "site"}, "'age' has infinite"),
        (table(site=[0.5, 1, 2]), {"label": "ill", "domain": "site"}, "'site' has fractions"),
    ],
)
def test_unusable_data_frame_names_the_column(frame, columns, message):
    with pytest.raises(ValueError, match=message) as caught:
        load_data(frame, **columns)
    assert "\n" not in str(caught.value)


def test_arguments_for_other_sources_are_refused():
    with pytest.raises(ValueError, match="Unknown option of colored-digits 'label'"):
        load_data("colored-digits", label="ill")
    with pytest.raises(ValueError, match="label is for a table"):
        load_data({"a": (X, Y)}, label="ill")
    with pytest.raises(ValueError, match="options is for a name or a path"):
        load_data({"a": (X, Y)}, options={"samples": 3})
    with pytest.raises(TypeError, match="got list"):
        load_data([(X, Y)])
