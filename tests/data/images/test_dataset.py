"""Domains from an index of image files."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from pictures import pictures
from PIL import Image

from riskmatch.data import Sampler, load, split
from riskmatch.data.domain import StoredImages
from riskmatch.data.images.cache import image_domains


@pytest.fixture
def index(tmp_path):
    return pictures(tmp_path / "data")


def test_domains_have_their_images_in_index_order(index, tmp_path):
    data = image_domains(index, image_size=32, cache=tmp_path / "cache")
    assert (data.name, data.names, data.classes) == ("pictures", ("ink", "oil", "photo"), 2)
    assert data.class_names == ("cat", "dog")
    assert data.input_shape == (3, 36, 36)
    row = 0
    for domain in data.domains:
        for x, y in zip(domain.x[:], domain.y, strict=True):
            assert index.domain_names[index.domains[row]] == domain.name
            assert index.labels[row] == y
            assert np.array_equal(
                x.permute(1, 2, 0).numpy(), np.asarray(Image.open(index.file(row)))
            )
            row += 1
    assert row == len(index)


def test_missing_class_shifts_no_label(index, tmp_path):
    ink = image_domains(index, image_size=32, cache=tmp_path / "cache").domains[0]
    assert ink.y.unique().tolist() == [0]


def test_splits_stay_on_disk(index, tmp_path):
    photo = image_domains(index, image_size=32, cache=tmp_path / "cache").domains[2]
    parts = split(photo, trial=0)
    assert all(isinstance(part.x, StoredImages) for part in parts.values())
    rows = [tuple(x.flatten().tolist()) for part in parts.values() for x in part.x[:]]
    assert sorted(rows) == sorted(tuple(x.flatten().tolist()) for x in photo.x[:])


@pytest.mark.parametrize("augment", [True, False])
def test_training_batches_have_the_requested_size(index, tmp_path, augment):
    data = image_domains(index, image_size=32, augment=augment, cache=tmp_path / "cache")
    batch = next(Sampler(data.domains, 4, seed=0, augment=data.augment))
    assert batch.x.shape == (12, 3, 32, 32)
    assert batch.x.dtype == torch.float32
    assert batch.x.amin() >= 0
    assert 0.5 < batch.x.amax() <= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image_size": 0}, "image_size must be a positive integer, got 0"),
        ({"image_size": -8}, "got -8"),
        ({"image_size": "big"}, "got 'big'"),
        ({"image_size": 32.5}, "got 32.5"),
        ({"image_size": True}, "got True"),
        ({"augment": "no"}, "must be true or false, got 'no'"),
        ({"augment": 0}, "must be true or false, got 0"),
    ],
)
def test_invalid_options_are_refused_before_reading_images(index, options, message):
    tasks = []
    with pytest.raises(ValueError, match=re.escape(message)):
        load(str(index.root), options, on_progress=lambda task, done, total: tasks.append(task))
    assert not tasks


def test_relabelling_decodes_nothing(index, tmp_path):
    image_domains(index, image_size=32, cache=tmp_path / "cache")
    tasks = []
    image_domains(
        replace(index, labels=tuple(1 - label for label in index.labels)),
        image_size=32,
        cache=tmp_path / "cache",
        on_progress=lambda name, done, total: tasks.append(name),
    )
    assert "decoding images" not in tasks
