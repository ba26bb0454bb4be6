import dataclasses
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from random_images import random_image

from riskmatch.data.doctor import duplicates as duplicates_module
from riskmatch.data.doctor.duplicates import alike, check_duplicates, near_duplicates
from riskmatch.data.doctor.files import Inspection, Problem, inspect_files
from riskmatch.data.doctor.published import BenchmarkCopy, check_classes, check_counts, recognise
from riskmatch.data.images.benchmark import BENCHMARKS
from riskmatch.data.images.index import Entry, ImageIndex

DOMAINNET = BENCHMARKS["domainnet"]
OFFICEHOME = BENCHMARKS["officehome"]
PACS = BENCHMARKS["pacs"]
TERRAINCOGNITA = BENCHMARKS["terraincognita"]


def counted(counts, name="made"):
    """An index of files that need not exist, from counts by domain and class."""
    entries = [
        Entry(f"{domain}/{label}/{number}.jpg", label, domain)
        for domain, classes in counts.items()
        for label, images in classes.items()
        for number in range(images)
    ]
    return ImageIndex.of(name, Path(name), entries)


def spread(benchmark, images=None):
    """Counts of a copy, spread over the classes; ``images`` overrides the published counts."""
    counts = {}
    for part in benchmark.parts:
        total, classes = (images or {}).get(part.name, part.images), len(benchmark.class_names)
        counts[part.folder] = {
            name: total // classes + (place < total % classes)
            for place, name in enumerate(benchmark.class_names)
        }
    return counts


def found(index, benchmark=None):
    copy = BenchmarkCopy.of(index, benchmark)
    findings = [*check_counts(index, copy), *check_classes(index, copy)]
    return [(f.kind, f.severity, f.subject, f.message, f.cure) for f in findings]


NAMED = [benchmark for benchmark in BENCHMARKS.values() if benchmark.class_names]


@pytest.mark.parametrize("benchmark", NAMED, ids=lambda benchmark: benchmark.name)
def test_complete_copy_is_recognised_without_faults(benchmark):
    index = counted(spread(benchmark))
    assert recognise(index) is benchmark
    assert found(index, benchmark) == []


def test_copy_with_other_spelling_and_missing_domain_is_recognised():
    counts = spread(PACS)
    del counts["sketch"]
    counts["Art Painting"] = counts.pop("art_painting")
    index = counted(counts)
    assert recognise(index) is PACS
    kinds = [(kind, message) for kind, _, _, message, _ in found(index, PACS)]
    assert kinds == [
        ("count", "has 6,062 images; PACS was published with 9,991 (3,929 fewer)"),
        ("missing-domain", "lacks the domain 'sketch' of PACS"),
    ]


def test_copy_without_a_class_is_recognised():
    counts = spread(PACS)
    for classes in counts.values():
        del classes["person"]
    assert recognise(counted(counts)) is PACS


OWN = {
    "no like domains": ("ab", ["cat", "bee"]),
    "no like classes": (["sketch", "photo"], ["bee", "ant"]),
    "a few domains and classes of PACS": (["photo", "sketch"], ["dog", "horse", "house", "person"]),
    "all domains of PACS and many classes": (PACS.domains, [*PACS.class_names, *"abcdefghijkl"]),
    "two domains of OfficeHome": (["art", "product"], ["mug", "vase"]),
    "all domains of OfficeHome": (OFFICEHOME.domains, [f"class {n}" for n in range(50)]),
    "three domains of DomainNet": (["clipart", "real", "sketch"], ["apple", "bird", "cat"]),
    "all domains of DomainNet": (DOMAINNET.domains, ["apple", "bird", "cat"]),
}


@pytest.mark.parametrize(("domains", "classes"), OWN.values(), ids=list(OWN))
def test_other_data_is_not_taken_for_a_benchmark(domains, classes):
    index = counted({domain: dict.fromkeys(classes, 60) for domain in domains})
    assert recognise(index) is None
    assert {row[1] for row in found(index)} <= {"note"}


@pytest.mark.parametrize("benchmark", [OFFICEHOME, DOMAINNET], ids=lambda b: b.name)
def test_benchmark_without_class_names_is_recognised_by_their_number(benchmark):
    labels = {f"class {number}": 1 for number in range(benchmark.classes - 1)}
    index = counted(dict.fromkeys(benchmark.domains[1:], labels))
    assert recognise(index) is benchmark


def test_half_of_a_benchmark_is_a_copy_only_in_a_folder_of_its_name():
    half = {domain: dict.fromkeys(PACS.class_names[:4], 60) for domain in PACS.domains[:2]}
    assert recognise(counted(half, name="PACS")) is PACS
    assert recognise(counted(half)) is None
    assert found(counted(half)) == []


