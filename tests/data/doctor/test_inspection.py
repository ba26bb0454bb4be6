import os
import struct
import zlib
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from random_images import random_image

from riskmatch.data.doctor.files import (
    HEADER,
    check_file,
    detect_format,
    inspect_file,
    inspect_files,
)
from riskmatch.data.images.decode import decode


def encoded(format, image=None, **options):
    file = BytesIO()
    (image or random_image(0)).save(file, format, **options)
    return file.getvalue()


def findings(folder, name, content):
    (folder / name).write_bytes(content)
    (seen,) = inspect_files([folder / name])
    return list(check_file(f"a/cat/{name}", "a", seen))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("1.jpg", encoded("JPEG")),
        ("1.JPEG", encoded("JPEG", progressive=True)),
        ("1.jpg", encoded("JPEG") + b"what a camera left behind"),
        ("1.png", encoded("PNG")),
        ("1.png", encoded("PNG", random_image(0).convert("L"))),
        ("1.png", encoded("PNG", random_image(0).convert("RGBA"))),
        ("1.gif", encoded("GIF")),
        ("1.bmp", encoded("BMP")),
        ("1.tiff", encoded("TIFF")),
        ("1.webp", encoded("WEBP")),
        ("1.ppm", encoded("PPM")),
    ],
)
def test_intact_image_gives_no_finding(tmp_path, name, content):
    assert findings(tmp_path, name, content) == []


@pytest.mark.parametrize("format", ["JPEG", "PNG", "GIF", "BMP", "TIFF"])
def test_half_an_image_is_truncated(tmp_path, format):
    content = encoded(format)
    (found,) = findings(tmp_path, f"1.{format.lower()}", content[: len(content) // 2])
    assert (found.kind, found.severity, found.path) == (
        "truncated",
        "fault",
        f"a/cat/1.{format.lower()}",
    )
    assert found.cure == "Get the file again, or delete it."


@given(st.sampled_from(["JPEG", "PNG"]), st.floats(0.05, 1, exclude_max=True))
def test_truncation_is_reported_unless_all_pixels_decode(tmp_path_factory, format, share):
    whole, path = encoded(format), tmp_path_factory.mktemp("cut") / f"1.{format.lower()}"
    path.write_bytes(whole)
    pixels = inspect_file(path).pixels
    path.write_bytes(whole[: int(len(whole) * share)])
    after = inspect_file(path)
    assert after.problem.kind == "truncated" if after.problem else after.pixels == pixels


def test_png_with_flipped_bit_is_damaged(tmp_path):
    content = bytearray(encoded("PNG"))
    content[content.index(b"IDAT") + 20] ^= 1
    (found,) = findings(tmp_path, "1.png", bytes(content))
    assert found.kind == "damaged"
    assert "is a PNG image that cannot be decoded" in found.message


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (b"", "empty", "zero bytes"),
        (b"<html>404 not found</html>", "no-image", "text"),
        (b"%PDF-1.4 \xff", "no-image", "a PDF document"),
        (b"\x00\x01\x02\x03", "no-image", "unknown data"),
    ],
)
def test_other_content_is_described(tmp_path, content, kind, message):
    (found,) = findings(tmp_path, "1.jpg", content)
    assert (found.kind, found.severity) == (kind, "fault")
    assert message in found.message


def test_broken_link_is_unreadable(tmp_path):
    os.symlink(tmp_path / "gone", tmp_path / "1.jpg")
    (found,) = check_file("a/cat/1.jpg", "a", inspect_file(tmp_path / "1.jpg"))
    assert (found.kind, found.severity) == ("unreadable", "fault")
    assert "No such file" in found.message


def test_png_with_jpeg_extension(tmp_path):
    (found,) = findings(tmp_path, "1.jpg", encoded("PNG"))
    assert (found.kind, found.severity) == ("wrong-extension", "warning")
    assert "JPEG" in found.message
    assert "PNG" in found.message
    assert found.cure == "Rename it to a/cat/1.png."


def test_image_too_large_for_pillow(tmp_path):
    head = b"IHDR" + struct.pack(">II", 20_000, 20_000) + bytes([8, 0, 0, 0, 0])
    content = bytearray(encoded("PNG"))
    content[12:33] = head + struct.pack(">I", zlib.crc32(head))
    (found,) = findings(tmp_path, "1.png", bytes(content))
    assert (found.kind, found.severity) == ("huge-image", "fault")
    assert found.message.startswith("has more pixels than Pillow decodes: Image size (400000000 ")
    assert found.cure == "Scale it down to sides of at most 8,000 pixels."


