"""The cache of decoded images: what is in it, when it is made anew, and who makes it."""

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

from riskmatch.data.images import cache, fingerprint
from riskmatch.data.images.cache import CacheError, cached_file, mapped
from riskmatch.data.images.decode import ImageError


class Told(list):
    """The progress that was reported; what was done, once each."""

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
    """A file counts as settled at once, as it does two seconds after its last change."""
    monkeypatch.setattr(fingerprint, "SETTLED", -1)


def pixels_of(root, paths, size, folder, on_progress=None):
    """The images as they come from the cache."""
    return mapped(cached_file(root, paths, size, folder, on_progress), len(paths))


def caches(folder):
    return sorted(path.name for path in folder.glob("*.rgb"))


def test_rows_are_the_images_sorted_by_path(files, tmp_path):
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
def test_the_side_is_that_of_the_images_unless_they_are_large_or_differ(
    tmp_path, sizes, image_size, side
):
    for number, size in enumerate(sizes):
        picture(tmp_path / f"{number}.png", size, number)
    paths = [f"{number}.png" for number in range(len(sizes))]
    pixels = pixels_of(tmp_path, paths, image_size, tmp_path / "cache")
    assert pixels.shape == (len(sizes), side, side, 3)


def test_a_second_call_reads_and_decodes_nothing(files, settled, tmp_path):
    root, paths = files
    told = Told()
    pixels_of(root, paths, 32, tmp_path / "cache", told)
    assert told.names == ["reading images", "decoding images"]
    assert told[-1] == ("decoding images", 5, 5)
    again = Told()
    pixels_of(root, paths[::-1], 32, tmp_path / "cache", again)
    assert again == []


def test_another_time_of_modification_alone_decodes_nothing(files, settled, tmp_path):
    root, paths = files
    pixels_of(root, paths, 32, tmp_path / "cache")
    os.utime(root / "c.png", (1e9, 1e9))
    told = Told()
    pixels_of(root, paths, 32, tmp_path / "cache", told)
    assert told == [("reading images", 1, 1)]


def test_other_content_of_the_same_length_is_noticed(files, tmp_path):
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
def test_images_that_change_places_are_noticed_though_size_and_time_are_equal(
    settled, tmp_path, change
):
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
def test_a_data_set_that_is_copied_or_moved_is_read_once_more_and_not_decoded(
    files, settled, tmp_path, change
):
    root, paths = files
    before = pixels_of(root, paths, 32, tmp_path / "cache")
    change(root, tmp_path / "elsewhere")
    first, second = Told(), Told()
    after = pixels_of(tmp_path / "elsewhere", paths, 32, tmp_path / "cache", first)
    pixels_of(tmp_path / "elsewhere", paths, 32, tmp_path / "cache", second)
    assert torch.equal(after, before)
    assert (first.names, second.names) == (["reading images"], [])


def test_notes_of_fewer_facts_are_written_anew(files, settled, tmp_path):
    """Of size and time of modification alone, as they once were."""
    root, paths = files
    pixels_of(root, paths, 32, tmp_path / "cache")
    [notes] = (tmp_path / "cache").glob("*.json")
    kept = json.loads(notes.read_text())
    notes.write_text(json.dumps({path: [*note[:2], "0" * 64] for path, note in kept.items()}))
    pixels_of(root, paths, 32, tmp_path / "cache")
    assert json.loads(notes.read_text()) == kept


def test_a_file_written_just_now_is_read_again_though_its_time_is_the_same(files, tmp_path):
    """Two writes within the clock's grain leave the same size and time."""
    root, _ = files
    pixels = np.zeros((32, 32, 3), np.uint8)
    stamp = time.time_ns()
    for value in (1, 2):
        Image.fromarray(pixels + value).save(root / "c.bmp")
        os.utime(root / "c.bmp", ns=(stamp, stamp))
        found = pixels_of(root, ["c.bmp"], 32, tmp_path / "cache")
        assert (found == value).all()


def test_the_file_may_be_larger_than_memory(tmp_path):
    """All of the machine's memory could not hold it; a hole takes no space on the disk."""
    side, memory = 256, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    row = side * side * 3
    images = 2 * memory // row
    with open(tmp_path / "large.rgb", "wb") as out:
        out.seek((images - 1) * row)
        out.write(bytes([7]) * row)
    pixels = mapped(tmp_path / "large.rgb", images)
    assert pixels.shape == (images, side, side, 3)
    assert (pixels[0] == 0).all()
    assert (pixels[-1] == 7).all()


