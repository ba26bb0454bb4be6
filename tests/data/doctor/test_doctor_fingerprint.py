from io import BytesIO
from itertools import combinations

import numpy as np
import pytest
from doctored import picture
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from riskmatch.data.doctor import fingerprint
from riskmatch.data.doctor.fingerprint import (
    THUMBNAIL,
    alike,
    close_pairs,
    coarse,
    may_be_alike,
    perceptual_hash,
)

WORDS = st.integers(0, 2**64 - 1)


def saved_anew(image, format, **options):
    file = BytesIO()
    image.save(file, format, **options)
    return Image.open(file).convert("RGB")


def thumbnails(*images):
    prints = [fingerprint.fingerprint(image) for image in images]
    return [np.frombuffer(p[1], np.uint8).reshape(1, *THUMBNAIL) for p in prints]


@given(WORDS, st.lists(st.sets(st.integers(0, 63), max_size=9), max_size=12), st.lists(WORDS))
def test_close_pairs_are_those_that_comparing_all_with_all_finds(word, flips, others):
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
def test_rows_of_one_group_are_not_paired(rows):
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


def test_groups_that_are_joined_on_the_way_are_not_paired_any_more(monkeypatch):
    monkeypatch.setattr(fingerprint, "CHUNK", 1000)
    hashes, groups, given = np.zeros(3000, np.uint64), np.arange(3000), 0
    for pairs in close_pairs(hashes, groups):
        given += len(pairs)
        groups[:] = 0
    assert 0 < given <= 4000


def test_close_pairs_are_the_same_however_many_are_compared_at_a_time(monkeypatch):
    hashes = np.random.default_rng(0).integers(0, 64, 300, dtype=np.uint64)
    whole = np.concatenate(list(close_pairs(hashes, np.arange(300))))
    monkeypatch.setattr(fingerprint, "CHUNK", 100)
    parts = list(close_pairs(hashes, np.arange(300)))
    assert len(parts) > 100
    assert sorted(map(tuple, np.concatenate(parts))) == sorted(map(tuple, whole))


def test_the_hash_is_the_sign_of_the_lowest_cosines():
    grey = np.random.default_rng(0).integers(0, 256, (32, 32))
    fft = pytest.importorskip("scipy.fft")
    spectrum = fft.dctn(grey.astype(float), type=2)
    lowest = [spectrum[u, v] for u in range(8) for v in range(8) if u or v] + [spectrum[8, 0]]
    # The two conventions differ by the factor 2 per axis, which moves no sign about the median.
    middle = np.median(lowest)
    bits = "".join("1" if value > middle else "0" for value in lowest)
    assert perceptual_hash(grey) == int(bits, 2)


@pytest.mark.parametrize(
    "change",
    [
        lambda image: saved_anew(image, "JPEG", quality=40),
        lambda image: saved_anew(image, "WEBP", quality=60),
        lambda image: image.resize((100, 100)),
        lambda image: image.point(lambda value: value * 0.8 + 20),
    ],
    ids=["jpeg", "webp", "scaled", "paler"],
)
def test_a_copy_that_is_saved_scaled_or_made_paler_is_found(change):
    for seed in range(20):
        before = picture(seed, side=224)
        after = change(before)
        (a, _), (b, _) = fingerprint.fingerprint(before), fingerprint.fingerprint(after)
        assert bin(a ^ b).count("1") <= 7
        assert alike(*thumbnails(before, after)).all()


def test_pictures_of_another_colour_or_turned_round_are_not_alike():
    before = picture(0)
    red, green, blue = before.split()
    for other in (
        Image.merge("RGB", (blue, red, green)),
        before.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        picture(1),
    ):
        assert not alike(*thumbnails(before, other)).any()


def test_what_is_coarse_rules_out_no_pictures_that_are_alike():
    rng, ruled_out = np.random.default_rng(0), 0
    for noise in (2, 5, 10, 20):
        before = rng.integers(40, 210, (200, *THUMBNAIL))
        coarse_noise = rng.normal(0, noise, (200, 4, 4, 3)).repeat(4, 1).repeat(4, 2)
        for change in (coarse_noise, rng.normal(0, noise, before.shape)):
            a, b = (side.astype(np.uint8) for side in (before, (before + change).clip(0, 255)))
            likely = may_be_alike(coarse(a), coarse(b))
            assert likely[alike(a, b)].all()
            ruled_out += (~likely).sum()
    assert ruled_out > 200


def test_a_picture_of_one_colour_has_no_fingerprint():
    assert fingerprint.fingerprint(Image.new("RGB", (30, 30), "white")) is None
