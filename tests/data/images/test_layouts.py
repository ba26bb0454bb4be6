import json

import pytest
from mirror import Mirror, serving
from trees import contents, locked, plant, small, tarred, zipped

from riskmatch.data.images import archives
from riskmatch.data.images.archives import Unpacker
from riskmatch.data.images.benchmark import BENCHMARKS, Download, Origin, load_index
from riskmatch.data.images.get import get_benchmark

DOMAINNET = BENCHMARKS["domainnet"]
OFFICEHOME = BENCHMARKS["officehome"]
PACS = BENCHMARKS["pacs"]
TERRAINCOGNITA = BENCHMARKS["terraincognita"]
VLCS = BENCHMARKS["vlcs"]


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("RISKMATCH_DATA", raising=False)


def served(benchmark, files, **changes):
    """Get a small benchmark from a server that has these files."""
    with serving(Mirror(files)) as (url,):
        return get_benchmark(small(benchmark, **changes), mirrors=[url])


# TerraIncognita: (image, location, categories); the annotations and images of the camera traps.
TRAPS = [
    *((f"{location}-{name}", location, [name]) for location in ["38", "43", "46", "100"]
      for name in archives.TERRA_CLASSES),
    ("two", "38", ["bird", "cat"]),
    ("again", "38", ["dog", "dog"]),
    ("car", "38", ["car"]),
    ("both", "43", ["car", "dog"]),
    ("none", "43", []),
    ("elsewhere", "7", ["dog"]),
]  # fmt: skip


def trap_files():
    names = [*archives.TERRA_CLASSES, "car"]
    annotations = {
        "categories": [{"id": 30 + place, "name": name} for place, name in enumerate(names)],
        "images": [
            {"id": f"id-{image}", "file_name": f"{image}.jpg", "location": location}
            for image, location, _ in TRAPS
        ],
        "annotations": [
            {"image_id": f"id-{image}", "category_id": 30 + names.index(name)}
            for image, _, given in TRAPS
            for name in given
        ],
    }
    images = {f"eccv_18_all_images_sm/{image}.jpg": image.encode() for image, _, _ in TRAPS}
    return {
        archives.TERRA_ANNOTATIONS: zipped(
            {"caltech_images_20210113.json": json.dumps(annotations).encode()}
        ),
        archives.TERRA_IMAGES: tarred(images, "w:gz"),
    }


def test_terraincognita_is_converted_as_in_domainbed(tmp_path):
    files = {name: plant(tmp_path, {name: c}) / name for name, c in trap_files().items()}
    archives.convert_terraincognita(files, Unpacker(tmp_path / "tree"))
    expected = {
        f"location_{location}/{name}/{image}.jpg": image.encode()
        for image, location, given in TRAPS
        for name in given
        if location != "7" and name != "car"
    }
    assert contents(tmp_path / "tree") == expected
    assert "location_38/cat/two.jpg" in expected
    assert len(expected) == 44


def test_terraincognita_has_four_locations_and_ten_classes():
    served(TERRAINCOGNITA, trap_files(), reissued=44)
    index = load_index(TERRAINCOGNITA)
    assert index.domain_names == ("location_100", "location_38", "location_43", "location_46")
    assert index.class_names == archives.TERRA_CLASSES
    assert [sum(row.values()) for row in index.counts().values()] == [10, 13, 11, 10]


def test_terraincognita_with_unpublished_counts_is_refused():
    with pytest.raises(OSError, match="location_100 has 10 images, not 1; "):
        served(TERRAINCOGNITA, trap_files())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (zipped({"a.json": b"{}"}), r"annotations have another format: KeyError\('categories'\)"),
        (zipped({"a.json": b"{"}), r"json\.zip is damaged: "),
        (zipped({}), r"holds 0 JSON files, not one"),
        (b"PK\x05", r"json\.zip is damaged: "),
        (zipped({"a.json": '"é"'.encode("latin-1")}), r"json\.zip is damaged: .*utf-8"),
        (locked(zipped({"a.json": b"{}"})), r"json\.zip cannot be unpacked: .*encrypted"),
    ],
)
def test_annotations_in_another_format_are_refused(tmp_path, content, message):
    files = trap_files() | {archives.TERRA_ANNOTATIONS: content}
    paths = {name: plant(tmp_path, {name: content}) / name for name, content in files.items()}
    with pytest.raises(ValueError, match=message):
        archives.convert_terraincognita(paths, Unpacker(tmp_path / "tree"))


