"""From an index of files to the domains that a run trains on."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from pictures import pictures
from PIL import Image

from riskmatch.data import Sampler, split
from riskmatch.data.images.dataset import image_domains
from riskmatch.data.stored import Stored


@pytest.fixture
def index(tmp_path):
    return pictures(tmp_path / "data")


def test_each_domain_has_its_images_in_the_order_of_the_index(index, tmp_path):
    found = image_domains(index, image_size=32, cache=tmp_path / "cache")
    assert (found.name, found.names, found.classes) == ("pictures", ("ink", "oil", "photo"), 2)
    assert found.class_names == ("cat", "dog")
    assert found.input_shape == (3, 36, 36)
    row = 0
    for domain in found.domains:
        for x, y in zip(domain.x[:], domain.y, strict=True):
            assert index.domain_names[index.domains[row]] == domain.name
            assert index.labels[row] == y
            assert np.array_equal(
                x.permute(1, 2, 0).numpy(), np.asarray(Image.open(index.file(row)))
            )
            row += 1
    assert row == len(index)


def test_a_class_that_a_domain_lacks_shifts_no_label(index, tmp_path):
    ink = image_domains(index, image_size=32, cache=tmp_path / "cache").domains[0]
    assert ink.y.unique().tolist() == [0]


def test_splits_stay_on_the_disk(index, tmp_path):
    photo = image_domains(index, image_size=32, cache=tmp_path / "cache").domains[2]
    parts = split(photo, trial=0)
    assert all(isinstance(part.x, Stored) for part in parts.values())
    rows = [tuple(x.flatten().tolist()) for part in parts.values() for x in part.x[:]]
    assert sorted(rows) == sorted(tuple(x.flatten().tolist()) for x in photo.x[:])


@pytest.mark.parametrize("augment", [True, False])
def test_training_sees_numbers_of_the_size_asked_for(index, tmp_path, augment):
    found = image_domains(index, image_size=32, augment=augment, cache=tmp_path / "cache")
    batch = next(Sampler(found.domains, 4, seed=0, augment=found.augment))
    assert batch.x.shape == (12, 3, 32, 32)
    assert batch.x.dtype == torch.float32
    assert batch.x.amin() >= 0
    assert 0.5 < batch.x.amax() <= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image_size": 0}, "Option image_size: 0 is not a whole number above 0."),
        ({"image_size": -8}, "Option image_size: -8 is not a whole number above 0."),
        ({"image_size": "big"}, "Option image_size: 'big' is not a whole number above 0."),
        ({"image_size": 32.5}, "Option image_size: 32.5 is not a whole number above 0."),
        ({"image_size": True}, "Option image_size: True is not a whole number above 0."),
        ({"augment": "no"}, "Option augment: 'no' is not true or false."),
        ({"augment": 0}, "Option augment: 0 is not true or false."),
    ],
)
def test_a_value_that_an_option_cannot_take_is_refused_before_any_image_is_read(
    index, tmp_path, options, message
):
    with pytest.raises(ValueError, match=re.escape(message)):
        image_domains(index, cache=tmp_path / "cache", **options)
    assert not (tmp_path / "cache").exists()


def test_relabelling_decodes_nothing_anew(index, tmp_path):
    image_domains(index, image_size=32, cache=tmp_path / "cache")
    told = []
    image_domains(
        replace(index, labels=tuple(1 - label for label in index.labels)),
        image_size=32,
        cache=tmp_path / "cache",
        on_progress=lambda name, done, total: told.append(name),
    )
    assert "decoding images" not in told
