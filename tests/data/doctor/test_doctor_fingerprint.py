from io import BytesIO
from itertools import combinations

import numpy as np
import pytest
from doctored import picture
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from riskmatch.data.doctor import fingerprint
from riskmatch.data.doctor.fingerprint import THUMBNAIL, alike, close_pairs, perceptual_hash

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
    found = [tuple(pair) for part in close_pairs(np.array(hashes, np.uint64)) for pair in part]
    close = [
        (i, j)
        for (i, a), (j, b) in combinations(enumerate(hashes), 2)
        if bin(a ^ b).count("1") <= 7
    ]
    assert sorted(found) == close


def test_close_pairs_are_the_same_however_many_are_compared_at_a_time(monkeypatch):
    hashes = np.random.default_rng(0).integers(0, 64, 300, dtype=np.uint64)
    whole = np.concatenate(list(close_pairs(hashes)))
    monkeypatch.setattr(fingerprint, "CHUNK", 100)
    parts = list(close_pairs(hashes))
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


def test_a_picture_of_one_colour_has_no_fingerprint():
    assert fingerprint.fingerprint(Image.new("RGB", (30, 30), "white")) is None