def test_the_file_need_not_be_ours_to_write(files, tmp_path):
    root, paths = files
    file = cached_file(root, paths, 32, tmp_path / "cache")
    file.chmod(0o444)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pixels = mapped(file, len(paths))
    assert np.array_equal(pixels[0].numpy(), np.asarray(Image.open(root / "a.png")))


def test_nothing_done_to_the_tensor_reaches_the_file(files, tmp_path):
    root, paths = files
    file = cached_file(root, paths, 32, tmp_path / "cache")
    before = file.read_bytes()
    write = (
        "import sys; from pathlib import Path; from riskmatch.data.images.cache import mapped; "
        "mapped(Path(sys.argv[1]), 5).zero_()"
    )
    subprocess.run(
        [sys.executable, "-c", write, str(file)], check=False
    )  # which it may not survive
    assert file.read_bytes() == before


def test_a_broken_image_leaves_no_cache_behind(files, settled, tmp_path):
    root, paths = files
    data = (root / "c.png").read_bytes()
    (root / "c.png").write_bytes(data[: len(data) // 2])
    with pytest.raises(ImageError, match=r"c\.png cannot be read as an image"):
        pixels_of(root, paths, 32, tmp_path / "cache")
    assert {path.suffix for path in (tmp_path / "cache").iterdir()} == {".json", ".lock"}


def test_no_images_are_an_error(tmp_path):
    with pytest.raises(ValueError, match="There are no images in"):
        pixels_of(tmp_path, [], 32, tmp_path / "cache")


def test_a_folder_that_cannot_be_is_named_with_its_cure(files, tmp_path):
    root, paths = files
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(CacheError, match=r"cannot be kept in .*cache.*variable XDG_CACHE_HOME"):
        pixels_of(root, paths, 32, tmp_path / "cache" / "images")


def test_an_image_that_is_missing_is_not_blamed_on_the_cache(files, tmp_path):
    root, _ = files
    with pytest.raises(FileNotFoundError, match=r"absent\.png"):
        pixels_of(root, ["absent.png"], 32, tmp_path / "cache")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk always full")
def test_a_full_disk_is_said_with_its_cure(files, tmp_path):
    root, paths = files
    folder = tmp_path / "cache"
    pixels_of(root, paths, 32, folder)
    [whole] = folder.glob("*.rgb")
    whole.unlink()
    whole.with_suffix(".part").symlink_to("/dev/full")
    with pytest.raises(CacheError, match=r"The disk is full: .*Free some space, or name another"):
        pixels_of(root, paths, 32, folder)
    assert not whole.exists()


def test_too_small_a_disk_is_said_before_the_work(files, tmp_path, monkeypatch):
    root, paths = files
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda _: SimpleNamespace(free=100))
    told = Told()
    with pytest.raises(CacheError, match=r"The disk is full: .* \(0 MB needed, 0 MB free\)"):
        pixels_of(root, paths, 32, tmp_path / "cache", told)
    assert told.names == ["reading images"]


@pytest.fixture
def build(files, tmp_path):
    """Start processes that build the cache, and decode once the file ``go`` is there."""
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
    raise AssertionError(f"{words!r} was never said")


def test_of_two_processes_one_decodes_and_the_other_waits(build, tmp_path):
    first, second = build(), build()
    wait_for(first, ("begins", "waiting"))
    wait_for(second, ("begins", "waiting"))
    (tmp_path / "go").touch()
    said = [process.communicate()[0] for process in (first, second)]
    assert sorted("decoding images 5" in words for words in said) == [False, True]
    assert said[0].splitlines()[-1] == said[1].splitlines()[-1]  # the sum of the pixels
    assert len(caches(tmp_path / "cache")) == 1


def test_a_builder_that_is_killed_leaves_nothing_that_harms(build, files, tmp_path):
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


def test_the_next_builder_removes_what_one_left_that_was_killed(build, files, tmp_path):
    """Though it builds from other files."""
    root, paths = files
    builder = build()
    wait_for(builder, "begins")
    os.kill(builder.pid, signal.SIGKILL)
    builder.wait()
    assert len(list((tmp_path / "cache").glob("*.part"))) == 1
    pixels_of(root, paths[1:], 32, tmp_path / "cache")
    assert list((tmp_path / "cache").glob("*.part")) == []
