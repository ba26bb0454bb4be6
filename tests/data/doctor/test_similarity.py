from io import BytesIO
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from random_images import random_image

from riskmatch.data.doctor import duplicates
from riskmatch.data.doctor.duplicates import alike, close_pairs
from riskmatch.data.doctor.files import THUMBNAIL, perceptual_hash, signature

WORDS = st.integers(0, 2**64 - 1)


def saved_again(image, format, **options):
    file = BytesIO()
    image.save(file, format, **options)
    return Image.open(file).convert("RGB")


def thumbnails(*images):
    signatures = [signature(image) for image in images]
    return [np.frombuffer(p[1], np.uint8).reshape(1, *THUMBNAIL) for p in signatures]


@given(WORDS, st.lists(st.sets(st.integers(0, 63), max_size=9), max_size=12), st.lists(WORDS))
def test_close_pairs_match_brute_force(word, flips, others):
    hashes = [word ^ sum(1 << bit for bit in bits) for bits in flips] + others + [word]
    found = [
        tuple(pair)
        for part in close_pairs(np.array(hashes, np.uint64), np.arange(len(hashes)))
        for pair in part
    ]
    close = [
        (i, j)
        for (i, a), (j, b) in combinations(enumerate(hashes), 2)
        if bin(a ^ b).count("1") <= 7
    ]
    assert sorted(found) == close


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(0, 3)), min_size=1, max_size=30))
def test_close_pairs_skip_rows_of_one_group(rows):
    hashes, groups = (np.array(column) for column in zip(*rows, strict=True))
    parts = close_pairs(hashes.astype(np.uint64), groups)
    found = [tuple(pair) for part in parts for pair in part]
    everything = combinations(range(len(rows)), 2)
    close = [
        (i, j)
        for i, j in everything
        if groups[i] != groups[j] and int(hashes[i] ^ hashes[j]).bit_count() <= 7
    ]
    assert sorted(found) == close


def test_close_pairs_skip_groups_joined_meanwhile(monkeypatch):
    monkeypatch.setattr(duplicates, "HASHES", 1000)
    hashes, groups, given = np.zeros(3000, np.uint64), np.arange(3000), 0
    for pairs in close_pairs(hashes, groups):
        given += len(pairs)
        groups[:] = 0
    assert 0 < given <= 4000


def test_close_pairs_do_not_depend_on_the_chunk_size(monkeypatch):
    hashes = np.random.default_rng(0).integers(0, 64, 300, dtype=np.uint64)
    whole = np.concatenate(list(close_pairs(hashes, np.arange(300))))
    monkeypatch.setattr(duplicates, "HASHES", 100)
    parts = list(close_pairs(hashes, np.arange(300)))
    assert len(parts) > 100
    assert sorted(map(tuple, np.concatenate(parts))) == sorted(map(tuple, whole))


def test_perceptual_hash_matches_the_definition_of_the_cosine_transform():
    grey = np.random.default_rng(0).integers(0, 256, (32, 32))
    cosines = np.cos(np.arange(9)[:, None] * (2 * np.arange(32) + 1) * np.pi / 64)
    spectrum = cosines @ grey @ cosines.T
    lowest = [spectrum[u, v] for u in range(8) for v in range(8) if u or v] + [spectrum[8, 0]]
    middle = np.median(lowest)
    bits = "".join("1" if value > middle else "0" for value in lowest)
    assert perceptual_hash(grey) == int(bits, 2)


@pytest.mark.parametrize(
    "change",
    [
        lambda image: saved_again(image, "JPEG", quality=40),
        lambda image: saved_again(image, "WEBP", quality=60),
        lambda image: image.resize((100, 100)),
        lambda image: image.point(lambda value: value * 0.8 + 20),
    ],
    ids=["jpeg", "webp", "scaled", "paler"],
)
def test_re_encoded_scaled_or_paler_copy_is_alike(change):
    for seed in range(20):
        before = random_image(seed, side=224)
        after = change(before)
        (a, _), (b, _) = signature(before), signature(after)
        assert bin(a ^ b).count("1") <= 7
        assert alike(*thumbnails(before, after)).all()


def test_recoloured_or_flipped_image_is_not_alike():
    before = random_image(0)
    red, green, blue = before.split()
    for other in (
        Image.merge("RGB", (blue, red, green)),
        before.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        random_image(1),
    ):
        assert not alike(*thumbnails(before, other)).any()


def test_image_of_one_colour_has_no_signature():
    assert signature(Image.new("RGB", (30, 30), "white")) is None
