import gzip
from pathlib import Path

import pytest
import torch
from digits import accept, idx, place, random_mnist, real
from mirror import Mirror, serving

from riskmatch.data.fetch import FetchError
from riskmatch.data.mnist import FILES, find_mnist, get_mnist, load_mnist, read_idx

FIRST = next(iter(FILES))


@pytest.fixture
def files(monkeypatch, tmp_path):
    made = random_mnist()
    accept(monkeypatch, made)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return made


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 28, 28), (0, 28, 28)])
def test_idx_round_trip(shape):
    values = torch.randint(256, shape, generator=torch.Generator().manual_seed(0))
    assert torch.equal(read_idx(idx(values)), values.to(torch.uint8))


def test_compressed_and_plain_files_are_equivalent(files, tmp_path):
    packed = load_mnist(place(files, tmp_path / "packed"))
    raw = {name.removesuffix(".gz"): gzip.decompress(c) for name, c in files.items()}
    unpacked = load_mnist(place(raw, tmp_path / "raw"))
    assert torch.equal(packed.train_images, unpacked.train_images)
    assert packed.test_images.shape == (20, 28, 28)
    assert packed.test_digits.tolist() == [*range(10), *range(10)]


def test_search_order_is_data_dir_variable_cache(files, tmp_path, monkeypatch):
    cache = place(files, tmp_path / "cache" / "riskmatch" / "mnist")
    assert find_mnist(tmp_path / "given") == cache
    variable = place(files, tmp_path / "variable" / "mnist")
    monkeypatch.setenv("RISKMATCH_DATA", str(variable.parent))
    assert find_mnist(tmp_path / "given") == variable
    given = place(files, tmp_path / "given")
    assert find_mnist(given) == given
    inner = place(files, given / "mnist")
    assert find_mnist(given) == inner


def test_incomplete_folder_is_skipped(files, tmp_path):
    cache = place(files, tmp_path / "cache" / "riskmatch" / "mnist")
    folder = place(files, tmp_path / "folder")
    (folder / f"{FIRST}.gz").unlink()
    assert find_mnist(folder) == cache


def test_missing_files_are_reported_with_folders_and_cure(files, tmp_path, monkeypatch):
    monkeypatch.setenv("RISKMATCH_DATA", "/data/sets")
    with pytest.raises(FileNotFoundError) as caught:
        load_mnist(Path("here"))
    message = str(caught.value)
    cache = tmp_path / "cache" / "riskmatch" / "mnist"
    assert f"here/mnist, here, /data/sets/mnist, {cache}" in message
    assert "riskmatch data get mnist" in message
    assert all(name in message for name in files)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lambda good: good[:-20], "damaged: it cannot be decompressed"),
        (lambda good: good[:100] + b"xxxx" + good[104:], "damaged: "),
        (lambda good: gzip.compress(b"other"), r"the md5 of its content is \w+, not \w+"),
        (lambda good: b"<html>", "the md5 of its content is"),
    ],
)
def test_damaged_files_are_named(files, tmp_path, content, reason):
    folder = place(files, tmp_path / "folder")
    path = folder / f"{FIRST}.gz"
    path.write_bytes(content(path.read_bytes()))
    with pytest.raises(ValueError, match=reason) as caught:
        load_mnist(folder)
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).endswith("riskmatch data get mnist")


def test_downloaded_files_are_found(files, tmp_path):
    mirror = Mirror(files)
    with serving(mirror) as urls:
        folder = get_mnist(mirrors=urls)
        assert find_mnist() == folder == tmp_path / "cache" / "riskmatch" / "mnist"
        assert get_mnist(mirrors=urls) == folder
    assert len(mirror.asked) == 4  # the second call requests nothing
    assert len(load_mnist().train_digits) == 60


def test_only_damaged_or_missing_files_are_downloaded(files, tmp_path):
    folder = place(files, tmp_path / "folder")
    (folder / FIRST).write_bytes(b"damaged")
    (folder / f"{FIRST}.gz").unlink()
    mirror = Mirror(files)
    with serving(mirror) as urls, pytest.warns(match=f"{FIRST} .*now {FIRST}.old"):
        get_mnist(folder, mirrors=urls)
    assert mirror.asked == [(f"{FIRST}.gz", None)]
    assert (folder / f"{FIRST}.old").read_bytes() == b"damaged"
    assert len(load_mnist(folder).train_images) == 60


def test_files_of_another_data_set_are_renamed(files, tmp_path):
    folder = place(files, tmp_path / "folder")
    other = b"Fashion-MNIST has the same names"
    (folder / f"{FIRST}.gz").write_bytes(other)
    with serving(Mirror(files)) as urls, pytest.warns(match=f"{FIRST}.gz.old"):
        get_mnist(folder, mirrors=urls)
    assert (folder / f"{FIRST}.gz.old").read_bytes() == other
    assert len(load_mnist(folder).train_images) == 60


def test_mirror_with_other_content_is_skipped(files, tmp_path):
    wrong = Mirror({name: gzip.compress(b"other") for name in files})
    with serving(wrong, Mirror(files)) as urls:
        with pytest.raises(FetchError, match=f"{FIRST}.gz .*the md5 of its content is"):
            get_mnist(tmp_path / "folder", mirrors=urls[:1])
        get_mnist(tmp_path / "folder", mirrors=urls)
    assert len(load_mnist(tmp_path / "folder").train_digits) == 60


@pytest.mark.needs_data
def test_the_real_files():
    digits = real()
    assert digits.train_images.shape == (60_000, 28, 28)
    assert digits.test_images.shape == (10_000, 28, 28)
    assert digits.train_digits[:5].tolist() == [5, 0, 4, 1, 9]
    assert digits.test_digits.bincount().tolist() == [
        *(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)
    ]
