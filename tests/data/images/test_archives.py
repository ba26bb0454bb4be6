import io
import random
import tarfile
import zipfile

import pytest
from trees import contents, locked, marked, tarred, zipped

from riskmatch.data.images.archives import Unpacker
from riskmatch.data.images.benchmark import Download

FILES = {"set/a/cat/1.jpg": b"one", "set/b/dog/2.jpg": b"two" * 1000}
JUNK = {"__MACOSX/set/a/cat/._1.jpg": b"x", "set/.DS_Store": b"x", "set/a/Thumbs.db": b"x"}
FORMATS = {
    "s.tar": tarred,
    "s.tar.gz": lambda files: tarred(files, "w:gz"),
    "s.zip": zipped,
}


@pytest.fixture(params=FORMATS)
def make(request, tmp_path):
    def write(files):
        (tmp_path / request.param).write_bytes(FORMATS[request.param](files))
        return tmp_path / request.param

    return write


def test_archive_is_unpacked_without_junk(make, tmp_path):
    archive = make(FILES | JUNK)
    Download(archive.name, ()).check(archive)
    Unpacker(tmp_path / "out").extract(archive)
    assert contents(tmp_path / "out") == FILES


def test_target_places_or_skips_files(make, tmp_path):
    names = {"set/a/cat/1.jpg": "x/1.jpg"}
    Unpacker(tmp_path / "out").extract(make(FILES), names.get)
    assert contents(tmp_path / "out") == {"x/1.jpg": b"one"}


def test_progress_counts_bytes_of_the_archive(make, tmp_path):
    rng, calls = random.Random(0), []
    archive = make({f"a/cat/{n}.jpg": rng.randbytes(50_000) for n in range(20)})
    Unpacker(tmp_path / "out", lambda *call: calls.append(call)).extract(archive)
    size = archive.stat().st_size
    assert {(task, total) for task, _, total in calls} == {(f"unpacking {archive.name}", size)}
    done = [done for _, done, _ in calls]
    assert done == sorted(done)
    assert done[0] < size / 4 < done[10] < done[-1] == size


@pytest.mark.parametrize(
    "name", ["../out.jpg", "a/../../out.jpg", "/tmp/out.jpg", "..\\out.jpg", "C:\\out.jpg", "C:out"]
)
def test_path_outside_the_folder_is_refused(make, tmp_path, name):
    archive = make({"a/cat/1.jpg": b"one", name: b"escaped"})
    with pytest.raises(ValueError, match=r"unsafe to unpack: .* is a path outside the folder"):
        Unpacker(tmp_path / "in" / "out").extract(archive)
    left = [path for path in contents(tmp_path) if "out" in path.rsplit("/")[-1]]
    assert left == []


@pytest.mark.parametrize(
    ("type_", "name"),
    [(tarfile.SYMTYPE, "link"), (tarfile.LNKTYPE, "link"), (tarfile.FIFOTYPE, "device"),
     (tarfile.CHRTYPE, "device"), (tarfile.BLKTYPE, "device")],
)  # fmt: skip
def test_links_and_devices_in_a_tar_are_refused(tmp_path, type_, name):
    with tarfile.open(tmp_path / "s.tar", "w") as archive:
        info = tarfile.TarInfo("a/cat")
        info.type, info.linkname = type_, str(tmp_path)
        archive.addfile(info)
        file = tarfile.TarInfo("a/cat/1.jpg")
        file.size = 7
        archive.addfile(file, io.BytesIO(b"escaped"))
    with pytest.raises(ValueError, match=f"unsafe to unpack: 'a/cat' is a {name}"):
        Unpacker(tmp_path / "out").extract(tmp_path / "s.tar")
    assert contents(tmp_path).keys() == {"s.tar"}


def test_links_in_a_zip_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "s.zip", "w") as archive:
        link = zipfile.ZipInfo("a")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, str(tmp_path))
    with pytest.raises(ValueError, match="unsafe to unpack: 'a' is a link"):
        Unpacker(tmp_path / "out").extract(tmp_path / "s.zip")


@pytest.mark.parametrize("kind", ["w:gz", "zip"])
def test_decompression_bomb_is_stopped(tmp_path, kind):
    files = {"a/cat/1.jpg": bytes(8 << 20), "a/cat/2.jpg": bytes(8 << 20)}
    if kind == "zip":
        with zipfile.ZipFile(tmp_path / "s", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
    else:
        (tmp_path / "s").write_bytes(tarred(files, kind))
    with pytest.raises(ValueError, match="unpacks to more than 1,048,576 bytes"):
        Unpacker(tmp_path / "out", max_bytes=1 << 20, max_files=9).extract(tmp_path / "s")
    assert sum(map(len, contents(tmp_path / "out").values())) <= 1 << 20


@pytest.mark.parametrize("name", FORMATS)
def test_truncated_archive_is_damaged(tmp_path, name):
    files = {f"a/cat/{k}.jpg": bytes(range(256)) * 40 for k in range(9)}
    whole = FORMATS[name](files)
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="is damaged: "):
        Unpacker(tmp_path / "out").extract(tmp_path / name)


def test_flipped_bit_in_a_zip_is_detected(tmp_path):
    packed = bytearray(zipped(FILES))
    packed[packed.index(b"twotwo")] ^= 1
    (tmp_path / "s.zip").write_bytes(packed)
    with pytest.raises(ValueError, match="is damaged: Bad CRC-32"):
        Unpacker(tmp_path / "out").extract(tmp_path / "s.zip")


@pytest.mark.parametrize("from_end", [100_000, 8, 5], ids=["middle", "sum", "size"])
def test_flipped_bit_in_a_compressed_tar_is_detected(tmp_path, from_end):
    """Noise is stored uncompressed, so that only the final checksum can reveal the error."""
    noise = random.Random(0).randbytes(200_000)
    packed = bytearray(tarred({"a/cat/1.jpg": noise}, "w:gz"))
    packed[-from_end] ^= 1
    (tmp_path / "s.tar.gz").write_bytes(packed)
    with pytest.raises(ValueError, match=r"s\.tar\.gz is damaged: "):
        Unpacker(tmp_path / "out").extract(tmp_path / "s.tar.gz")


def with_unknown_compression(packed):
    """The zip with an unknown compression method for its first file."""
    return marked(packed, (8, 10), 99)


@pytest.mark.parametrize(
    ("mark", "reason"),
    [(locked, "encrypted, password required"), (with_unknown_compression, "compression method")],
)
def test_encrypted_or_unknown_zip_is_refused(tmp_path, mark, reason):
    (tmp_path / "s.zip").write_bytes(mark(zipped(FILES)))
    with pytest.raises(ValueError, match=rf"s\.zip cannot be unpacked: .*{reason}"):
        Unpacker(tmp_path / "out").extract(tmp_path / "s.zip")


@pytest.mark.parametrize("content", [b"anything", b""])
def test_other_files_are_not_archives(tmp_path, content):
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(ValueError, match=r"neither a tar nor a zip archive|empty"):
        Download("a.zip", ()).check(tmp_path / "a.zip")