# JiGen's VLCS: train, crossval and test lists add up to the published numbers.
SPLITS = {"train": 3, "crossval": 1, "test": 2}


def jigen_files():
    """Six images of each class and domain, of which ``full`` repeats four."""
    images = {}
    for domain in archives.VLCS_DOMAINS:
        for number, label in enumerate(archives.VLCS_CLASSES):
            for split, count in SPLITS.items():
                for k in range(count):
                    content = f"{domain} {label} {split} {k}".encode()
                    name = f"{number}/{split}_imgs_{k}.jpg"
                    images[f"VLCS/{domain}/{split}/{name}"] = content
                    if split != "test":
                        images[f"VLCS/{domain}/full/{name}"] = content
    return images


def assert_is_vlcs(folder):
    found = contents(folder)
    assert len(found) == 4 * 5 * 6
    for path, content in found.items():
        domain, label, _ = path.split("/")
        original, named, *_ = content.decode().split()
        assert (archives.VLCS_DOMAINS[original], named) == (domain, label)
    assert len({*found.values()}) == len(found)


def test_jigen_vlcs_is_merged_from_its_splits_with_a_warning():
    with pytest.warns(UserWarning, match=r"^VLCS: JiGen's images are .* smaller"):
        folder = served(VLCS, {"vlcs.zip": zipped(jigen_files())}, count=30)
    assert_is_vlcs(folder)
    index = load_index(VLCS)
    assert index.class_names == VLCS.class_names
    assert all([*row.values()] == [6] * 5 for row in index.counts().values())


def test_local_vlcs_archive_may_have_either_layout(tmp_path, monkeypatch):
    monkeypatch.setenv("RISKMATCH_DATA", str(tmp_path))
    plant(tmp_path, {"vlcs.tar.gz": tarred(jigen_files(), "w:gz")})
    with pytest.warns(UserWarning, match="smaller"):
        assert_is_vlcs(get_benchmark(small(VLCS, 30), mirrors=["http://127.0.0.1:9"]))


def test_vlcs_archive_without_a_split_is_refused():
    files = {name: c for name, c in jigen_files().items() if "/crossval/" not in name}
    with pytest.raises(OSError, match="Caltech101 has 25 images, not 30; "):
        served(VLCS, {"vlcs.zip": zipped(files)}, count=30)


def net_files(duplicates):
    """A small DomainNet: 345 classes in clipart, two in the others."""
    files = {}
    for part in DOMAINNET.parts:
        labels = range(345 if part.name == "clip" else 2)
        images = {f"{part.folder}/c{k:03d}/{part.folder}_{k:03d}_000001.jpg": b"x" for k in labels}
        files[f"{part.folder}.zip"] = zipped(images)
    return files | {archives.DOMAINNET_DUPLICATES: duplicates}


def net_origin():
    names = (archives.DOMAINNET_DUPLICATES, *(f"{part.folder}.zip" for part in DOMAINNET.parts))
    return Origin(tuple(Download(name, ()) for name in names), "domainnet")


def test_domainnet_leaves_out_the_published_duplicates():
    gone = ["clipart/c000/clipart_000_000001.jpg", "real/c001/real_001_000001.jpg"]
    gone += ["sketch/c009/not_in_the_archive.jpg"]
    folder = served(
        DOMAINNET,
        net_files("\n".join(gone).encode() + b"\n"),
        origins=(net_origin(),),
        reissued=353,
    )
    index = load_index(DOMAINNET)
    assert [sum(row.values()) for row in index.counts().values()] == [344, 2, 2, 2, 1, 2]
    assert not {*gone} & {*index.paths}
    assert len(index.class_names) == 345
    assert (folder / "infograph/c001/infograph_001_000001.jpg").is_file()


