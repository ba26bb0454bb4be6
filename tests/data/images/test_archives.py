import io
import random
import tarfile
import zipfile

import pytest
from trees import contents, locked, marked, tarred, zipped

from riskmatch.data.images import archives
from riskmatch.data.images.archives import check_archive, extract

FILES = {"set/a/cat/1.jpg": b"one", "set/b/dog/2.jpg": b"two" * 1000}
JUNK = {"__MACOSX/set/a/cat/._1.jpg": b"x", "set/.DS_Store": b"x", "set/a/Thumbs.db": b"x"}
KINDS = {
    "s.tar": tarred,
    "s.tar.gz": lambda files: tarred(files, "w:gz"),
    "s.zip": zipped,
}


@pytest.fixture(params=KINDS)
def make(request, tmp_path):
    def write(files):
        (tmp_path / request.param).write_bytes(KINDS[request.param](files))
        return tmp_path / request.param

    return write


def test_files_come_out_as_they_went_in_without_junk(make, tmp_path):
    archive = make(FILES | JUNK)
    check_archive(archive)
    extract(archive, tmp_path / "out")
    assert contents(tmp_path / "out") == FILES


def test_files_are_placed_or_left_out_as_told(make, tmp_path):
    names = {"set/a/cat/1.jpg": "x/1.jpg"}
    extract(make(FILES), tmp_path / "out", names.get)
    assert contents(tmp_path / "out") == {"x/1.jpg": b"one"}


def test_progress_goes_through_the_bytes_of_the_archive(make, tmp_path):
    rng, told = random.Random(0), []
    archive = make({f"a/cat/{n}.jpg": rng.randbytes(50_000) for n in range(20)})
    extract(archive, tmp_path / "out", on_progress=lambda *said: told.append(said))
    size = archive.stat().st_size
    assert {(what, total) for what, _, total in told} == {(f"unpacking {archive.name}", size)}
    done = [done for _, done, _ in told]
    assert done == sorted(done)
    assert done[0] < size / 4 < done[10] < done[-1] == size


@pytest.mark.parametrize(
    "name", ["../out.jpg", "a/../../out.jpg", "/tmp/out.jpg", "..\\out.jpg", "C:\\out.jpg", "C:out"]
)
def test_a_path_out_of_the_folder_is_refused(make, tmp_path, name):
    archive = make({"a/cat/1.jpg": b"one", name: b"escaped"})
    with pytest.raises(ValueError, match=r"not safe to unpack: .* is a path out of the folder"):
        extract(archive, tmp_path / "in" / "out")
    left = [path for path in contents(tmp_path) if "out" in path.rsplit("/")[-1]]
    assert left == []


@pytest.mark.parametrize(
    ("kind", "what"),
    [(tarfile.SYMTYPE, "link"), (tarfile.LNKTYPE, "link"), (tarfile.FIFOTYPE, "device"),
     (tarfile.CHRTYPE, "device"), (tarfile.BLKTYPE, "device")],
)  # fmt: skip
def test_links_and_devices_in_a_tar_are_refused(tmp_path, kind, what):
    with tarfile.open(tmp_path / "s.tar", "w") as archive:
        info = tarfile.TarInfo("a/cat")
        info.type, info.linkname = kind, str(tmp_path)
        archive.addfile(info)
        file = tarfile.TarInfo("a/cat/1.jpg")
        file.size = 7
        archive.addfile(file, io.BytesIO(b"escaped"))
    with pytest.raises(ValueError, match=f"not safe to unpack: 'a/cat' is a {what}"):
        extract(tmp_path / "s.tar", tmp_path / "out")
    assert contents(tmp_path).keys() == {"s.tar"}


def test_links_in_a_zip_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "s.zip", "w") as archive:
        link = zipfile.ZipInfo("a")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, str(tmp_path))
    with pytest.raises(ValueError, match="not safe to unpack: 'a' is a link"):
        extract(tmp_path / "s.zip", tmp_path / "out")


@pytest.mark.parametrize("kind", ["w:gz", "zip"])
def test_a_bomb_stops_before_it_fills_the_disk(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(archives, "FLOOR", 1 << 20)
    files = {"a/cat/1.jpg": bytes(8 << 20), "a/cat/2.jpg": bytes(8 << 20)}
    if kind == "zip":
        with zipfile.ZipFile(tmp_path / "s", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
    else:
        (tmp_path / "s").write_bytes(tarred(files, kind))
    with pytest.raises(ValueError, match="unpacks to more than 20 times its size"):
        extract(tmp_path / "s", tmp_path / "out")
    assert sum(map(len, contents(tmp_path / "out").values())) <= 1 << 20


@pytest.mark.parametrize("name", KINDS)
def test_a_truncated_archive_is_damaged(tmp_path, name):
    files = {f"a/cat/{k}.jpg": bytes(range(256)) * 40 for k in range(9)}
    whole = KINDS[name](files)
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="is damaged: "):
        extract(tmp_path / name, tmp_path / "out")


def test_a_flipped_bit_in_a_zip_is_noticed(tmp_path):
    packed = bytearray(zipped(FILES))
    packed[packed.index(b"twotwo")] ^= 1
    (tmp_path / "s.zip").write_bytes(packed)
    with pytest.raises(ValueError, match="is damaged: Bad CRC-32"):
        extract(tmp_path / "s.zip", tmp_path / "out")


@pytest.mark.parametrize("from_end", [100_000, 8, 5], ids=["middle", "sum", "size"])
def test_a_flipped_bit_in_a_compressed_tar_is_noticed(tmp_path, from_end):
    """Noise is stored as it is, so that nothing but the sum at the very end can tell."""
    noise = random.Random(0).randbytes(200_000)
    packed = bytearray(tarred({"a/cat/1.jpg": noise}, "w:gz"))
    packed[-from_end] ^= 1
    (tmp_path / "s.tar.gz").write_bytes(packed)
    with pytest.raises(ValueError, match=r"s\.tar\.gz is damaged: "):
        extract(tmp_path / "s.tar.gz", tmp_path / "out")


def in_an_unknown_way(packed):
    """The zip with its first file compressed by a method that nobody has."""
    return marked(packed, (8, 10), 99)


@pytest.mark.parametrize(
    ("mark", "reason"),
    [(locked, "encrypted, password required"), (in_an_unknown_way, "compression method")],
)
def test_a_zip_that_cannot_be_read_is_told(tmp_path, mark, reason):
    (tmp_path / "s.zip").write_bytes(mark(zipped(FILES)))
    with pytest.raises(ValueError, match=rf"s\.zip cannot be unpacked: .*{reason}"):
        extract(tmp_path / "s.zip", tmp_path / "out")


@pytest.mark.parametrize("content", [b"anything", b""])
def test_what_is_no_archive_is_told(tmp_path, content):
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(ValueError, match="neither a tar nor a zip archive"):
        check_archive(tmp_path / "a.zip")
