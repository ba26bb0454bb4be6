import multiprocessing
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_pictures import Darker, pictures, two_domains

from riskmatch.data.domain import StoredImages
from riskmatch.data.features import random_view, write_features
from riskmatch.data.images.cache import image_domains
from riskmatch.data.images.index import index_folder
from riskmatch.models import seeded_trunk, trunk
from riskmatch.models.embedding import embed, hash_inputs

pytest.importorskip("efficientnet_lite_pytorch")


class Calls(list):
    def __call__(self, *arguments):
        self.append(arguments)


def embedded(domains, cache, options=None, **settings):
    """The features, and the calls of on_progress."""
    calls = Calls()
    network = seeded_trunk("lite0", options or {})
    return embed(domains, network, cache=cache, on_progress=calls, **settings), calls


def test_embed_replaces_only_the_inputs(tmp_path):
    domains = two_domains()
    features, calls = embedded(domains, tmp_path)
    backbone = trunk("lite0").eval()
    for before, after in zip(domains.domains, features.domains, strict=True):
        with torch.no_grad():
            assert torch.allclose(after.x, backbone(before.x), atol=1e-4)
        assert torch.equal(after.y, before.y)
    assert (features.names, features.input_shape, features.class_names) == (
        ("art", "photo"),
        (1280,),
        ("cat", "dog"),
    )
    assert features.augment is None
    assert calls == [("embedding", 5, 8), ("embedding", 8, 8)]


def test_cache_is_used_for_known_images_and_views(tmp_path):
    first, _ = embedded(two_domains(), tmp_path)
    again, calls = embedded(two_domains(), tmp_path)
    assert calls == []
    assert all(torch.equal(a.x, b.x) for a, b in zip(first.domains, again.domains, strict=True))
    domains = two_domains()
    changed = domains.domains[0].x.clone()
    changed[0, 0, 0, 0] ^= 1
    art = replace(domains.domains[0], x=changed)
    _, calls = embedded(replace(domains, domains=(art, domains.domains[1])), tmp_path)
    assert calls == [("embedding", 5, 8)]
    _, calls = embedded(two_domains(), tmp_path, views=2)
    assert calls == [("embedding", 10, 16), ("embedding", 16, 16)]
    _, calls = embedded(two_domains(augment=Darker(0.2)), tmp_path, views=2)
    assert len(calls) == 2


def test_a_part_a_link_and_a_moved_folder_are_not_embedded_again(tmp_path):
    rng = np.random.default_rng(0)
    for number in range(12):
        file = tmp_path / "pets" / "ab"[number % 2] / ("cat", "dog")[number // 6] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (20, 20, 3), np.uint8)).save(file)

    def embed_folder(name):
        domains = image_domains(index_folder(tmp_path / name), cache=tmp_path / "pixels")
        features, calls = embedded(domains, tmp_path / "features", views=2)
        rows = [row for domain in features.domains for row in domain.x]
        return rows, sum("embedding" in call for call in calls)

    whole, embeddings = embed_folder("pets")
    assert embeddings == 4  # of two domains, in two views
    (tmp_path / "part" / "b" / "dog").mkdir(parents=True)
    for number in (11, 7):
        source = tmp_path / "pets" / "b" / "dog" / f"{number}.png"
        shutil.copy(source, tmp_path / "part" / "b" / "dog" / f"renamed {number}.png")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "b").symlink_to(tmp_path / "pets" / "b")
    part, embeddings = embed_folder("part")
    assert embeddings == 0
    linked, embeddings = embed_folder("linked")
    assert embeddings == 0
    assert all(torch.equal(a, b) for a, b in zip(linked, whole[6:], strict=True))
    assert torch.equal(part[0], whole[9])  # 11.png, 7.png and 9.png, sorted by name
    assert torch.equal(part[1], whole[10])
    (tmp_path / "pets").rename(tmp_path / "elsewhere")
    assert embed_folder("elsewhere")[1] == 0


def test_cache_depends_on_the_weights(tmp_path):
    one, _ = embedded(two_domains(), tmp_path)
    other, calls = embedded(two_domains(), tmp_path, options={"pretrained": False})
    assert len(calls) == 2
    assert not torch.allclose(one.domains[0].x, other.domains[0].x)


def test_stored_images_have_the_features_of_tensors(tmp_path):
    domains = two_domains()
    stored = tuple(
        replace(domain, x=StoredImages(domain.x.permute(0, 2, 3, 1).contiguous()))
        for domain in domains.domains
    )
    one, _ = embedded(domains, tmp_path / "one")
    other, _ = embedded(replace(domains, domains=stored), tmp_path / "other")
    for a, b in zip(one.domains, other.domains, strict=True):
        assert torch.allclose(a.x, b.x, atol=1e-4)


