"""Images through a whole run: the same bits again, after kill -9, and in bounded memory."""

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
from riskmatch.data.images.augment import RandomView
from riskmatch.data.images.choices import Choices
from riskmatch.data.images.dataset import image_domains
from riskmatch.data.images.folder import index_folder
from riskmatch.data.streams import stream
from riskmatch.engine.evaluate import predict, scores

HERE = Path(__file__).parent


def draw(sampler, batches):
    return [next(sampler) for _ in range(batches)]


def same(one: Batch, other: Batch) -> bool:
    return torch.equal(one.x, other.x) and torch.equal(one.y, other.y)


@pytest.fixture
def domains(tmp_path):
    return image_domains(pictures(tmp_path / "data"), image_size=32, cache=tmp_path / "cache")


@pytest.mark.parametrize("stop", [1, 3, 8])
def test_a_restored_sampler_gives_the_same_bits_in_mid_epoch(domains, stop):
    def sampler():
        return Sampler(domains.domains, 3, seed=7, augment=domains.augment)

    whole, first, second = draw(sampler(), 9), sampler(), sampler()
    draw(first, stop)
    second.restore(first.state())
    assert all(map(same, draw(second, 9 - stop), whole[stop:]))


def test_the_same_image_looks_different_each_time_it_is_drawn(domains):
    ink = domains.domains[0]  # five images
    first, second = draw(Sampler([ink], 5, seed=0, augment=domains.augment), 2)
    plain = draw(Sampler([ink], 5, seed=0, augment=None), 2)
    assert same(*plain)
    looks = {tuple(x.flatten().tolist()) for batch in (first, second) for x in batch.x}
    assert len(looks) == 10


def test_a_domain_behind_it_changes_neither_order_nor_augmentation(domains):
    ink, oil, _ = domains.domains
    alone = Sampler([oil], 3, seed=0, augment=domains.augment)
    together = Sampler([oil, ink], 3, seed=0, augment=domains.augment)
    for _ in range(4):
        assert same(next(alone), next(together).split()[0])


def test_a_domain_before_it_changes_no_order(domains):
    ink, oil, _ = domains.domains
    alone, together = (Sampler(some, 3, seed=0) for some in ([oil], [ink, oil]))
    for _ in range(4):
        assert same(next(alone), next(together).split()[1])


def test_a_process_that_is_killed_goes_on_with_the_same_bits(tmp_path):
    """Each life draws batches and notes their hashes; the first is killed in mid-epoch."""
    pictures(tmp_path / "data")

    def life(start, stop, kill=False):
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

    killed = life(0, 10**9, kill=True)[:3]
    after = life(3, 9)
    whole = list(hashes(tmp_path, 0, 9))
    assert killed + after == whole
    assert len(set(whole)) == 9


class MeanColour(torch.nn.Module):
    """Two classes, by whether an image is dark."""

    def forward(self, x):
        features = x.float().mean((2, 3)) / 255
        mean = features.mean(1)
        return features, torch.stack([mean, 0.5 - mean], 1)


def test_scores_on_the_disk_are_those_in_memory(domains):
    photo = domains.domains[2]
    loaded = Domain("photo", photo.x[:], photo.y)
    stored, kept = (scores(predict(MeanColour(), {"photo": {"val": x}})) for x in (photo, loaded))
    assert stored == kept


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_memory_of_its_own_stays_small_on_data_that_are_large(tmp_path):
    """A cache of 2 GB with holes for pixels: batches, and a whole pass of evaluation."""
    told = subprocess.run(
        [sys.executable, str(HERE / "walk_cache.py"), str(tmp_path / "large.rgb")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    megabytes = json.loads(told.stdout)
    assert megabytes["stored"] > 2000
    assert megabytes["grown by batches"] < 100
    assert megabytes["grown by evaluation"] < 100


@pytest.fixture(scope="module")
def some_of_pacs(tmp_path_factory):
    """A few images of each domain and class of PACS, from its archive."""
    archive = Path(os.environ.get("RISKMATCH_DATA", "")) / "PACS.tar"
    if not archive.is_file():
        pytest.skip("needs PACS.tar in the folder that RISKMATCH_DATA names")
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
def test_real_images_look_as_they_do_in_domainbed(some_of_pacs, tmp_path):
    """In steps of eight bits, to which Pillow rounds after every change, and so the hue."""
    index = index_folder(some_of_pacs)
    assert len(index) == 4 * 7 * 2
    tv, found = functional(), image_domains(index, cache=tmp_path)
    names = ["adjust_brightness", "adjust_contrast", "adjust_saturation", "adjust_hue"]
    for domain in found.domains:
        x = domain.x[:]
        assert x.shape[1:] == (3, 227, 227)
        choices = Choices.draw(len(x), 227, stream("views", domain.name))
        ours = RandomView(224)(x, stream("views", domain.name))
        for i, (top, left, height, width) in enumerate(choices.boxes.tolist()):
            image = Image.fromarray(x[i].permute(1, 2, 0).numpy())
            image = tv.resized_crop(image, top, left, height, width, [224, 224])
            image = tv.horizontal_flip(image) if choices.flips[i] else image
            for change in choices.order:
                image = getattr(tv, names[change])(image, choices.factors[i, change].item())
            image = tv.rgb_to_grayscale(image, 3) if choices.greys[i] else image
            error = np.abs(np.asarray(image) - 255 * ours[i].permute(1, 2, 0).numpy())
            assert error.mean() < 3
            assert error.max() < 16
