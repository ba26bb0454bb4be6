"""The cache of decoded images: its content, when it is rebuilt, and by which process."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from pictures import picture
from PIL import Image

from riskmatch.data.images import cache
from riskmatch.data.images.cache import CacheError, cached_file, map_pixels
from riskmatch.data.images.decode import ImageError


class Progress(list):
    """The calls of on_progress, and the distinct tasks."""

    def __call__(self, name, done, total):
        self.append((name, done, total))

    @property
    def names(self):
        return list(dict.fromkeys(name for name, _, _ in self))


@pytest.fixture
def files(tmp_path):
    """Five images of 32 × 32 and the folder they are in."""
    root = tmp_path / "data"
    paths = [f"{name}.png" for name in "edcba"]
    for seed, path in enumerate(paths):
        picture(root / path, 32, seed)
    return root, paths


@pytest.fixture
def settled(monkeypatch):
    """Treat files as settled at once instead of two seconds after their last change."""
    monkeypatch.setattr(cache, "SETTLED", -1)


def pixels_of(root, paths, size, folder, on_progress=None):
    """The images from the cache."""
    return map_pixels(cached_file(root, paths, size, folder, on_progress), len(paths))


def caches(folder):
    return sorted(path.name for path in folder.glob("*.rgb"))


def test_rows_are_sorted_by_path(files, tmp_path):
    root, paths = files
    pixels = pixels_of(root, paths, 32, tmp_path / "cache")
    expected = np.stack([np.asarray(Image.open(root / path)) for path in sorted(paths)])
    assert pixels.dtype == torch.uint8
    assert np.array_equal(pixels.numpy(), expected)


@pytest.mark.parametrize(
    ("sizes", "image_size", "side"),
    [
        ([227, 227], 224, 227),  # PACS
        ([20, 20], 224, 20),
        ([256, 256], 224, 256),
        ([257, 257], 224, 256),
        ([227, 226], 224, 256),
        ([(227, 200), (227, 200)], 224, 256),
    ],
)
def test_side_of_stored_images(tmp_path, sizes, image_size, side):
    for number, size in enumerate(sizes):
        picture(tmp_path / f"{number}.png", size, number)
    paths = [f"{number}.png" for number in range(len(sizes))]
    pixels = pixels_of(tmp_path, paths, image_size, tmp_path / "cache")
    assert pixels.shape == (len(sizes), side, side, 3)


def test_second_call_reads_and_decodes_nothing(files, settled, tmp_path):
    root, paths = files
    calls = Progress()
    pixels_of(root, paths, 32, tmp_path / "cache", calls)
    assert calls.names == ["reading images", "decoding images"]
    assert calls[-1] == ("decoding images", 5, 5)
    again = Progress()
    pixels_of(root, paths[::-1], 32, tmp_path / "cache", again)
    assert again == []


def test_new_modification_time_decodes_nothing(files, settled, tmp_path):
    root, paths = files
    pixels_of(root, paths, 32, tmp_path / "cache")
    os.utime(root / "c.png", (1e9, 1e9))
    calls = Progress()
    pixels_of(root, paths, 32, tmp_path / "cache", calls)
    assert calls == [("reading images", 1, 1)]


def test_changed_content_of_the_same_length_is_detected(files, tmp_path):
    root, paths = files
    first = pixels_of(root, paths, 32, tmp_path / "cache").clone()
    Image.fromarray(255 - first[2].numpy()).save(root / "c.bmp")
    for path in "abde":
        Image.open(root / f"{path}.png").save(root / f"{path}.bmp")
    bitmaps = [path.replace("png", "bmp") for path in paths]
    before = pixels_of(root, bitmaps, 32, tmp_path / "cache").clone()
    Image.fromarray(first[2].numpy()).save(root / "c.bmp")
    after = pixels_of(root, bitmaps, 32, tmp_path / "cache")
    assert torch.equal(after, first)
    assert torch.equal(before[2], 255 - after[2])


def exchange(one, other):
    """As ``mv`` does; each file keeps its size and its time of modification."""
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def copy_over(one, other):
    """As ``cp -p`` does."""
    content = one.read_bytes(), other.read_bytes()
    for path, bytes_ in zip((other, one), content, strict=True):
        path.write_bytes(bytes_)
        os.utime(path, (1e9, 1e9))


@pytest.mark.parametrize("change", [exchange, copy_over])
def test_exchanged_images_of_equal_size_and_time_are_detected(settled, tmp_path, change):
    root, paths = tmp_path / "data", ["black.bmp", "white.bmp"]
    root.mkdir()
    for path, value in zip(paths, (0, 255), strict=True):
        Image.fromarray(np.full((32, 32, 3), value, np.uint8)).save(root / path)
        os.utime(root / path, (1e9, 1e9))
    before = pixels_of(root, paths, 32, tmp_path / "cache").clone()
    change(root / "black.bmp", root / "white.bmp")
    after = pixels_of(root, paths, 32, tmp_path / "cache")
    assert torch.equal(after, before.flip(0))


@pytest.mark.parametrize("change", [shutil.copytree, shutil.move])
def test_moved_data_set_is_read_but_not_decoded(files, settled, tmp_path, change):
    root, paths = files
    before = pixels_of(root, paths, 32, tmp_path / "cache")
    change(root, tmp_path / "elsewhere")
    first, second = Progress(), Progress()
    after = pixels_of(tmp_path / "elsewhere", paths, 32, tmp_path / "cache", first)
    pixels_of(tmp_path / "elsewhere", paths, 32, tmp_path / "cache", second)
    assert torch.equal(after, before)
    assert (first.names, second.names) == (["reading images"], [])


def test_recently_written_file_is_read_again(files, tmp_path):
    """Two writes within the clock's resolution leave the same size and time."""
    root, _ = files
    pixels = np.zeros((32, 32, 3), np.uint8)
    stamp = time.time_ns()
    for value in (1, 2):
        Image.fromarray(pixels + value).save(root / "c.bmp")
        os.utime(root / "c.bmp", ns=(stamp, stamp))
        found = pixels_of(root, ["c.bmp"], 32, tmp_path / "cache")
        assert (found == value).all()


