import os
import struct
import zlib
from io import BytesIO

import numpy as np
import pytest
from doctored import picture
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from riskmatch.data.doctor.files import check_colours, check_file
from riskmatch.data.doctor.look import look, look_at_all
from riskmatch.data.doctor.signature import HEAD, content_of
from riskmatch.data.images.decode import decode
from riskmatch.data.images.folder import index_folder


def encoded(format, image=None, **options):
    file = BytesIO()
    (image or picture(0)).save(file, format, **options)
    return file.getvalue()


def findings(folder, name, content):
    (folder / name).write_bytes(content)
    (seen,) = look_at_all([folder / name])
    return list(check_file(f"a/cat/{name}", "a", seen))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("1.jpg", encoded("JPEG")),
        ("1.JPEG", encoded("JPEG", progressive=True)),
        ("1.jpg", encoded("JPEG") + b"what a camera left behind"),
        ("1.png", encoded("PNG")),
        ("1.png", encoded("PNG", picture(0).convert("L"))),
        ("1.png", encoded("PNG", picture(0).convert("RGBA"))),
        ("1.gif", encoded("GIF")),
        ("1.bmp", encoded("BMP")),
        ("1.tiff", encoded("TIFF")),
        ("1.webp", encoded("WEBP")),
        ("1.ppm", encoded("PPM")),
    ],
)
def test_whole_images_give_no_finding(tmp_path, name, content):
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
def test_a_cut_file_is_noticed_unless_all_its_pixels_are_there(tmp_path_factory, format, share):
    whole, path = encoded(format), tmp_path_factory.mktemp("cut") / f"1.{format.lower()}"
    path.write_bytes(whole)
    pixels = look(path).pixels
    path.write_bytes(whole[: int(len(whole) * share)])
    after = look(path)
    assert after.cut or after.pixels == pixels


def test_a_png_with_a_flipped_bit_is_damaged(tmp_path):
    content = bytearray(encoded("PNG"))
    content[content.index(b"IDAT") + 20] ^= 1
    (found,) = findings(tmp_path, "1.png", bytes(content))
    assert found.kind == "damaged"
    assert "is a PNG image that cannot be decoded" in found.message


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (b"", "empty", "has zero bytes"),
        (b"<html>404 not found</html>", "no-image", "holds text, no image"),
        (b"%PDF-1.4 \xff", "no-image", "holds a PDF document, no image"),
        (b"\x00\x01\x02\x03", "no-image", "holds bytes of no known image, no image"),
    ],
)
def test_what_is_no_image_is_named_for_what_it_is(tmp_path, content, kind, message):
    (found,) = findings(tmp_path, "1.jpg", content)
    assert (found.kind, found.severity, found.message) == (kind, "fault", message)


def test_a_link_that_leads_nowhere_cannot_be_opened(tmp_path):
    os.symlink(tmp_path / "gone", tmp_path / "1.jpg")
    (found,) = check_file("a/cat/1.jpg", "a", look(tmp_path / "1.jpg"))
    assert (found.kind, found.severity) == ("unreadable", "fault")
    assert "No such file" in found.message


def test_a_png_under_the_name_of_a_jpeg_is_named_with_both(tmp_path):
    (found,) = findings(tmp_path, "1.jpg", encoded("PNG"))
    assert (found.kind, found.severity) == ("wrong-extension", "warning")
    assert found.message == "has the name of a JPEG image, and is a PNG image"
    assert found.cure == "Rename it to a/cat/1.png."


def test_an_image_that_pillow_refuses_for_its_size_is_to_be_scaled_down(tmp_path):
    head = b"IHDR" + struct.pack(">II", 20_000, 20_000) + bytes([8, 0, 0, 0, 0])
    content = bytearray(encoded("PNG"))
    content[12:33] = head + struct.pack(">I", zlib.crc32(head))
    (found,) = findings(tmp_path, "1.png", bytes(content))
    assert (found.kind, found.severity) == ("huge-image", "fault")
    assert found.message.startswith("has more pixels than Pillow decodes: Image size (400000000 ")
    assert found.cure == "Scale it down to sides of at most 8,000 pixels."


def test_a_format_that_pillow_reads_is_an_image_under_whatever_name(tmp_path):
    (found,) = findings(tmp_path, "1.jpg", encoded("TGA"))
    assert (found.kind, found.severity) == ("wrong-extension", "warning")
    assert found.message == "has the name of a JPEG image, and is a TGA image"


def test_extreme_sizes_and_odd_colours_are_warnings(tmp_path):
    made = {
        "tiny.png": (encoded("PNG", picture(0, 8)), "tiny-image", "is only 8×8 pixels"),
        "huge.png": (encoded("PNG", Image.new("L", (8001, 1001))), "huge-image", "8,001×1,001"),
        "strip.png": (encoded("PNG", Image.new("L", (200, 25))), "elongated", "200×25"),
        "ink.jpg": (encoded("JPEG", picture(0).convert("CMYK")), "odd-colours", "is CMYK"),
    }
    for name, (content, kind, message) in made.items():
        (found,) = findings(tmp_path, name, content)
        assert (found.kind, found.severity) == (kind, "warning")
        assert message in found.message


