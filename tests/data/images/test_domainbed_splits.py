"""DomainBed's splits of folders of images."""

import json
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from numpy.random import RandomState
from pictures import pictures

from riskmatch import load_run, train
from riskmatch.data import load
from riskmatch.data.domain import Domain
from riskmatch.data.images.benchmark import BENCHMARKS, index_benchmark
from riskmatch.data.images.cache import index_domains
from riskmatch.data.images.index import Entry, ImageIndex
from riskmatch.data.splits import check_splits, domainbed_rows, splits
from riskmatch.files import seed_hash
from riskmatch.runs.config import RunConfig
from riskmatch.sweep import Protocol


@pytest.mark.needs_data
def test_validation_images_of_pacs_are_those_of_domainbed(tmp_path):
    folder = Path(os.environ.get("RISKMATCH_DATA", "nowhere"))
    archive, known = folder / "PACS.tar", folder / "domainbed-splits.json"
    if not archive.is_file() or not known.is_file():
        pytest.skip("needs PACS.tar and domainbed-splits.json in the folder RISKMATCH_DATA")
    with tarfile.open(archive) as packed:
        for member in packed:
            if member.isfile():  # names are enough
                (tmp_path / member.name).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / member.name).touch()
    index = index_benchmark(BENCHMARKS["pacs"], tmp_path / "PACS")
    validation = json.loads(known.read_text())["validation"]
    assert len(validation) == 3
    for trial, by_domain in validation.items():
        parts = splits(index_domains(index), int(trial), rule="domainbed")
        for domain, images in by_domain.items():
            held_out = [index.paths[row] for row in parts[domain]["val"].x.tolist()]
            assert {path.partition("/")[2] for path in held_out} == set(images)

            assert len(held_out) + len(parts[domain]["train"]) == index.domain_sizes()[domain]


def test_images_are_numbered_as_image_folder_lists_them():
    paths = ["a/dog/1.png", "a/dog/10.png", "a/Dog/1.png", "a/cat/2.PNG", "b/cat/1.jpg"]
    names = {"dog": "x", "Dog": "y", "cat": "z"}
    entries = [Entry(path, names[path.split("/")[1]], path[0]) for path in paths]
    index = ImageIndex.of("pets", Path("data"), entries).ranked()
    listed = [sorted(p for p in paths if p[0] == name) for name in "ab"]
    assert {p: listed[d].index(p) for p, d in zip(index.paths, index.domains, strict=True)} == dict(
        zip(index.paths, index.ranks, strict=True)
    )
    assert index.without(["a/cat/2.PNG"]).ranks == ()
    moving = ImageIndex.of("pets", Path("data"), [*entries, Entry("a/cat/3.gif", "z", "a")])
    assert moving.ranked().ranks == ()  # ImageFolder does not list it


def test_split_is_that_of_the_definition_in_any_order_of_the_samples():
    generator = torch.Generator().manual_seed(0)
    for place, n in enumerate((5, 23, 100)):
        ranks = torch.randperm(n, generator=generator)
        domain = Domain("d", ranks.clone(), torch.zeros(n, dtype=torch.long), ranks=ranks)
        numbers = list(range(n))
        RandomState(seed_hash(7, place)).shuffle(numbers)
        rows = domainbed_rows(domain, 7, place)
        assert set(domain.x[rows["val"]].tolist()) == set(numbers[: n // 5])
        assert set(domain.x[rows["train"]].tolist()) == set(numbers[n // 5 :])


def test_data_without_an_order_of_files_are_refused(tmp_path):
    y = torch.zeros(10, dtype=torch.long)
    plain = Domain("clinic", torch.zeros(10, 2), y)
    ordered = replace(plain, ranks=torch.arange(10))
    check_splits([ordered], rule="domainbed")
    for domain, message in (
        (plain, "'clinic' is no such folder, whole"),
        (replace(ordered, groups=torch.arange(10)), "'clinic' has groups"),
        (ordered.take(torch.arange(4)), "has 4 sample"),
    ):
        with pytest.raises(ValueError, match=message):
            check_splits([domain], rule="domainbed")
        with pytest.raises(ValueError, match=message):
            splits([domain], 0, rule="domainbed")


def test_rule_is_part_of_the_id_only_where_it_is_not_the_usual_one():
    usual = RunConfig("pacs", ("photo",), "erm")
    assert replace(usual, split="hash").id == usual.id
    assert replace(usual, split="domainbed").id != usual.id
    with pytest.raises(ValueError, match="Unknown split 'random'"):
        replace(usual, split="random")


@pytest.mark.parametrize("frozen", [False, True])
def test_run_is_trained_and_stored_with_the_split(tmp_path, frozen):
    pets = tmp_path / "pets"
    pictures(pets)
    run = train(
        str(pets),
        "erm",
        "photo",
        split="domainbed",
        trial=3,
        out=tmp_path / "runs",
        frozen=frozen,
        steps=2,
        eval_every=2,
        batch_size=2,
        data_options={"image_size": 32},
        model_options={"pretrained": False},
    )
    stored = load_run(run.folder)
    assert stored.config.split == "domainbed"
    domains = load(str(pets), {"image_size": 32}).domains
    for place, domain in enumerate(domains):
        numbers = list(range(len(domain)))
        RandomState(seed_hash(3, place)).shuffle(numbers)
        labels = domain.y[torch.tensor(sorted(numbers[: len(domain) // 5]))]
        rows = stored.predictions.query(f"domain == '{domain.name}' and split == 'val'")
        assert rows["label"].tolist() == labels.tolist()


def test_plan_draws_and_splits_as_domainbed():
    plan = Protocol(
        "pacs",
        ("rdm",),
        (("photo",),),
        2,
        2,
        choices={"split": "domainbed"},
        preset="domainbed",
        domainbed=True,
    )
    configs = [run.config for run in plan.runs()]
    assert [config.lr for config in configs][2:] == [2.7028930742148706e-05, 2.2352558725944602e-05]
    assert [config.batch_size for config in configs] == [88, 88, 97, 70]
    assert all(config.split == "domainbed" and config.steps == 5001 for config in configs)