def test_mapped_file_may_be_larger_than_memory(tmp_path):
    """The file is twice as large as memory; being sparse, it takes no space on disk."""
    side, memory = 256, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    row = side * side * 3
    images = 2 * memory // row
    with open(tmp_path / "large.rgb", "wb") as out:
        out.seek((images - 1) * row)
        out.write(bytes([7]) * row)
    pixels = map_pixels(tmp_path / "large.rgb", images)
    assert pixels.shape == (images, side, side, 3)
    assert (pixels[0] == 0).all()
    assert (pixels[-1] == 7).all()


def test_mapped_file_may_be_read_only(files, tmp_path):
    root, paths = files
    file = cached_file(root, paths, 32, tmp_path / "cache")
    file.chmod(0o444)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pixels = map_pixels(file, len(paths))
    assert np.array_equal(pixels[0].numpy(), np.asarray(Image.open(root / "a.png")))


def test_changes_of_the_tensor_do_not_reach_the_file(files, tmp_path):
    root, paths = files
    file = cached_file(root, paths, 32, tmp_path / "cache")
    before = file.read_bytes()
    write = (
        "import sys; from pathlib import Path; from riskmatch.data.images.cache import map_pixels; "
        "map_pixels(Path(sys.argv[1]), 5).zero_()"
    )
    subprocess.run(
        [sys.executable, "-c", write, str(file)], check=False
    )  # the process may be killed
    assert file.read_bytes() == before


def test_broken_image_leaves_no_cache(files, settled, tmp_path):
    root, paths = files
    data = (root / "c.png").read_bytes()
    (root / "c.png").write_bytes(data[: len(data) // 2])
    with pytest.raises(ImageError, match=r"c\.png cannot be read as an image"):
        pixels_of(root, paths, 32, tmp_path / "cache")
    assert {path.suffix for path in (tmp_path / "cache").iterdir()} == {".json", ".lock"}


def test_no_images_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="There are no images in"):
        pixels_of(tmp_path, [], 32, tmp_path / "cache")


def test_unwritable_cache_is_named_with_the_cure(files, tmp_path):
    root, paths = files
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(CacheError, match=r"cannot be written to .*cache.*XDG_CACHE_HOME"):
        pixels_of(root, paths, 32, tmp_path / "cache" / "images")


def test_missing_image_is_not_a_cache_error(files, tmp_path):
    root, _ = files
    with pytest.raises(FileNotFoundError, match=r"absent\.png"):
        pixels_of(root, ["absent.png"], 32, tmp_path / "cache")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk always full")
def test_full_disk_is_reported_with_the_cure(files, tmp_path):
    root, paths = files
    folder = tmp_path / "cache"
    pixels_of(root, paths, 32, folder)
    [whole] = folder.glob("*.rgb")
    whole.unlink()
    whole.with_suffix(".part").symlink_to("/dev/full")
    with pytest.raises(CacheError, match=r"The disk is full: .*Free some space.*XDG_CACHE_HOME"):
        pixels_of(root, paths, 32, folder)
    assert not whole.exists()


def test_too_little_space_is_reported_before_decoding(files, tmp_path, monkeypatch):
    root, paths = files
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda _: SimpleNamespace(free=100))
    calls = Progress()
    with pytest.raises(CacheError, match=r"The disk is full: .* \(0 MB needed, 0 MB free\)"):
        pixels_of(root, paths, 32, tmp_path / "cache", calls)
    assert calls.names == ["reading images"]