def test_reissued_terra_incognita_is_a_warning():
    reissued = {"location_100": 4_741, "location_38": 9_736, "location_43": 3_970}
    index = counted(spread(TERRAINCOGNITA, {**reissued, "location_46": 5_883}))
    assert len(index) == 24_330
    assert recognise(index) is TERRAINCOGNITA
    ((kind, severity, _, message, cure),) = found(index, TERRAINCOGNITA)
    assert (kind, severity) == ("count", "warning")
    assert message == "has 24,330 images; TerraIncognita was published with 24,788 (458 fewer)"
    assert "24,330" in cure


def test_unpublished_counts_are_faults_of_the_data_set_and_the_domain():
    index = counted(spread(TERRAINCOGNITA, {"location_46": 6_100}))
    (whole, domain) = found(index, TERRAINCOGNITA)
    assert whole[:2] == ("count", "fault")
    assert "24,766 images" in whole[3]
    assert domain[:3] == ("count", "fault", "location_46")
    assert domain[3] == "has 6,100 images; 6,122 were published (22 fewer)"
    assert domain[4].endswith("riskmatch data get terraincognita")


def test_severity_of_a_missing_class():
    def missing(counts, benchmark=None):
        rows = found(counted(counts), benchmark)
        return [row[1:4] for row in rows if row[0] == "missing-class"]

    row = ("photo", "has no image of the class 'dog'")
    assert missing({"photo": {"cow": 60}, "art": {"cow": 60, "dog": 9}}) == [("warning", *row)]
    counts = spread(PACS)
    dogs = counts["photo"].pop("dog")
    assert missing(counts, PACS) == [("fault", *row)]
    counts["photo"]["horse"] += dogs
    assert missing(counts, PACS) == [("note", *row)]


def test_one_class_in_all_is_a_fault():
    ((kind, severity, subject, message, _),) = found(counted({"a": {"cat": 60}, "b": {"cat": 60}}))
    assert (kind, severity, subject) == ("one-class", "fault", "the data set")
    assert "'cat'" in message


def test_class_missing_in_every_domain_is_a_fault():
    counts = spread(PACS)
    for classes in counts.values():
        del classes["person"]
    assert ("missing-class", "fault", "the data set") in [
        row[:3] for row in found(counted(counts), PACS)
    ]


@pytest.mark.parametrize(
    ("wrong", "benchmark", "severity"),
    [("giraff", PACS, "fault"), ("Giraffe", None, "fault"), ("giraff", None, "warning")],
)
def test_class_misspelt_in_one_domain(wrong, benchmark, severity):
    counts = spread(PACS)
    counts["cartoon"][wrong] = counts["cartoon"].pop("giraffe")
    ((kind, actual, domain, message, cure),) = found(counted(counts), benchmark)
    assert (kind, actual, domain) == ("renamed-class", severity, "cartoon")
    assert f"'{wrong}' where 'giraffe' is expected" in message
    assert f"ename cartoon/{wrong} to giraffe." in cure


def test_class_misspelt_in_every_domain():
    counts = spread(PACS)
    for classes in counts.values():
        classes["elefant"] = classes.pop("elephant")
    rows = found(counted(counts), PACS)
    assert sorted((kind, place) for kind, _, place, _, _ in rows) == [
        ("renamed-class", domain) for domain in PACS.domains
    ]


def test_similar_names_of_different_classes_are_not_misspellings():
    counts = {d: {"bus": 40, "school_bus": 40, "house": 40, "horse": 40} for d in "ab"}
    counts["a"] |= {"take 1": 9}
    counts["b"] |= {"take 2": 9}
    assert {row[0] for row in found(counted(counts))} == {"missing-class"}


def test_small_domain_and_small_class_are_warnings():
    rows = found(counted({"a": {"cat": 45, "cow": 4}, "b": {"cat": 60, "cow": 5}}))
    assert [row[:3] for row in rows] == [
        ("tiny-domain", "warning", "a"),
        ("tiny-class", "warning", "a"),
    ]
    assert "only 49 images" in rows[0][3]
    assert "only 4 images of the class 'cow'" in rows[1][3]


def duplicates(folder, images, benchmark=None, complete=()):
    """Findings by path, from images by path."""
    for path, image in images.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        image.save(folder / path)
    entries = [Entry(path, *path.split("/")[1::-1]) for path in images]
    index = ImageIndex.of("made", folder, entries)
    files = list(inspect_files([index.file(row) for row in range(len(index))]))
    copy = dataclasses.replace(BenchmarkCopy.of(index, benchmark), complete=frozenset(complete))
    return {f.path: f for f in check_duplicates(index, copy, files)}


