import re

import pytest
from trees import contents, pacs_files, plant, small, small_pacs

from riskmatch.data import DATASETS, load
from riskmatch.data.fetch import HUB
from riskmatch.data.images.benchmark import (
    BENCHMARKS,
    check_counts,
    find_benchmark,
    index_benchmark,
)

DOMAINNET = BENCHMARKS["domainnet"]
OFFICEHOME = BENCHMARKS["officehome"]
PACS = BENCHMARKS["pacs"]
TERRAINCOGNITA = BENCHMARKS["terraincognita"]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("RISKMATCH_DATA", raising=False)


def stand_in(benchmark, root, folders=None, classes=None):
    """One image per class in the first domain, one image in each other."""
    names = classes or benchmark.class_names
    folders = folders or [part.folder for part in benchmark.parts]
    files = {f"{folders[0]}/{label}/1.jpg": b"" for label in names}
    return plant(root, files | {f"{folder}/{names[0]}/1.jpg": b"" for folder in folders})


def test_declarations_add_up_to_the_published_totals():
    totals = {"pacs": 9_991, "vlcs": 10_729, "officehome": 15_588, "terraincognita": 24_788}
    totals["domainnet"] = 586_575
    assert {name: benchmark.images for name, benchmark in BENCHMARKS.items()} == totals
    for name, benchmark in BENCHMARKS.items():
        assert benchmark.classes == (len(benchmark.class_names) or benchmark.classes)
        assert list(benchmark.class_names) == sorted(benchmark.class_names)
        source = DATASETS[name]
        assert (source.domains, source.classes) == (benchmark.domains, benchmark.classes)
        assert (source.samples, source.licence) == (benchmark.images, benchmark.licence)
        assert source.cure() == f"riskmatch data get {name}"


def test_checksums_are_valid_and_file_names_unique():
    files = [file for b in BENCHMARKS.values() for origin in b.origins for file in origin.files]
    assert len({file.name for file in files}) == len(files)
    for file in files:
        for url in file.urls:
            hub = HUB.fullmatch(url)
            assert re.fullmatch(r"main|[0-9a-f]{40}", hub[2]) if hub else url.startswith("http")
        assert re.fullmatch(
            r"md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", file.checksum or "md5:" + "0" * 32
        )


@pytest.mark.parametrize("name", ["pacs", "PACS", "Pacs"])
def test_folder_is_found_in_search_order_in_any_case(tmp_path, monkeypatch, name):
    cached = plant(tmp_path / "cache" / "riskmatch" / name, pacs_files())
    assert find_benchmark(PACS) == find_benchmark(PACS, tmp_path / "nowhere") == cached
    variable = plant(tmp_path / "variable" / name, pacs_files())
    monkeypatch.setenv("RISKMATCH_DATA", str(variable.parent))
    assert find_benchmark(PACS) == variable
    given = plant(tmp_path / "given" / name, pacs_files())
    assert find_benchmark(PACS, given.parent) == find_benchmark(PACS, given) == given
    assert DATASETS["pacs"].cure(given.parent) is None


def test_folder_without_all_domains_is_not_the_benchmark(tmp_path):
    files = {path: b"" for path in pacs_files() if not path.startswith("photo")}
    assert find_benchmark(PACS, plant(tmp_path / "pacs", files)) is None


def test_domain_names_differ_from_archive_folders(tmp_path):
    labels = [f"class{number:03d}" for number in range(345)]
    index = index_benchmark(DOMAINNET, stand_in(DOMAINNET, tmp_path, classes=labels))
    assert index.domain_names == ("clip", "info", "paint", "quick", "real", "sketch")
    assert {path.split("/")[0] for path in index.paths} == {p.folder for p in DOMAINNET.parts}
    assert [sum(row.values()) for row in index.counts().values()] == [345, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("real", ["Real World", "RealWorld", "real_world"])
def test_other_spellings_of_a_folder_are_the_same_domain(tmp_path, real):
    labels = [f"class{number:02d}" for number in range(65)]
    root = stand_in(OFFICEHOME, tmp_path, ["Art", "clipart", "Product", real], labels)
    assert index_benchmark(OFFICEHOME, root).domain_names[-1] == "Real World"


def test_class_missing_everywhere_shifts_no_label(tmp_path):
    files = {path: b"" for path in pacs_files() if "/giraffe/" not in path}
    index = index_benchmark(small_pacs(), plant(tmp_path, files))
    assert index.class_names == PACS.class_names
    assert "giraffe" not in {index.class_names[label] for label in index.labels}
    for path, label in zip(index.paths, index.labels, strict=True):
        assert path.split("/")[1] == PACS.class_names[label]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("photo/girafe/1.jpg", "Unknown class of 'pacs' 'girafe'. Did you mean 'giraffe'?"),
        ("phto/dog/1.jpg", "Unknown domain of 'pacs' 'phto'. Did you mean 'photo'?"),
    ],
)
def test_unknown_names_are_refused(tmp_path, extra, message):
    root = plant(tmp_path, pacs_files() | {extra: b""})
    with pytest.raises(ValueError, match=re.escape(message)):
        index_benchmark(PACS, root)


def test_number_of_classes_is_checked_without_names(tmp_path):
    root = stand_in(OFFICEHOME, tmp_path, classes=["Alarm_Clock", "Backpack"])
    with pytest.raises(ValueError, match=r"OfficeHome in .* has 2 classes, not 65\."):
        index_benchmark(OFFICEHOME, root)


def test_other_counts_are_named_by_domain(tmp_path):
    root = plant(tmp_path, pacs_files())
    check_counts(small_pacs(), index_benchmark(small_pacs(), root))
    (root / min(path for path in contents(root) if path.startswith("sketch"))).unlink()
    with pytest.raises(ValueError, match=r"^sketch has 3 images, not 4$"):
        check_counts(small_pacs(), index_benchmark(small_pacs(), root))


def test_counts_of_reissued_archives_pass(tmp_path):
    index = index_benchmark(TERRAINCOGNITA, stand_in(TERRAINCOGNITA, tmp_path))
    check_counts(small(TERRAINCOGNITA, 7, reissued=len(index)), index)
    with pytest.raises(ValueError, match="location_100 has 10 images, not 4,879; location_38"):
        check_counts(TERRAINCOGNITA, index)


def test_missing_benchmark_is_reported_with_folders_and_cure(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        load("pacs", data_dir=tmp_path / "given")
    message = str(caught.value)
    assert f"{tmp_path}/given/pacs" in message
    assert "riskmatch data get pacs" in message
    assert "art_painting/dog/<image>" in message