@pytest.fixture
def build(files, tmp_path):
    """Start processes that build the cache and decode once the file ``go`` exists."""
    root, paths = files
    command = [sys.executable, str(Path(__file__).with_name("build_cache.py"))]
    started = []

    def start():
        process = subprocess.Popen(
            [*command, str(tmp_path / "go"), str(root), str(tmp_path / "cache"), *paths],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def wait_for(process, words):
    for line in process.stdout:
        if line.startswith(words):
            return
    raise AssertionError(f"{words!r} was not printed")


def test_one_of_two_processes_decodes(build, tmp_path):
    first, second = build(), build()
    wait_for(first, ("begins", "waiting"))
    wait_for(second, ("begins", "waiting"))
    (tmp_path / "go").touch()
    outputs = [process.communicate()[0] for process in (first, second)]
    assert sorted("decoding images 5" in output for output in outputs) == [False, True]
    assert outputs[0].splitlines()[-1] == outputs[1].splitlines()[-1]  # the sum of the pixels
    assert len(caches(tmp_path / "cache")) == 1


def test_killed_process_does_no_harm(build, files, tmp_path):
    root, paths = files
    builder = build()
    wait_for(builder, "begins")
    waiting = build()
    wait_for(waiting, "waiting")
    os.kill(builder.pid, signal.SIGKILL)
    (tmp_path / "go").touch()
    expected = sum(int(np.asarray(Image.open(root / path)).sum(dtype=int)) for path in paths)
    assert waiting.communicate()[0].splitlines()[-1] == f"sum {expected}"
    assert len(caches(tmp_path / "cache")) == 1
    assert list((tmp_path / "cache").glob("*.part")) == []


def test_partial_files_of_killed_processes_are_removed(build, files, tmp_path):
    root, paths = files
    builder = build()
    wait_for(builder, "begins")
    os.kill(builder.pid, signal.SIGKILL)
    builder.wait()
    assert len(list((tmp_path / "cache").glob("*.part"))) == 1
    pixels_of(root, paths[1:], 32, tmp_path / "cache")
    assert list((tmp_path / "cache").glob("*.part")) == []


def damage_end(content):
    return content[:-1000]


def damage_byte(content):
    return content[:5000] + bytes([content[5000] ^ 1]) + content[5001:]


@pytest.mark.parametrize("damage", [damage_end, damage_byte])
def test_damaged_cache_is_named_and_made_again(files, settled, tmp_path, damage):
    root, paths = files
    path = cached_file(root, paths, 28, tmp_path / "c")
    intact = path.read_bytes()
    path.write_bytes(damage(intact))
    with pytest.warns(UserWarning, match=path.name):
        assert cached_file(root, paths, 28, tmp_path / "c") == path
    assert path.read_bytes() == intact


def test_byte_that_rots_without_a_trace_is_found_in_a_checked_block(files, settled, tmp_path):
    root, paths = files
    path = cached_file(root, paths, 28, tmp_path / "c")
    intact, times = path.read_bytes(), path.stat()
    path.write_bytes(damage_byte(intact))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.warns(UserWarning, match="does not match its checksum"):
        cached_file(root, paths, 28, tmp_path / "c")
    assert path.read_bytes() == intact


def test_copied_cache_is_checked_and_kept(files, settled, tmp_path):
    root, paths = files
    path = cached_file(root, paths, 28, tmp_path / "c")
    shutil.copy(path, tmp_path / "copy")
    os.replace(tmp_path / "copy", path)
    seen = Progress()
    for _ in range(2):
        cached_file(root, paths, 28, tmp_path / "c", seen)
    assert "decoding images" not in seen.names


@pytest.mark.parametrize("crc32", [b"5", b"[]", b"[" * 10**5])
def test_damaged_checksums_are_named_and_written_again(files, settled, tmp_path, crc32):
    root, paths = files
    path = cached_file(root, paths, 28, tmp_path / "c")
    sums, size = path.with_suffix(".crc32"), path.stat().st_size
    intact = sums.read_bytes()
    sums.write_bytes(b'{"size": %d, "crc32": %b}' % (size, crc32))
    with pytest.warns(UserWarning, match=sums.name):
        assert cached_file(root, paths, 28, tmp_path / "c") == path
    assert json.loads(sums.read_bytes())["crc32"] == json.loads(intact)["crc32"]


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"a.png": 1}', b"\xff"])
def test_damaged_stamps_are_named_and_written_again(files, settled, tmp_path, content):
    root, paths = files
    path = cached_file(root, paths, 28, tmp_path / "c")
    (stamps,) = (tmp_path / "c").glob("*.json")
    stamps.write_bytes(content)
    with pytest.warns(UserWarning, match=stamps.name):
        assert cached_file(root, paths, 28, tmp_path / "c") == path
    assert sorted(json.loads(stamps.read_bytes())) == sorted(paths)
