"""Images that are decoded at every access, and batches that are drawn ahead."""

import dataclasses
import os
import shutil
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from pictures import picture

from riskmatch import load_run
from riskmatch.cli.app import main
from riskmatch.data.images.augment import RandomView
from riskmatch.data.images.cache import DecodedOnAccess, image_domains
from riskmatch.data.images.decode import ImageError
from riskmatch.data.images.index import index_folder
from riskmatch.data.sampler import AHEAD, Prefetched, Sampler
from riskmatch.files import CACHE, user_folder

CPU = torch.device("cpu")


@pytest.fixture
def pets(tmp_path, monkeypatch):
    """Two domains with two classes of six images of different sizes, in ``pets``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for number in range(24):
        place = f"{('ink', 'oil')[number % 2]}/{('cat', 'dog')[number // 2 % 2]}"
        picture(tmp_path / "pets" / place / f"{number}.png", 30 + number, number)
    return index_folder(tmp_path / "pets")


def decoded_files(folder):
    return list(folder.rglob("*.rgb"))


def test_images_are_the_same_without_a_cache_and_none_is_written(pets, tmp_path, monkeypatch):
    cached = image_domains(pets, 32)
    shutil.rmtree(tmp_path / "cache")
    monkeypatch.setenv(CACHE, "off")
    direct = image_domains(pets, 32)
    assert not decoded_files(tmp_path)
    rows = torch.tensor([4, 0, 3])
    for one, other in zip(cached.domains, direct.domains, strict=True):
        assert one.x.shape == other.x.shape
        assert torch.equal(one.x[:], other.x[:])
        assert torch.equal(one.x.take(rows)[:], other.x[rows])
        assert one.x.fingerprint() == other.x.fingerprint()
        assert one.x.contents() == other.x.contents()
    assert len(direct.domains[0].x[torch.zeros(0, dtype=torch.long)]) == 0


def test_a_disk_without_room_is_said_and_images_are_decoded_at_every_use(
    pets, tmp_path, monkeypatch
):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=50_000))
    with pytest.warns(UserWarning, match=r"Decoded images take 0.0 GB.*--cache FOLDER"):
        domains = image_domains(pets, 32)
    assert isinstance(domains.domains[0].x._pixels, DecodedOnAccess)
    assert not decoded_files(tmp_path)
    monkeypatch.undo()


def test_a_chosen_folder_holds_the_caches(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE, str(tmp_path / "disk"))
    assert user_folder("cache") == tmp_path / "disk" / "riskmatch"
    assert user_folder("state") != tmp_path / "disk"


def test_a_run_has_the_same_record_without_a_cache(pets, monkeypatch):
    monkeypatch.setenv(CACHE, "auto")  # restores what the command sets
    words = (
        "train pets --method erm --test-domain oil --steps 3 --eval-every 3 --batch-size 4 "
        "--data-option image_size=32 --model-option pretrained=false --quiet"
    )
    for where in ("off", "folder"):
        assert main([*words.split(), "--cache", where, "--out", f"runs-{where}"]) == 0
    assert os.environ[CACHE] == os.path.abspath("folder")  # jobs start in other folders
    first, second = (load_run(next(Path(out).iterdir())) for out in ("runs-off", "runs-folder"))
    same = {"seconds": 0, "seconds_per_step": 0, "peak_memory": 0}
    records = [
        [dataclasses.replace(e, **same) for e in run.record.evaluations] for run in (first, second)
    ]
    assert records[0] == records[1]
    assert first.config.id == second.config.id


def test_cache_needs_a_value(capsys):
    assert main(["methods", "--cache"]) == 2
    assert capsys.readouterr().err == "riskmatch: --cache needs a folder, off or auto.\n"


def sampler(pets):
    return Sampler(image_domains(pets, 32).domains, 4, seed=0, augment=RandomView(32))


def test_batches_drawn_ahead_are_those_drawn_one_after_the_other(pets):
    expected, drawn = sampler(pets), sampler(pets)
    ahead = Prefetched(drawn, drawn.draw, CPU)
    for _ in range(5):
        one, other = next(expected), next(ahead)
        assert torch.equal(one.x, other.x)
        assert torch.equal(one.y, other.y)
    assert drawn.state() == {"drawn": 5}  # not those in flight
    continued = sampler(pets)
    continued.restore(drawn.state())
    assert torch.equal(next(Prefetched(continued, continued.draw, CPU)).x, next(expected).x)


def test_no_more_batches_than_stated_are_drawn_ahead(pets):
    drawn, numbers = sampler(pets), []
    ahead = Prefetched(drawn, lambda number: numbers.append(number) or drawn.draw(number), CPU)
    next(ahead)
    ahead._thread.shutdown(wait=True)
    assert numbers == list(range(1 + AHEAD))


def test_an_image_that_cannot_be_read_is_named_by_the_batch_that_has_it(
    pets, tmp_path, monkeypatch
):
    monkeypatch.setenv(CACHE, "off")
    batches = sampler(pets)
    (tmp_path / "pets/ink/cat/0.png").write_bytes(b"no image")
    ahead = Prefetched(batches, batches.draw, CPU)
    with pytest.raises(ImageError, match=r"0\.png"):
        list(islice(ahead, 10))
