"""The doctor on real images: a twelfth of PACS, unchanged and with twenty faults planted."""

import os
import shutil
import tarfile
from pathlib import Path

import pytest
from PIL import Image

from riskmatch.data.doctor import examine_data

pytestmark = pytest.mark.needs_data
EVERY = 12


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """Every twelfth image, sorted by name."""
    archive = Path(os.environ.get("RISKMATCH_DATA", "nowhere")) / "PACS.tar"
    if not archive.exists():
        pytest.skip("needs PACS.tar in $RISKMATCH_DATA")
    root = tmp_path_factory.mktemp("pacs") / "PACS"
    with tarfile.open(archive) as packed:
        files = sorted((member for member in packed if member.isfile()), key=lambda m: m.name)
        for member in files[::EVERY]:
            path = root.parent / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(packed.extractfile(member).read())
    return root


def spoil(root):
    """Plant twenty faults; returns the kind and the path or domain of each."""
    names = {
        (domain.name, label.name): sorted(path.name for path in label.iterdir())
        for domain in root.iterdir()
        for label in domain.iterdir()
    }

    def file(domain, label, place):
        return root / domain / label / names[domain, label][place]

    planted = []

    def write_images(kind, path):
        planted.append((kind, str(path.relative_to(root)) if path.is_absolute() else str(path)))

    for place, (domain, label) in enumerate([("photo", "dog"), ("art_painting", "horse")]):
        path = file(domain, label, place)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        write_images("truncated", path)
    path = file("sketch", "horse", 0)
    path.write_bytes(path.read_bytes()[:-200])
    write_images("truncated", path)

    path = file("sketch", "dog", 0)
    content = bytearray(path.read_bytes())
    content[content.index(b"IDAT") + 40] ^= 255
    path.write_bytes(content)
    write_images("damaged", path)

    for domain in ("cartoon", "photo"):
        path = file(domain, "house", 0)
        path.write_bytes(b"")
        write_images("empty", path)
    path = file("cartoon", "dog", 0)
    path.write_text("<html>404</html>")
    write_images("no-image", path)

    path = file("sketch", "guitar", 0)
    write_images("wrong-extension", path.rename(path.with_suffix(".jpg")))
    path = file("photo", "guitar", 0)
    write_images("wrong-extension", path.rename(path.with_suffix(".dat")))

    source, path = file("photo", "horse", 0), root / "sketch/horse/copied.jpg"
    shutil.copy(source, path)
    write_images("leak", path)
    path = root / "sketch/elephant/copied.bmp"
    Image.open(file("cartoon", "elephant", 0)).save(path)
    write_images("leak", path)
    path = root / "photo/person/again.jpg"
    Image.open(file("art_painting", "person", 0)).resize((180, 180)).save(path, quality=70)
    write_images("near-duplicate", path)
    shutil.copy(file("photo", "elephant", 0), root / "photo/elephant/zz.jpg")
    write_images("duplicate", root / "photo/elephant/zz.jpg")
    shutil.copy(file("art_painting", "dog", 0), root / "art_painting/house/zz.jpg")
    write_images("label-conflict", root / "art_painting/house/zz.jpg")

    shutil.rmtree(root / "sketch/house")
    write_images("missing-class", Path("sketch"))
    (root / "cartoon/giraffe").rename(root / "cartoon/giraff")
    write_images("renamed-class", Path("cartoon"))
    write_images("misplaced", file("photo", "giraffe", 0).rename(root / "photo/stray.jpg"))
    (root / "art_painting/guitar/list.txt").write_text("guitars")
    write_images("stray", root / "art_painting/guitar/list.txt")
    path = file("art_painting", "elephant", 0)
    Image.open(path).resize((9, 9)).save(path)
    write_images("tiny-image", path)
    path = file("cartoon", "horse", 0)
    Image.open(path).convert("CMYK").save(path)
    write_images("odd-colours", path)
    return planted


def test_sample_of_pacs_differs_only_in_counts(sample):
    found = examine_data(sample)
    assert found.benchmark == "PACS"
    assert {f.kind for f in found.findings} == {"count"}


def test_twenty_planted_faults_are_found_and_nothing_else(sample, tmp_path):
    shutil.copytree(sample, tmp_path / "PACS")
    planted = spoil(tmp_path / "PACS")
    assert len(planted) == 20
    found = [f for f in examine_data(tmp_path / "PACS").findings if f.kind != "count"]
    assert sorted((f.kind, f.subject) for f in found) == sorted(planted)
    assert all(f.cure for f in found)
