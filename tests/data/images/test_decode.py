import io

import numpy as np
import pytest
from PIL import Image

from riskmatch.data.images.decode import ImageError, decode

COLOURS = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [90, 90, 90]]], dtype=np.uint8)


def saved(path, image, **options):
    image.save(path, **options)
    return path


def test_image_of_the_right_size_keeps_its_pixels(tmp_path):
    path = saved(tmp_path / "a.png", Image.fromarray(COLOURS))
    assert np.array_equal(decode(path, 2), COLOURS)


def test_palette_grey_and_cmyk_become_rgb(tmp_path):
    image = Image.fromarray(COLOURS)
    palette = saved(tmp_path / "p.png", image.quantize(4))
    assert np.array_equal(decode(palette, 2), COLOURS)
    grey = saved(tmp_path / "g.png", Image.fromarray(COLOURS[:, :, 0]))
    assert np.array_equal(decode(grey, 2), COLOURS[:, :, :1].repeat(3, 2))
    inks = image.convert("CMYK")
    printed = saved(tmp_path / "c.tif", inks)
    assert np.array_equal(decode(printed, 2), np.asarray(inks.convert("RGB")))


def transparent(mode):
    """The colours, with the second pixel transparent and the third half transparent."""
    image = Image.fromarray(COLOURS).convert("L" if mode == "LA" else "RGB")
    image.putalpha(Image.fromarray(np.array([[255, 0], [128, 255]], np.uint8)))
    return image


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparency_is_composited_on_white(tmp_path, mode):
    image = transparent(mode)
    plain = np.asarray(image.convert("RGB")).astype(int)
    plain[0, 1] = 255
    plain[1, 0] = np.rint((plain[1, 0] * 128 + 255 * 127) / 255)
    assert np.abs(decode(saved(tmp_path / "a.png", image), 2) - plain).max() <= 1
    assert np.array_equal(decode(tmp_path / "a.png", 2)[0, 0], plain[0, 0])


def test_transparent_colour_is_composited_on_white(tmp_path):
    image = Image.fromarray(COLOURS)
    expected = COLOURS.copy()
    expected[0, 1] = 255
    keyed = saved(tmp_path / "k.png", image, transparency=(0, 255, 0))
    assert np.array_equal(decode(keyed, 2), expected)
    palette = image.quantize(4)
    entries = np.asarray(palette)
    alpha = bytearray(b"\xff" * 4)
    alpha[entries[0, 1]] = 0
    whole = saved(tmp_path / "p.png", palette, transparency=bytes(alpha))
    assert np.array_equal(decode(whole, 2), expected)
    single = saved(tmp_path / "p.gif", palette, transparency=int(entries[0, 1]))
    assert np.array_equal(decode(single, 2), expected)


def test_drawing_in_alpha_only_is_visible(tmp_path):
    pixels = np.zeros((4, 4, 4), np.uint8)
    pixels[1:3, 1:3, 3] = 255
    seen = decode(saved(tmp_path / "a.png", Image.fromarray(pixels)), 4)
    assert np.array_equal(seen, np.repeat(255 - pixels[:, :, 3:], 3, 2))


DEEP = np.linspace(0, 65535, 64).reshape(8, 8).astype(np.uint16)


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.pgm"])
def test_sixteen_bits_keep_the_upper_eight(tmp_path, name):
    seen = decode(saved(tmp_path / name, Image.fromarray(DEEP)), 8)
    assert np.array_equal(seen, np.repeat((DEEP >> 8)[:, :, None], 3, 2))


def test_sixteen_bits_big_endian(tmp_path):
    image = Image.frombytes("I;16B", (8, 8), DEEP.astype(">u2").tobytes())
    seen = decode(saved(tmp_path / "a.tif", image), 8)
    assert np.array_equal(seen[:, :, 0], DEEP >> 8)


def test_floating_point_one_is_white(tmp_path):
    numbers = np.linspace(0, 1, 256, dtype=np.float32).reshape(16, 16)
    seen = decode(saved(tmp_path / "a.tif", Image.fromarray(numbers)), 16)
    assert np.array_equal(seen[:, :, 0].flatten(), np.arange(256))


@pytest.mark.parametrize(
    ("pixels", "reason"),
    [
        (
            DEEP.astype(np.float32),
            r"floating-point values below 0 .*save it with 8 or 16",
        ),
        (np.full((8, 8), np.nan, np.float32), r"floating-point values below 0 or above 1"),
        (DEEP.astype(np.int32), r"32 bits per pixel, so the value of white is unknown; save it"),
    ],
)
def test_values_without_known_white_are_refused(tmp_path, pixels, reason):
    path = saved(tmp_path / "a.tif", Image.fromarray(pixels))
    with pytest.raises(ImageError, match=rf"a\.tif cannot be read as an image \(.*{reason}"):
        decode(path, 8)


def test_exif_orientation_is_ignored(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # rotate by 90 degrees for display
    path = saved(tmp_path / "a.png", Image.fromarray(COLOURS), exif=exif)
    assert np.array_equal(decode(path, 2), COLOURS)


def test_larger_image_is_antialiased(tmp_path):
    """Antialiased bilinear halving has the weights 1/8, 3/8, 3/8, 1/8, cut off at the border."""
    row = np.array([0, 0, 0, 200, 0, 0, 0, 0], dtype=np.uint8)
    path = saved(tmp_path / "a.png", Image.fromarray(np.tile(row[:, None], (1, 8))))
    expected = np.array([0, 200 * 3 / 8, 200 / 8, 0])
    assert np.abs(decode(path, 4)[:, :, 0] - expected[:, None]).max() <= 1


def test_broken_file_is_named_with_the_cure(tmp_path):
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
    with pytest.raises(ImageError, match=r"text\.jpg cannot be read .*unknown image format"):
        decode(text, 64)
    with pytest.raises(FileNotFoundError, match=r"absent\.jpg"):
        decode(tmp_path / "absent.jpg", 64)


def test_broken_png_is_named(tmp_path):
    path = saved(tmp_path / "a.png", Image.fromarray(COLOURS))
    data = bytearray(path.read_bytes())
    data[data.index(b"IDAT") + 6] ^= 255
    path.write_bytes(bytes(data))
    with pytest.raises(ImageError, match=r"a\.png cannot be read as an image"):
        decode(path, 2)
