"""Data sets of Hugging Face as domains."""

import numpy as np
import pytest
import torch

from riskmatch.data import load_data
from riskmatch.data.domain import NamedTensors

datasets = pytest.importorskip("datasets")


def texts(n, seed):
    rng = np.random.default_rng(seed)
    columns = {
        "text": ["a word"] * n,
        "input_ids": rng.integers(0, 50, (n, 6)).tolist(),
        "attention_mask": [[1] * 6] * n,
        "label": rng.integers(0, 2, n).tolist(),
    }
    labels = datasets.ClassLabel(names=["neg", "pos"])
    return datasets.Dataset.from_dict(columns).cast_column("label", labels)


def test_columns_of_numbers_are_the_keyword_arguments_of_the_network():
    data = load_data(datasets.DatasetDict(books=texts(8, 0), dvd=texts(5, 1)))
    assert (data.names, data.class_names) == (("books", "dvd"), ("neg", "pos"))
    x = data.domains[1].x
    assert isinstance(x, NamedTensors)
    assert {name: (tuple(t.shape), t.dtype) for name, t in x.tensors.items()} == {
        "input_ids": ((5, 6), torch.int64),
        "attention_mask": ((5, 6), torch.int64),
    }
    assert data.domains[1].y.tolist() == texts(5, 1)["label"][:]


def test_a_single_column_of_floats_is_the_input():
    made = datasets.Dataset.from_dict({"x": [[0.5, 1.0]] * 4, "labels": [0, 1, 0, 2]})
    data = load_data({"A": made, "B": made})
    assert (data.input_shape, data.classes) == ((2,), 3)


@pytest.mark.parametrize(
    ("columns", "fact"),
    [({"x": [[1.0]]}, "column label"), ({"text": ["a"], "label": [0]}, "columns of numbers")],
)
def test_what_is_missing_is_named(columns, fact):
    with pytest.raises(ValueError, match=fact):
        load_data({"A": datasets.Dataset.from_dict(columns)})


def test_a_data_set_with_a_column_of_the_domain_is_a_table():
    columns = {"age": [3, 4, 5, 6], "ill": ["no", "yes"] * 2, "site": list("AABB")}
    data = load_data(datasets.Dataset.from_dict(columns), label="ill", domain="site")
    assert (data.names, data.input_shape) == (("A", "B"), (1,))
