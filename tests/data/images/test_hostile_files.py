"""Files that pass for images or archives: they start no program, block nothing, fill no disk."""

import gzip
import io
import os
import shlex
import socket
from dataclasses import replace

import pytest
from mirror import Mirror, serving
from PIL import EpsImagePlugin, Image
from trees import pacs_files, small_pacs, tarred, zipped

from riskmatch import load_data
from riskmatch.cli import main
from riskmatch.data import mnist
from riskmatch.data.doctor import examine_data
from riskmatch.data.doctor.files import inspect_file
from riskmatch.data.doctor.findings import contact_sheet
from riskmatch.data.fetch import FetchError, fetch
from riskmatch.data.images import decode as decode_module
from riskmatch.data.images.benchmark import BENCHMARKS, Download, Origin
from riskmatch.data.images.cache import cached_file
from riskmatch.data.images.decode import ImageError, decode
from riskmatch.data.images.get import get_benchmark
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
    kinds = {finding.path: finding.kind for finding in examine_data(pictures).findings}
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
    with pytest.raises(ImageError, match=r"0\.png .*a pipe, a socket or a device"):
        decode(file, 8)
    with pytest.raises(OSError, match="a pipe, a socket or a device"):
        cached_file(pictures, ["a/cat/0.png"], 8, tmp_path / "cache")
    (pictures / "a" / "notes").symlink_to(tmp_path / "pipe")
    kinds = {f.path: f.kind for f in examine_data(pictures).findings if f.path}
    assert kinds["a/cat/0.png"] == "unreadable"
    assert kinds["a/notes"] == "stray"


@pytest.mark.parametrize("name", ["m.csv", "m.jsonl", "m.parquet", "m.npz", "1.png", "pets"])
@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_data_set_that_is_no_regular_file_is_refused_without_opening_it(
    name, kind, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        if kind == "socket":
            listener.bind(name)
        elif kind == "pipe":
            os.mkfifo(name)
        else:
            os.symlink(os.devnull, name)
    for words in (
        ["data", "doctor"],
        shlex.split("train --method erm --test-domain a"),
        ["embed", "--out", "f.npz"],
    ):
        assert main([*words, f"./{name}"]) == 2
        message = capsys.readouterr().err
        assert message.endswith(
            f"{name}: It is a pipe, a socket or a device; put a regular file in its place.\n"
        )
        assert message.count("\n") == 1
    with pytest.raises(OSError, match="a pipe, a socket or a device"):
        load_data(f"./{name}")


def test_pixels_are_limited_whatever_other_code_sets(pictures, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    monkeypatch.setattr(decode_module, "MAX_PIXELS", 399)
    file = pictures / "a" / "cat" / "1.png"
    with pytest.raises(ImageError, match="20×20 pixels"):
        decode(file, 8)
    assert "20×20 pixels" in inspect_file(file).problem.message


BOMBS = {
    "more than 33 files": zipped(
        pacs_files() | {f"photo/dog/{number}.jpg": b"" for number in range(200)}
    ),
    "unpacks to more than 3,000,000 bytes": tarred(
        pacs_files() | {"photo/dog/x.jpg": bytes(4_000_000)}, "w:gz"
    ),
    "has more than 3,000,000 bytes": bytes(4_000_000),
}
"""Files far larger than the small PACS, by what is said of them."""


@pytest.mark.parametrize(
    ("reason", "name"), [*((reason, "mirror") for reason in BOMBS), (max(BOMBS), "pacs.zip")]
)
def test_archive_larger_than_its_benchmark_is_refused_and_leaves_nothing(
    tmp_path, monkeypatch, reason, name
):
    monkeypatch.delenv("RISKMATCH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / name).write_bytes(BOMBS[reason])
    with serving(Mirror({"PACS.zip": BOMBS[reason]} if name == "mirror" else {})) as (url,):
        benchmark = small_pacs(Origin((Download("PACS.zip", (f"{url}/PACS.zip",)),)))
        with pytest.raises(FetchError, match=f"(?i)pacs.zip .*{reason}"):
            get_benchmark(replace(benchmark, megabytes=1), tmp_path / "pacs")
    assert {path.name for path in tmp_path.iterdir()} - {".pacs.lock"} == {name}


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
