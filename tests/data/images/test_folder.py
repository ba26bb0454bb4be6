import os
import re
import unicodedata

import pytest
from trees import plant

from riskmatch.data.images.index import EXTENSIONS, index_folder

PETS = dict.fromkeys(("a/cat/1.jpg", "a/dog/1.jpg", "b/dog/2.jpg", "b/dog/10.jpg"), b"")


def test_domains_share_one_class_map(tmp_path):
    index = index_folder(plant(tmp_path / "pets", PETS))
    assert (index.name, index.class_names, index.domain_names) == (
        "pets",
        ("cat", "dog"),
        ("a", "b"),
    )
    assert index.paths == ("a/cat/1.jpg", "a/dog/1.jpg", "b/dog/10.jpg", "b/dog/2.jpg")
    assert index.labels == (0, 1, 1, 1)
    assert index.domains == (0, 0, 1, 1)
    assert index.file(0) == tmp_path / "pets/a/cat/1.jpg"
    assert index.counts() == {"a": {"cat": 1, "dog": 1}, "b": {"cat": 0, "dog": 2}}


def test_missing_class_shifts_no_label(tmp_path):
    before = index_folder(plant(tmp_path, PETS))
    (tmp_path / "a/cat/1.jpg").rename(tmp_path / "b/dog/cat.jpg")
    plant(tmp_path, {"b/cat/3.jpg": b""})
    after = index_folder(tmp_path)
    label = dict(zip(before.paths, before.labels, strict=True))
    assert all(
        label.get(path, own) == own for path, own in zip(after.paths, after.labels, strict=True)
    )


def test_accents_are_normalised(tmp_path):
    """A composed and a decomposed name are one; files keep their own paths."""
    one, two = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    index = index_folder(plant(tmp_path, {f"a/{one}/1.jpg": b"", f"{two}/{two}/2.jpg": b""}))
    assert (index.class_names, index.domain_names) == ((one,), ("a", one))
    assert index.paths == (f"a/{one}/1.jpg", f"{two}/{two}/2.jpg")
    assert all(index.file(row).is_file() for row in range(2))


def test_names_that_are_not_utf8_are_escaped(tmp_path):
    odd = os.fsdecode(b"caf\xe9")
    index = index_folder(plant(tmp_path, {f"{odd}/{odd}/{odd}.jpg": b""}))
    assert index.class_names == index.domain_names == (r"caf\udce9",)
    assert index.file(0).is_file()


@pytest.mark.parametrize("extension", [*EXTENSIONS, ".JPG", ".JpEg"])
def test_extensions_are_case_insensitive(tmp_path, extension):
    plant(tmp_path, {f"a/cat/1{extension}": b"", "a/cat/notes.txt": b""})
    assert index_folder(tmp_path).paths == (f"a/cat/1{extension}",)


def test_junk_files_are_ignored(tmp_path):
    junk = ["Thumbs.db", ".DS_Store", "__MACOSX/a/._1.jpg", ".git/x/1.jpg", "README.txt"]
    junk += ["a/.hidden/1.jpg", "a/cat/._1.jpg", "a/cat/desktop.ini", "a/Thumbs.db", "splits/a.txt"]
    plant(tmp_path, PETS | dict.fromkeys(junk, b""))
    assert set(index_folder(tmp_path).paths) == set(PETS)


def test_links_are_followed(tmp_path):
    plant(tmp_path / "elsewhere", PETS)
    (tmp_path / "pets").mkdir()
    (tmp_path / "pets" / "linked").symlink_to(tmp_path / "elsewhere" / "b")
    assert index_folder(tmp_path / "pets").paths == ("linked/dog/10.jpg", "linked/dog/2.jpg")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["notes.txt"], "has no images (bmp gif jpeg jpg pbm pgm png pnm ppm tif tiff webp)"),
        (["cat/1.jpg", "dog/1.jpg"], "the level of domains or of classes is missing"),
        (["1.jpg", "a/cat/1.jpg"], "1.jpg is an image where a domain folder is expected"),
        (["a/1.jpg", "a/cat/1.jpg"], "a/1.jpg is an image where a class folder is expected"),
        (["train/a/cat/1.jpg"], "train/a/cat is a folder where an image is expected"),
    ],
)
def test_other_layout_is_refused_with_the_wrong_level(tmp_path, files, message):
    plant(tmp_path, dict.fromkeys(files, b""))
    with pytest.raises(ValueError, match=re.escape(message)):
        index_folder(tmp_path)


def test_missing_folder_and_file_give_different_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"There is no folder {tmp_path}/pest"):
        index_folder(tmp_path / "pest")
    (tmp_path / "pets").write_bytes(b"")
    with pytest.raises(NotADirectoryError, match="pets is a file, not a folder of domains"):
        index_folder(tmp_path / "pets")


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read every folder")
def test_unreadable_folder_is_reported_with_the_cure(tmp_path):
    plant(tmp_path, PETS)
    (tmp_path / "b").chmod(0)
    try:
        with pytest.raises(PermissionError, match=f"cannot be read.*chmod u\\+rx {tmp_path}/b"):
            index_folder(tmp_path)
    finally:
        (tmp_path / "b").chmod(0o755)
