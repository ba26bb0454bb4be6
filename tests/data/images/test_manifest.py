import json
import os
import subprocess
import sys
import unicodedata

import pytest
from trees import plant

from riskmatch.data.images.manifest import index_manifest

ROWS = [("i/1.jpg", "dog", "b"), ("i/2.jpg", "cat", "a"), ("i/3.jpg", "dog", "a")]
OBJECTS = [dict(zip(("path", "label", "domain"), row, strict=True)) for row in ROWS]

BLANKS = [{column: f" {value}\t" for column, value in row.items()} for row in OBJECTS]


def as_csv(delimiter=",", rows=ROWS, head="path,label,domain"):
    lines = [head.replace(",", delimiter), *(delimiter.join(row) for row in rows)]
    return "\n".join(lines).encode()


def one(**changes):
    return json.dumps([OBJECTS[0] | changes]).encode()


def as_parquet(objects):
    import pyarrow
    import pyarrow.parquet

    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(objects), sink)
    return sink.getvalue().to_pybytes()


FORMS = {
    "comma.csv": as_csv(),
    "semicolon.csv": as_csv(";"),
    "tab.tsv": as_csv("\t"),
    "bom.csv": b"\xef\xbb\xbf" + as_csv(),
    "windows.CSV": as_csv().replace(b"\n", b"\r\n") + b"\r\n",
    "spaces.csv": as_csv(head="path, label, domain"),
    "blanks.csv": as_csv(
        rows=[(f"{path} ", f" {label}", f" {domain} ") for path, label, domain in ROWS]
    ),
    "blanks.json": json.dumps(BLANKS).encode(),
    "blanks.parquet": as_parquet(BLANKS),
    "list.json": json.dumps(OBJECTS).encode(),
    "lines.jsonl": "\n\n".join(map(json.dumps, OBJECTS)).encode() + b"\n",
    "table.parquet": as_parquet([row | {"extra": 1} for row in OBJECTS]),
}


@pytest.fixture
def folder(tmp_path):
    return plant(tmp_path, {path: b"" for path, _, _ in ROWS})


def write(folder, content, name="m.csv"):
    (folder / name).write_bytes(content)
    return folder / name


@pytest.mark.parametrize("name", FORMS)
def test_every_format_gives_the_same_index(folder, name):
    index = index_manifest(write(folder, FORMS[name], name))
    assert index.name == name.split(".")[0]
    assert (index.class_names, index.domain_names) == (("cat", "dog"), ("a", "b"))
    assert index.paths == ("i/2.jpg", "i/3.jpg", "i/1.jpg")
    assert (index.labels, index.domains) == ((0, 1, 1), (0, 0, 1))
    assert all(index.file(row).is_file() for row in range(3))


def test_paths_may_be_absolute(folder, tmp_path_factory):
    rows = [(str(folder / path), label, domain) for path, label, domain in ROWS]
    elsewhere = write(tmp_path_factory.mktemp("elsewhere"), as_csv(rows=rows))
    assert index_manifest(elsewhere).file(0) == folder / "i/2.jpg"


def test_quoted_path_may_contain_the_delimiter(folder):
    plant(folder, {"i/a, b.jpg": b""})
    content = as_csv() + b'\n"i/a, b.jpg",cat,a'
    assert "i/a, b.jpg" in index_manifest(write(folder, content)).paths


@pytest.mark.parametrize("name", ["m.csv", "m.json", "m.parquet"])
def test_images_without_a_label_are_left_out_on_request_and_counted(folder, name):
    rows = [OBJECTS[0] | {"label": 0}, OBJECTS[1] | {"label": " "}, OBJECTS[2] | {"label": 1}]
    content = {
        "m.csv": as_csv(rows=[tuple(map(str, row.values())) for row in rows]),
        "m.json": json.dumps([*rows[:2], rows[2] | {"label": None}]).encode(),
        "m.parquet": as_parquet([row | {"label": str(row["label"]).strip()} for row in rows]),
    }
    manifest = write(folder, content[name], name)
    with pytest.raises(ValueError, match=r"the label is empty.*--drop-missing-labels"):
        index_manifest(manifest)
    with pytest.warns(UserWarning, match=r"rows of .* without a label are left out: a [12]$"):
        index = index_manifest(manifest, drop_missing_labels=True)
    kept = ("i/1.jpg",) if name == "m.json" else ("i/3.jpg", "i/1.jpg")
    assert (index.paths, index.class_names) == (kept, ("0", "1")[: len(kept)])


def test_numeric_labels_are_sorted_as_numbers(folder):
    rows = [row | {"label": number} for row, number in zip(OBJECTS, (10, 9, 2), strict=True)]
    for name, content in {
        "m.json": json.dumps(rows).encode(),
        "m.parquet": as_parquet(rows),
    }.items():
        assert index_manifest(write(folder, content, name)).class_names == ("2", "9", "10")