def test_invalid_list_of_duplicates_is_refused(tmp_path):
    path = plant(tmp_path, {"d.txt": b"<html>\n404: Not Found"}) / "d.txt"
    with pytest.raises(ValueError, match=r"d\.txt lists '<html>'.*domain/class/image"):
        archives.read_duplicates(path)


def packed(rows, names=(), domains=()):
    """A Parquet file in the hub's format: bytes and names, with the classes in its schema."""
    import pyarrow
    import pyarrow.parquet

    image = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    columns = {
        "image": pyarrow.array([{"bytes": b, "path": p} for b, p, _, _ in rows], image),
        "domain": pyarrow.array([domain for _, _, domain, _ in rows]),
        "label": pyarrow.array([label for _, _, _, label in rows]),
    }
    features = {"image": {"_type": "Image"}}
    features["label"] = {"names": list(names), "_type": "ClassLabel"} if names else {}
    features["domain"] = {"names": list(domains), "_type": "ClassLabel"} if domains else {}
    table = pyarrow.table(columns)
    info = json.dumps({"info": {"features": features}})
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(table.replace_schema_metadata({"huggingface": info}), sink)
    return sink.getvalue().to_pybytes()


def test_images_of_parquet_files_are_unpacked_bitwise(tmp_path):
    one = packed([(b"1", "pic_1.PNG", "photo", 1), (b"2", None, "photo", 0)], ["dog", "cat"])
    two = packed([(b"3", "x.jpg", 1, "cat")], domains=["photo", "sketch"])
    plant(tmp_path, {"one.parquet": one, "two.parquet": two})
    files = {name: tmp_path / name for name in ("one.parquet", "two.parquet")}
    for path in files.values():
        Download(path.name, ()).check(path)
    archives.unpack_parquet(files, Unpacker(tmp_path / "tree"))
    assert contents(tmp_path / "tree") == {
        "photo/cat/000000.png": b"1",
        "photo/dog/000001.jpg": b"2",
        "sketch/cat/000002.jpg": b"3",
    }


def test_pacs_is_unpacked_from_the_hub_file():
    rows = [(b"x", "p.jpg", part.name, k % 7) for k, part in enumerate(PACS.parts)]
    (file,) = PACS.origins[0].files
    origin = Origin((Download(file.name, ()),), PACS.origins[0].convert)
    served(PACS, {file.name: packed(rows, PACS.class_names)}, origins=(origin,))
    index = load_index(PACS)
    assert [list(row.values()).index(1) for row in index.counts().values()] == [0, 1, 2, 3]


def test_officehome_shards_make_one_tree():
    labels = [f"Class_{k}" for k in range(65)]
    shards = [[], [], []]
    for k in range(65):
        shards[k % 3].append((b"x", "p.jpg", OFFICEHOME.parts[k % 4].name, k))
    files = {f"officehome-{k}.parquet": packed(rows, labels) for k, rows in enumerate(shards)}
    served(OFFICEHOME, files, reissued=65)
    assert len(load_index(OFFICEHOME)) == 65


@pytest.mark.parametrize("name", ["../x", "/x", "..", "", "a\\b"])
def test_unsafe_names_in_a_parquet_file_are_refused(tmp_path, name):
    plant(tmp_path, {"a.parquet": packed([(b"1", "x.jpg", name, "cat")])})
    with pytest.raises(ValueError, match="cannot be the name of a folder"):
        Unpacker(tmp_path / "tree").extract_parquet(tmp_path / "a.parquet")


def test_parquet_file_without_images_is_refused(tmp_path):
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"text": ["a"]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet has no column 'image'; it has text"):
        Unpacker(tmp_path / "tree").extract_parquet(tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    for part in (whole[:-1], b"", b"PA"):
        (tmp_path / "a.parquet").write_bytes(part)
        with pytest.raises(ValueError, match=r"no Parquet file|empty"):
            Download("a.parquet", ()).check(tmp_path / "a.parquet")