def test_rare_format_with_jpeg_extension_is_no_image(tmp_path):
    (found,) = findings(tmp_path, "1.jpg", encoded("TGA"))
    assert (found.kind, found.severity) == ("no-image", "fault")


def test_extreme_sizes_and_cmyk_are_warnings(tmp_path):
    made = {
        "tiny.png": (encoded("PNG", random_image(0, 8)), "tiny-image", "is only 8×8 pixels"),
        "huge.png": (encoded("PNG", Image.new("L", (8001, 1001))), "huge-image", "8,001×1,001"),
        "strip.png": (encoded("PNG", Image.new("L", (200, 25))), "elongated", "200×25"),
        "ink.jpg": (encoded("JPEG", random_image(0).convert("CMYK")), "odd-colours", "is CMYK"),
    }
    for name, (content, kind, message) in made.items():
        (found,) = findings(tmp_path, name, content)
        assert (found.kind, found.severity) == (kind, "warning")
        assert message in found.message


def test_pixel_digest_does_not_depend_on_the_encoding(tmp_path):
    grey = random_image(0).convert("L")
    for name, image in {"a.png": grey, "b.bmp": grey, "c.png": grey.convert("RGB")}.items():
        image.save(tmp_path / name)
    files = [inspect_file(path) for path in tmp_path.iterdir()]
    assert len({seen.content for seen in files}) == 3
    assert len({seen.pixels for seen in files}) == 1


def ramp(dtype, highest):
    return Image.fromarray(np.linspace(0, highest, 64 * 64).astype(dtype).reshape(64, 64))


@pytest.mark.parametrize(
    "image",
    [
        ramp(np.uint16, 65_535),
        ramp(np.float32, 1),
        Image.merge("LA", (Image.new("L", (64, 64)), ramp(np.uint8, 255))),
        random_image(0).convert("P"),
        random_image(0).convert("CMYK"),
    ],
    ids=["16 bits", "floats", "ink in alpha", "palette", "CMYK"],
)
def test_inspection_uses_the_pixels_of_the_loader(tmp_path, image):
    image.save(tmp_path / "1.tiff")
    side = image.width
    Image.fromarray(decode(tmp_path / "1.tiff", side)).save(tmp_path / "loaded.png")
    assert inspect_file(tmp_path / "1.tiff").pixels == inspect_file(tmp_path / "loaded.png").pixels


def test_image_with_unknown_white_is_a_fault(tmp_path):
    (found,) = findings(tmp_path, "1.tiff", encoded("TIFF", ramp(np.float32, 255)))
    assert (found.kind, found.severity) == ("odd-colours", "fault")
    assert "floating-point values below 0 or above 1" in found.message
    assert found.cure == "Save it as 8-bit RGB."


def test_deep_image_that_becomes_one_colour_is_a_warning(tmp_path):
    assert findings(tmp_path, "1.png", encoded("PNG", ramp(np.uint16, 65_535))) == []
    (found,) = findings(tmp_path, "2.png", encoded("PNG", ramp(np.uint16, 255)))
    assert (found.kind, found.severity) == ("odd-colours", "warning")
    assert "more than 8 bits (I;16)" in found.message
    assert found.cure == "Scale its values to their full range."


@pytest.mark.parametrize(
    "text", ["BMW cars, by model\n", "P1 notes of the first meeting", "P6\nparts in stock: 12"]
)
def test_text_that_starts_like_an_image_is_text(text):
    assert detect_format(text.encode()) == "text"


@pytest.mark.parametrize("format", ["BMP", "PPM", "GIF", "JPEG", "PNG", "TIFF", "WEBP"])
def test_formats_are_detected_by_header(format):
    assert detect_format(encoded(format)[:HEADER]) == format


@pytest.mark.parametrize("comment", ["# made by hand\n", "#\n# twice\n"])
def test_pixmap_with_comment_is_detected(comment):
    assert detect_format(f"P2\n{comment}3 2\n255\n0 0 0".encode()) == "PPM"


def test_message_on_invalid_header_is_deterministic(tmp_path):
    content = encoded("JPEG")[:3] + bytes(400) + encoded("JPEG")[-2:]
    (found,) = findings(tmp_path, "1.jpg", content)
    assert found.kind == "damaged"
    assert "header is invalid" in found.message