def test_numeric_labels_may_be_negative_or_signed(folder):
    def names(*labels):
        rows = [
            (path, label, domain) for (path, _, domain), label in zip(ROWS, labels, strict=True)
        ]
        return index_manifest(write(folder, as_csv(rows=rows))).class_names

    assert names("10", "2", "-1") == ("-1", "2", "10")
    assert names("1", "01", "0") == ("0", "01", "1")
    assert names("10", "-", "9") == ("-", "10", "9")


def test_class_order_is_the_same_in_every_process(folder):
    labels = ("1", "01", "001")
    rows = [(path, label, domain) for (path, _, domain), label in zip(ROWS, labels, strict=True)]
    manifest = write(folder, as_csv(rows=rows))
    show = (
        "import sys; from pathlib import Path; "
        "from riskmatch.data.images.manifest import index_manifest; "
        "print(*index_manifest(Path(sys.argv[1])).class_names)"
    )
    for seed in "123":
        shown = subprocess.run(
            [sys.executable, "-c", show, str(manifest)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert shown.stdout == "001 01 1\n"


def test_accents_are_normalised(folder):
    labels = (unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é"), "a")
    rows = [(path, label, label) for (path, _, _), label in zip(ROWS, labels, strict=True)]
    index = index_manifest(write(folder, as_csv(rows=rows)))
    assert index.class_names == index.domain_names == ("a", labels[0])


def test_json_line_may_contain_any_character(folder):
    """Python's splitlines would break lines at some of them."""
    lines = [json.dumps(row | {"label": "a\u2028b"}, ensure_ascii=False) for row in OBJECTS]
    manifest = write(folder, "\r\n".join(lines).encode(), "m.jsonl")
    assert index_manifest(manifest).class_names == ("a\u2028b",)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.csv", as_csv(head="path,lable,domain"), r"m.csv has no column 'label'; it has 'path', "
         r"'lable', 'domain'. Rename 'lable' to 'label'."),
        ("m.csv", as_csv(head="path,label,x"), r"no column 'domain'; .* Add 'domain'\."),
        ("m.csv", as_csv() + b"\ni/1.jpg,dog", r"m.csv, line 5: the domain is empty\. Give every"),
        ("m.csv", as_csv() + b"\ni/4.jpg,,a", r"line 5: the label is empty"),
        ("m.csv", as_csv() + b'\ni/4.jpg,"a\nb\nc",a\ni/5.jpg,,a', r"line 8: the label is empty"),
        ("m.csv", as_csv() + b"\ni/4.jpg,dog,a,b", r"Expected 3 fields in line 5, saw 4"),
        ("m.csv", as_csv() + b"\ni/1.jpg,dog,a", r"lists i/1.jpg twice, in line 2 and line 5\."),
        ("m.csv", as_csv() + b'\n"i/1.jpg,dog,a', r"m.csv is not a valid CSV file: "),
        ("m.csv", b"path,label,domain\n", r"m.csv lists no images; .*path, label"),
        ("m.csv", "path,label,domain\né,é,é".encode("latin-1"), r"is not UTF-8 .*save it as UTF-8"),
        ("m.json", '["é"]'.encode("latin-1"), r"m.json is not UTF-8 .*save it as UTF-8"),
        ("m.jsonl", '["é"]'.encode("latin-1"), r"m.jsonl is not UTF-8 .*save it as UTF-8"),
        ("m.csv", as_csv() + b"\ni/4.jpg,  ,a", r"line 5: the label is empty"),
        ("m.json", b'{"path": 1}', r"must hold a list .*\.jsonl"),
        ("m.json", b"[1]", r"m.json, item 1 must be an object with path, label, domain"),
        ("m.json", b"[", r"m.json: the file is not valid JSON: "),
        ("m.json", one(label=None), r"item 1: the label is empty"),
        ("m.json", one(label={"a": 1}), r"the label is {'a': 1}, not text"),
        ("m.json", one(path=5), r"the path is 5, not text"),
        ("m.jsonl", b"\n{}\nx", r"m.jsonl has no column 'path'"),
        ("m.jsonl", json.dumps(OBJECTS[0]).encode() + b"\nx", r"m.jsonl: line 2 is not valid JSON"),
        ("m.parquet", as_parquet([{"path": "1.jpg", "labels": "a", "domain": "b"}]),
         r"no column 'label'; .* Rename 'labels' to 'label'"),
        ("m.parquet", b"PAR1 is not all", r"m.parquet is damaged, or no Parquet file"),
        ("m.txt", b"", r"m.txt is not a manifest; .*\.csv \.tsv \.json"),
    ],
)  # fmt: skip
def test_errors_name_file_row_and_cure(folder, name, content, message):
    with pytest.raises(ValueError, match=message):
        index_manifest(write(folder, content, name))


def test_missing_images_are_counted(folder):
    manifest = write(folder, as_csv(rows=[*ROWS, ("i/4.jpg", "cat", "a"), ("i/5.jpg", "cat", "a")]))
    with pytest.raises(FileNotFoundError, match=r"line 5: .*i/4.jpg does not exist \(2 of 5"):
        index_manifest(manifest)
    with pytest.raises(FileNotFoundError, match=r"There is no manifest .*other\.csv"):
        index_manifest(folder / "other.csv")
