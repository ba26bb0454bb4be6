"""Files that pass for images or archives: they start no program, block nothing, fill no disk."""

import gzip
import io
import os

import pytest
from mirror import Mirror, serving
from PIL import EpsImagePlugin, Image
from trees import tarred

from riskmatch.data import mnist
from riskmatch.data.doctor import examine
from riskmatch.data.doctor.contact_sheet import contact_sheet
from riskmatch.data.doctor.files import inspect_file
from riskmatch.data.fetch import FetchError, fetch
from riskmatch.data.images import decode as decode_module
from riskmatch.data.images.archives import extract
from riskmatch.data.images.benchmarks import BENCHMARKS
from riskmatch.data.images.cache import cached_file
from riskmatch.data.images.decode import ImageError, decode
from riskmatch.data.images.index import index_folder

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"


@pytest.fixture
def pictures(tmp_path):
    """A tree of two domains and classes; returns its folder."""
    for domain in "ab":
        for label in ("cat", "dog"):
            folder = tmp_path / "pets" / domain / label
            folder.mkdir(parents=True)
            Image.new("RGB", (20, 20), "red").save(folder / "1.png")
    return tmp_path / "pets"


def test_postscript_starts_no_program(pictures, tmp_path, monkeypatch):
    program, started = tmp_path / "bin" / "gs", tmp_path / "started"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {started}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)
    file = pictures / "a" / "cat" / "0.png"
    file.write_bytes(EPS)
    with pytest.raises(ImageError, match=r"a/cat/0\.png cannot be read as an image"):
        decode(file, 8)
    kinds = {finding.path: finding.kind for finding in examine(pictures).findings}
    assert kinds["a/cat/0.png"] == "no-image"
    contact_sheet(index_folder(pictures), tmp_path / "sheet.png")
    assert not started.exists()


@pytest.mark.parametrize("linked", [False, True])
def test_pipe_with_the_name_of_an_image_does_not_block(pictures, tmp_path, linked):
    file = pictures / "a" / "cat" / "0.png"
    os.mkfifo(tmp_path / "pipe")
    if linked:
        file.symlink_to(tmp_path / "pipe")
    else:
        os.mkfifo(file)
    with pytest.raises(ImageError, match=r"0\.png .*pipe or a device"):
        decode(file, 8)
    with pytest.raises(OSError, match="pipe or a device"):
        cached_file(pictures, ["a/cat/0.png"], 8, tmp_path / "cache")
    (pictures / "a" / "notes").symlink_to(tmp_path / "pipe")
    kinds = {f.path: f.kind for f in examine(pictures).findings if f.path}
    assert kinds["a/cat/0.png"] == "unreadable"
    assert kinds["a/notes"] == "stray"


def test_pixels_are_limited_whatever_other_code_sets(pictures, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    monkeypatch.setattr(decode_module, "MAX_PIXELS", 399)
    file = pictures / "a" / "cat" / "1.png"
    with pytest.raises(ImageError, match="20×20 pixels"):
        decode(file, 8)
    assert "20×20 pixels" in inspect_file(file).error


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_archive_of_many_empty_files_is_refused(tmp_path, mode):
    packed = tmp_path / "set.tar"
    packed.write_bytes(tarred({f"a/cat/{n}.jpg": b"" for n in range(5_000)}, mode))
    with pytest.raises(ValueError, match="holds more than"):
        extract(packed, tmp_path / "out")
    assert sum(len(files) for _, _, files in os.walk(tmp_path / "out")) < 5_000


def test_download_stops_at_its_limit(tmp_path):
    content = bytes(300_000)
    with serving(Mirror({"f.bin": content}), Mirror({"f.bin": content})) as urls:
        addresses = [f"{url}/f.bin" for url in urls]
        with pytest.raises(FetchError, match="more than 1,000 bytes"):
            fetch(addresses, "f.bin", tmp_path, lambda path: None, limit=1_000)
    assert list(tmp_path.iterdir()) == []


def test_mnist_is_decompressed_up_to_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr(mnist, "MAX_BYTES", 10_000)
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb") as file:
        file.write(bytes(10_001))
    (tmp_path / "f.gz").write_bytes(out.getvalue())
    with pytest.raises(ValueError, match="more than 10,000 bytes"):
        mnist.read_verified(tmp_path / "f.gz", "0" * 32)


def test_no_benchmark_is_fetched_in_plain_text_without_a_checksum():
    downloads = [
        file for data in BENCHMARKS.values() for origin in data.origins for file in origin.files
    ]
    assert [d.name for d in downloads if not d.checksum and "http://" in "".join(d.urls)] == []