def test_the_same_pixels_in_another_encoding_have_the_same_digest(tmp_path):
    grey = picture(0).convert("L")
    for name, image in {"a.png": grey, "b.bmp": grey, "c.png": grey.convert("RGB")}.items():
        image.save(tmp_path / name)
    looks = [look(path) for path in tmp_path.iterdir()]
    assert len({seen.content for seen in looks}) == 3
    assert len({seen.pixels for seen in looks}) == 1


def ramp(dtype, highest):
    return Image.fromarray(np.linspace(0, highest, 64 * 64).astype(dtype).reshape(64, 64))


@pytest.mark.parametrize(
    "image",
    [
        ramp(np.uint16, 65_535),
        ramp(np.float32, 1),
        Image.merge("LA", (Image.new("L", (64, 64)), ramp(np.uint8, 255))),
        picture(0).convert("P"),
        picture(0).convert("CMYK"),
    ],
    ids=["16 bits", "floats", "ink in alpha", "palette", "CMYK"],
)
def test_what_is_looked_at_is_what_the_loader_decodes(tmp_path, image):
    image.save(tmp_path / "1.tiff")
    side = image.width
    Image.fromarray(decode(tmp_path / "1.tiff", side)).save(tmp_path / "loaded.png")
    assert look(tmp_path / "1.tiff").pixels == look(tmp_path / "loaded.png").pixels


def test_an_image_that_the_loader_cannot_scale_is_a_fault(tmp_path):
    (found,) = findings(tmp_path, "1.tiff", encoded("TIFF", ramp(np.float32, 255)))
    assert (found.kind, found.severity) == ("odd-colours", "fault")
    assert "has colours that the loader refuses (it has floating numbers" in found.message
    assert found.cure == "Save it as 8-bit RGB."


def test_a_deep_image_of_which_the_loader_sees_nothing_is_a_warning(tmp_path):
    assert findings(tmp_path, "1.png", encoded("PNG", ramp(np.uint16, 65_535))) == []
    (found,) = findings(tmp_path, "2.png", encoded("PNG", ramp(np.uint16, 255)))
    assert (found.kind, found.severity) == ("odd-colours", "warning")
    assert found.message == "is more than 8 bits deep (I;16), of which the loader sees one colour"
    assert found.cure == "Scale its values to all of its range."


def test_depth_and_transparency_are_noted_once_for_a_domain(tmp_path):
    ink = Image.merge("LA", (Image.new("L", (64, 64)), ramp(np.uint8, 255)))
    for path, image in {
        "a/cat/1.png": ink,
        "a/cat/2.png": ink.rotate(90),
        "a/cat/3.png": picture(0).convert("RGBA"),
        "b/cat/1.png": ramp(np.uint16, 65_535),
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        image.save(tmp_path / path)
    index = index_folder(tmp_path)
    found = list(check_colours(index, list(look_at_all([tmp_path / p for p in index.paths]))))
    assert [(f.kind, f.severity, f.place, f.message) for f in found] == [
        (
            "transparency",
            "note",
            "a",
            "has images that are transparent in part (2, the first a/cat/1.png), laid on white",
        ),
        (
            "depth",
            "note",
            "b",
            "has images of more than 8 bits (1, the first b/cat/1.png), scaled by their depth",
        ),
    ]
    assert all(f.cure for f in found)


@pytest.mark.parametrize(
    "text", ["BMW cars, by model\n", "P1 notes of the first meeting", "P6\nparts in stock: 12"]
)
def test_text_that_begins_like_an_image_is_text(text):
    assert content_of(text.encode()) == "text"


@pytest.mark.parametrize("format", ["BMP", "PPM", "GIF", "JPEG", "PNG", "TIFF", "WEBP"])
def test_images_are_known_by_their_first_bytes(format):
    assert content_of(encoded(format)[:HEAD]) == format


@pytest.mark.parametrize("comment", ["# made by hand\n", "#\n# twice\n"])
def test_a_pixmap_may_have_a_comment(comment):
    assert content_of(f"P2\n{comment}3 2\n255\n0 0 0".encode()) == "PPM"


def test_the_message_on_a_damaged_head_is_the_same_every_time(tmp_path):
    content = encoded("JPEG")[:3] + bytes(400) + encoded("JPEG")[-2:]
    (found,) = findings(tmp_path, "1.jpg", content)
    assert found.kind == "damaged"
    assert found.message == "is a JPEG image that cannot be decoded (its head makes no sense)"
