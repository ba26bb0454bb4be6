"""Image batches: reproducible, also after kill -9, in bounded memory."""

import json
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from draw_batches import hashes
from pictures import pictures
from PIL import Image
from torchvision_reference import functional

from riskmatch.data import Batch, Domain, Sampler
from riskmatch.data.images.augment import AugmentationDraws, RandomView
from riskmatch.data.images.cache import image_domains
from riskmatch.data.images.index import index_folder
from riskmatch.data.sampler import stream
from riskmatch.engine.evaluate import parts_of, predict, scores

HERE = Path(__file__).parent


def draw(sampler, batches):
    return [next(sampler) for _ in range(batches)]


def same(one: Batch, other: Batch) -> bool:
    return torch.equal(one.x, other.x) and torch.equal(one.y, other.y)


@pytest.fixture
def domains(tmp_path):
    return image_domains(pictures(tmp_path / "data"), image_size=32, cache=tmp_path / "cache")


@pytest.mark.parametrize("stop", [1, 3, 8])
def test_restored_sampler_continues_bitwise_mid_epoch(domains, stop):
    def sampler():
        return Sampler(domains.domains, 3, seed=7, augment=domains.augment)

    whole, first, second = draw(sampler(), 9), sampler(), sampler()
    draw(first, stop)
    second.restore(first.state())
    assert all(map(same, draw(second, 9 - stop), whole[stop:]))


def test_augmentation_differs_between_epochs(domains):
    ink = domains.domains[0]  # five images
    first, second = draw(Sampler([ink], 5, seed=0, augment=domains.augment), 2)
    plain = draw(Sampler([ink], 5, seed=0, augment=None), 2)
    assert same(*plain)
    views = {tuple(x.flatten().tolist()) for batch in (first, second) for x in batch.x}
    assert len(views) == 10


def test_appended_domain_changes_neither_order_nor_augmentation(domains):
    ink, oil, _ = domains.domains
    alone = Sampler([oil], 3, seed=0, augment=domains.augment)
    together = Sampler([oil, ink], 3, seed=0, augment=domains.augment)
    for _ in range(4):
        assert same(next(alone), next(together).split()[0])


def test_prepended_domain_changes_no_order(domains):
    ink, oil, _ = domains.domains
    alone, together = (Sampler(some, 3, seed=0) for some in ([oil], [ink, oil]))
    for _ in range(4):
        assert same(next(alone), next(together).split()[1])


def test_killed_process_continues_bitwise(tmp_path):
    """Each process prints hashes of its batches; the first is killed mid-epoch."""
    pictures(tmp_path / "data")

    def run(start, stop, kill=False):
        words = [str(HERE / "draw_batches.py"), str(tmp_path), str(start), str(stop)]
        lines = []
        with subprocess.Popen(
            [sys.executable, *words], stdout=subprocess.PIPE, text=True
        ) as process:
            for line in process.stdout:
                lines.append(line.strip())
                if kill and len(lines) == 3:
                    process.send_signal(signal.SIGKILL)
        return lines

    killed = run(0, 10**9, kill=True)[:3]
    after = run(3, 9)
    whole = list(hashes(tmp_path, 0, 9))
    assert killed + after == whole
    assert len(set(whole)) == 9


class MeanColour(torch.nn.Module):
    """Two classes: dark and light images."""

    def forward(self, x):
        features = x.float().mean((2, 3)) / 255
        mean = features.mean(1)
        return features, torch.stack([mean, 0.5 - mean], 1)


def test_stored_images_give_the_same_scores_as_memory(domains):
    photo = domains.domains[2]
    loaded = Domain("photo", photo.x[:], photo.y)
    stored, kept = (
        scores(predict(MeanColour(), parts_of({"photo": {"val": x}})), ["accuracy"])
        for x in (photo, loaded)
    )
    assert stored == kept


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_memory_stays_small_on_large_data(tmp_path):
    """A sparse cache of 2 GB: batches, and a whole pass of evaluation."""
    completed = subprocess.run(
        [sys.executable, str(HERE / "walk_cache.py"), str(tmp_path / "large.rgb")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    megabytes = json.loads(completed.stdout)
    assert megabytes["stored"] > 2000
    assert megabytes["grown by batches"] < 100
    assert megabytes["grown by evaluation"] < 100


@pytest.fixture(scope="module")
def some_of_pacs(tmp_path_factory):
    """A few images of each domain and class of PACS, from its archive."""
    archive = Path(os.environ.get("RISKMATCH_DATA", "")) / "PACS.tar"
    if not archive.is_file():
        pytest.skip("needs PACS.tar in $RISKMATCH_DATA")
    root, taken = tmp_path_factory.mktemp("pacs"), {}
    with tarfile.open(archive) as tar:
        for member in tar:
            parts = Path(member.name).parts
            if member.isfile() and taken.setdefault(parts[-3:-1], 0) < 2:
                taken[parts[-3:-1]] += 1
                target = root.joinpath(*parts[-3:])
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(tar.extractfile(member).read())
    return root


@pytest.mark.needs_data
def test_real_images_match_domainbed(some_of_pacs, tmp_path):
    """Up to the rounding to eight bits that Pillow does after every change."""
    index = index_folder(some_of_pacs)
    assert len(index) == 4 * 7 * 2
    tv, data = functional(), image_domains(index, cache=tmp_path)
    names = ["adjust_brightness", "adjust_contrast", "adjust_saturation", "adjust_hue"]
    for domain in data.domains:
        x = domain.x[:]
        assert x.shape[1:] == (3, 227, 227)
        draws = AugmentationDraws.draw(len(x), 227, stream("views", domain.name))
        ours = RandomView(224)(x, stream("views", domain.name))
        for i, (top, left, height, width) in enumerate(draws.boxes.tolist()):
            image = Image.fromarray(x[i].permute(1, 2, 0).numpy())
            image = tv.resized_crop(image, top, left, height, width, [224, 224])
            image = tv.horizontal_flip(image) if draws.flips[i] else image
            for change in draws.order:
                image = getattr(tv, names[change])(image, draws.factors[i, change].item())
            image = tv.rgb_to_grayscale(image, 3) if draws.greys[i] else image
            error = np.abs(np.asarray(image) - 255 * ours[i].permute(1, 2, 0).numpy())
            assert error.mean() < 3
            assert error.max() < 16