def test_stored_images_are_hashed_by_file_and_rows_without_reading():
    unread = torch.empty(4, 2, 2, 3, dtype=torch.uint8, device="meta")
    images, others = StoredImages(unread, content="a"), StoredImages(unread, content="b")
    some = images.take(torch.tensor([0, 2]))
    inputs = [images, others, some, images.take(torch.tensor([2, 0]))]
    assert len({hash_inputs(x) for x in inputs}) == 4
    assert hash_inputs(some) == hash_inputs(images.take(torch.tensor([0, 2])))


def test_first_view_is_the_image_and_others_are_augmented(tmp_path):
    one, _ = embedded(two_domains(), tmp_path)
    three, _ = embedded(two_domains(), tmp_path, views=3)
    art = three.domains[0].x
    assert art.shape == (5, 3, 1280)
    assert torch.equal(art[:, 0], one.domains[0].x)
    assert not torch.allclose(art[:, 1], art[:, 0])
    assert not torch.allclose(art[:, 1], art[:, 2])


def test_random_view_is_uniform_and_independent():
    x = torch.arange(12.0).view(2, 3, 2)
    draws = torch.stack([random_view(x, torch.Generator().manual_seed(s)) for s in range(600)])
    for sample in range(2):
        values, counts = draws[:, sample, 0].unique(return_counts=True)
        assert values.tolist() == x[sample, :, 0].tolist()
        assert counts.min() > 150
        assert torch.equal(draws[:, sample, 1], draws[:, sample, 0] + 1)
    pairs = (draws[:, 0, 0] / 2 == draws[:, 1, 0] / 2 - 3).double().mean()
    assert 0.2 < pairs < 0.47  # independent draws agree in a third of the cases


def test_validation_samples_are_embedded(tmp_path):
    domains = two_domains()
    art = replace(domains.domains[0], validation=pictures("art", 2, seed=9))
    features, _ = embedded(replace(domains, domains=(art, domains.domains[1])), tmp_path)
    assert features.domains[0].validation.x.shape == (2, 1280)


def _embed_in_a_process(cache, results):
    torch.set_num_threads(1)
    features, calls = embedded(two_domains(), cache)
    results.put((features.domains[0].x.sum().item(), len([c for c in calls if "emb" in c[0]])))


def test_two_processes_embed_each_domain_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [
        context.Process(target=_embed_in_a_process, args=(tmp_path, results)) for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    (one, first), (other, second) = results.get(timeout=300), results.get(timeout=300)
    for worker in workers:
        worker.join()
    assert one == other
    assert first + second == 2
    assert len(list(tmp_path.glob("*.safetensors"))) == 2


@pytest.mark.parametrize(
    ("changes", "settings", "reason"),
    [
        ({}, {"views": 0}, "views must be at least 1, got 0"),
        ({"augment": None}, {"views": 2}, "views=2 needs augmentation, which 'pets'"),
    ],
)
def test_invalid_views_raise(tmp_path, changes, settings, reason):
    with pytest.raises(ValueError, match=reason):
        embedded(two_domains(**changes), tmp_path, **settings)


@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_features_file_has_one_row_per_sample_and_view(tmp_path, suffix, views):
    domains = two_domains()
    shape = (4,) if views == 1 else (views, 4)
    features = replace(
        domains, domains=tuple(replace(d, x=torch.rand(len(d), *shape)) for d in domains.domains)
    )
    file = tmp_path / f"pets{suffix}"
    write_features(features, file)
    if suffix == ".npz":
        table = dict(np.load(file))
    else:
        parquet = pytest.importorskip("pyarrow.parquet").read_table(file).to_pydict()
        table = {name: np.array(values) for name, values in parquet.items()}
    assert list(table) == ["domain", "label", "class", "view", "features"]
    expected = torch.cat([d.x.reshape(-1, 4) for d in features.domains]).numpy()
    assert np.array_equal(table["features"].astype(np.float32), expected)
    assert table["domain"].tolist() == ["art"] * 5 * views + ["photo"] * 3 * views
    assert table["view"].tolist() == list(range(views)) * 8
    labels = np.repeat([0, 1, 0, 1, 0, 0, 1, 0], views)
    assert table["label"].tolist() == labels.tolist()
    assert table["class"].tolist() == [("cat", "dog")[label] for label in labels]


def test_unknown_type_of_features_file_raises(tmp_path):
    with pytest.raises(ValueError, match=r"Unknown type of features file '.parq'. Did you mean"):
        write_features(two_domains(), tmp_path / "pets.parq")


@pytest.mark.parametrize("place", [None, -3])  # the end is missing, or a byte of a feature differs
def test_damaged_features_are_named_and_made_again(tmp_path, place):
    first, _ = embedded(two_domains(), tmp_path)
    path = min(tmp_path.glob("*.safetensors"))
    content = bytearray(path.read_bytes())
    if place is None:
        del content[-100:]
    else:
        content[place] ^= 1
    path.write_bytes(content)
    with pytest.warns(UserWarning, match=path.name):
        again, calls = embedded(two_domains(), tmp_path)
    assert len(calls) == 1
    assert all(torch.equal(a.x, b.x) for a, b in zip(first.domains, again.domains, strict=True))
