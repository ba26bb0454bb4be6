import io

import numpy as np
import pytest
from PIL import Image

from riskmatch.data.images.decode import ImageError, decode

COLOURS = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [90, 90, 90]]], dtype=np.uint8)


def saved(path, image, **options):
    image.save(path, **options)
    return path


def test_an_image_of_the_right_size_keeps_its_pixels(tmp_path):
    path = saved(tmp_path / "a.png", Image.fromarray(COLOURS))
    assert np.array_equal(decode(path, 2), COLOURS)


def test_palettes_greys_and_transparency_become_plain_colours(tmp_path):
    image = Image.fromarray(COLOURS)
    palette = saved(tmp_path / "p.png", image.quantize(4), transparency=b"\x00\x80\xff\x20")
    alpha = image.copy()
    alpha.putalpha(7)
    clear = saved(tmp_path / "a.png", alpha)
    assert np.array_equal(decode(palette, 2), COLOURS)
    assert np.array_equal(decode(clear, 2), COLOURS)
    grey = saved(tmp_path / "g.png", Image.fromarray(COLOURS[:, :, 0]))
    assert np.array_equal(decode(grey, 2), COLOURS[:, :, :1].repeat(3, 2))


def test_the_cameras_note_on_orientation_is_left_alone(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown turned by a quarter
    path = saved(tmp_path / "a.png", Image.fromarray(COLOURS), exif=exif)
    assert np.array_equal(decode(path, 2), COLOURS)


def test_a_larger_image_is_averaged_not_sampled(tmp_path):
    """Halving by an antialiased triangle: weights 1/8, 3/8, 3/8, 1/8, cut off at the border."""
    row = np.array([0, 0, 0, 200, 0, 0, 0, 0], dtype=np.uint8)
    path = saved(tmp_path / "a.png", Image.fromarray(np.tile(row[:, None], (1, 8))))
    expected = np.array([0, 200 * 3 / 8, 200 / 8, 0])
    assert np.abs(decode(path, 4)[:, :, 0] - expected[:, None]).max() <= 1


def test_a_broken_file_is_named_with_its_cure(tmp_path):
    whole = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(
        whole, "JPEG"
    )
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(whole.getvalue()[:2000])
    with pytest.raises(
        ImageError, match=r"cut\.jpg cannot be read .*truncated.*riskmatch data doc"
    ):
        decode(cut, 64)
    text = tmp_path / "text.jpg"
    text.write_text("not an image")
    with pytest.raises(ImageError, match=r"text\.jpg cannot be read .*no known image format"):
        decode(text, 64)
    with pytest.raises(FileNotFoundError, match=r"absent\.jpg"):
        decode(tmp_path / "absent.jpg", 64)


def test_a_broken_png_is_named_too(tmp_path):
    path = saved(tmp_path / "a.png", Image.fromarray(COLOURS))
    data = bytearray(path.read_bytes())
    data[data.index(b"IDAT") + 6] ^= 255
    path.write_bytes(bytes(data))
    with pytest.raises(ImageError, match=r"a\.png cannot be read as an image"):
        decode(path, 2)