def test_severity_of_duplicates(tmp_path):
    image = random_image(0)
    found = duplicates(
        tmp_path,
        {
            "a/cat/1.png": image,
            "a/cat/2.png": image,
            "a/cat/3.bmp": image,
            "a/cow/1.png": image,
            "b/cat/1.png": image,
            "b/cat/other.png": random_image(1),
        },
    )
    assert {path: (f.kind, f.severity) for path, f in found.items()} == {
        "a/cat/2.png": ("duplicate", "warning"),
        "a/cat/3.bmp": ("duplicate", "warning"),
        "a/cow/1.png": ("label-conflict", "fault"),
        "b/cat/1.png": ("leak", "fault"),
    }
    assert {f.other for f in found.values()} == {"a/cat/1.png"}
    assert "is the same file as a/cat/1.png" in found["a/cat/2.png"].message
    assert "has the same pixels as a/cat/1.png, in other bytes" in found["a/cat/3.bmp"].message
    assert "which is 'cat' while this is 'cow'" in found["a/cow/1.png"].message
    assert "training on 'a' leaks into a test on 'b'" in found["b/cat/1.png"].message


def test_image_published_under_two_classes_is_a_warning(tmp_path):
    images = {"a/cat/1.png": random_image(0), "a/cow/1.png": random_image(0)}
    (found,) = duplicates(tmp_path, images, PACS, complete={"a"}).values()
    assert (found.kind, found.severity) == ("label-conflict", "warning")


def test_severity_of_near_duplicates(tmp_path):
    image = random_image(0, side=224)
    smaller = image.resize((150, 150))
    images = {"a/cat/1.png": image, "a/cat/2.jpg": image, "b/cat/3.png": smaller}
    found = duplicates(tmp_path, {**images, "b/cow/4.png": random_image(1, side=224)})
    assert {path: (f.kind, f.severity) for path, f in found.items()} == {
        "a/cat/2.jpg": ("near-duplicate", "note"),
        "b/cat/3.png": ("near-duplicate", "warning"),
    }


def test_near_duplicates_give_a_spanning_tree():
    thumbnail = bytes(range(256)) * 3
    files = [Inspection(b"", "PNG", hash=number % 3, thumbnail=thumbnail) for number in range(40)]
    pairs = near_duplicates(files, range(40))
    reached = {0}
    for a, b in pairs * 40:
        reached |= {a, b} if reached & {a, b} else set()
    assert len(pairs) == 39
    assert reached == set(range(40))


@pytest.mark.parametrize("chunk", [7, 1 << 13])
def test_near_duplicate_groups_match_brute_force(monkeypatch, chunk):
    monkeypatch.setattr(duplicates_module, "THUMBNAILS", chunk)
    monkeypatch.setattr(duplicates_module, "HASHES", chunk)
    rng = np.random.default_rng(0)
    scenes = rng.integers(60, 190, (3, 768))
    noise = rng.normal(0, 1, (90, 768)) * rng.uniform(0, 6, (90, 1))  # some are alike, some not
    pictures = (scenes[rng.integers(3, size=90)] + noise).astype(np.uint8)
    bits = [sum(1 << int(bit) for bit in rng.integers(64, size=4)) for _ in range(90)]
    rows = zip(bits, pictures, strict=True)
    files = [Inspection(b"", "PNG", hash=word, thumbnail=row.tobytes()) for word, row in rows]
    groups = [{row} for row in range(90)]
    for a, b in combinations(range(90), 2):
        close = (bits[a] ^ bits[b]).bit_count() <= 7
        if close and alike(pictures[[a]], pictures[[b]]):
            together = groups[a] | groups[b]
            for row in together:
                groups[row] = together
    expected = {frozenset(group) for group in groups}
    assert 3 < len(expected) < 60
    pairs = near_duplicates(files, range(90))
    assert len(pairs) == 90 - len(expected)
    assert all(groups[a] is groups[b] for a, b in pairs)


def test_frames_of_one_scene_are_not_compared_pairwise(monkeypatch):
    compared = []

    def counting(first, second):
        compared.append(len(first))
        return alike(first, second)

    monkeypatch.setattr(duplicates_module, "alike", counting)
    rng = np.random.default_rng(0)
    scene, other = rng.integers(10, 240, (2, 768))
    frames = (scene + rng.integers(-2, 3, (1000, 768))).astype(np.uint8)
    files = [
        Inspection(b"", "PNG", hash=rng.integers(4), thumbnail=row.tobytes()) for row in frames
    ]
    files[500] = Inspection(b"", "PNG", hash=1, thumbnail=other.astype(np.uint8).tobytes())
    assert len(near_duplicates(files, range(1000))) == 998
    assert max(compared) <= duplicates_module.THUMBNAILS
    assert sum(compared) < 4 * duplicates_module.THUMBNAILS  # of 499,500 pairs


def test_undecodable_files_are_not_duplicates(tmp_path):
    entries = [Entry(f"{d}/cat/1.jpg", "cat", d) for d in "ab"]
    index = ImageIndex.of("made", tmp_path, entries)
    files = [Inspection(b"same", "text", Problem("no-image", "is not an image but text"))] * 2
    assert list(check_duplicates(index, BenchmarkCopy.of(index, None), files)) == []
