"""Malformed inputs: each ends with exit code 2, one line of cause and cure, and no partial file."""

import os
import shlex
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pets import draw_pets
from PIL import Image

from riskmatch.cli import main

NETWORK = (
    "--model lite0 --model-option pretrained=false --model-option size=32 "
    "--data-option augment=false --steps 1"
)
COLUMNS = "--label late --domain site"
FAST = "--method erm --steps 6 --model-option widths=[6]"
TRAIN = f"{COLUMNS} {FAST} --test-domain A"


def visits(n=90):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.normal(50, 20, n)),
            "ward": rng.choice(["x", "y"], n),
            "day": pd.date_range("2024-01-01", periods=n).strftime("%Y-%m-%d"),
            "site": np.array(["A", "B", "C"])[np.arange(n) % 3],
            "late": np.array(["yes", "no"])[np.arange(n) // 3 % 2],
        }
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Images and a table, and a model of each."""
    root = tmp_path_factory.mktemp("malformed")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setenv("XDG_CACHE_HOME", str(root / "cache"))
        draw_pets(root / "pets", each=3)
        visits().to_csv("visits.csv", index=False)
        for words in (
            f"train pets --method erm --all-domains --no-left-out {NETWORK} --save model",
            f"train visits.csv {COLUMNS} {FAST} --all-domains --no-left-out --save late",
        ):
            assert main([*shlex.split(words), "--out", "old", "--quiet"]) == 0
        shutil.rmtree("old")
    return root


def text(name, content):
    return lambda: Path(name).write_text(content)


def table(change, name="new.csv"):
    return lambda: change(visits()).to_csv(name, index=False)


def flip(path):
    data = bytearray(Path(path).read_bytes())
    data[-1] ^= 1
    Path(path).write_bytes(data)


def header(rows):
    return f"late,site,x\n{rows}"


PREDICT, NEW = "predict model pets -o p.csv", "predict late new.csv -o p.csv"
CASES = {
    # tables
    "an empty table": (f"train t.csv {TRAIN}", text("t.csv", ""), ["t.csv is empty"]),
    "a table without rows": (f"train t.csv {TRAIN}", text("t.csv", header("")), ["0 rows"]),
    "a table that is none": (
        f"train t.parquet {TRAIN}",
        text("t.parquet", "no parquet"),
        ["t.parquet", "damaged"],
    ),
    "a table that is not there": (f"train t.csv {TRAIN}", None, ["There is no t.csv"]),
    "a table to examine that is not there": (
        f"data doctor t.csv {COLUMNS}",
        None,
        ["There is no t.csv"],
    ),
    "a table in another format": (
        f"train t.csv.gz {TRAIN}",
        text("t.csv.gz", "no table"),
        ["label applies only to tables", "t.csv.gz", ".csv, .tsv or .parquet"],
    ),
    "a label of a folder of images": (
        f"train pets --label x {FAST} --test-domain ink",
        None,
        ["label applies only to tables", "pets", "folder of images"],
    ),
    "two columns of one name": (
        f"train t.csv {TRAIN}",
        text("t.csv", "late,site,x,x\nyes,A,1,2\n"),
        ["'x' twice", "rename"],
    ),
    "one class": (
        f"train t.csv {TRAIN}",
        text("t.csv", header("no,A,1\nno,B,2\n" * 4)),
        ["one class only", "Add another"],
    ),
    "one domain": (
        f"train t.csv {TRAIN}",
        text("t.csv", header("yes,A,1\nno,A,2\n")),
        ["one domain only, 'A'", "choose"],
    ),
    "a domain of one row": (
        f"train t.csv {TRAIN}",
        text("t.csv", header("yes,A,1\nno,B,2\nno,B,2\n")),
        ["'A' has 1 sample", "merge it"],
    ),
    "a domain of one row to advise on": (
        f"advise t.csv {COLUMNS}",
        text("t.csv", header("yes,A,1\nno,B,2\nyes,C,3\n" * 4 + "no,D,4\n")),
        ["'D' has 1 sample", "merge it"],
    ),
    "fractions with a risk of classes": (
        f"train visits.csv --label age --domain site {FAST} --test-domain A --risk cross-entropy",
        lambda: visits().dropna().to_csv("visits.csv", index=False),
        ["risk cross-entropy", "regression"],
    ),
    "no column of the label": (
        f"train visits.csv --label latte --domain site {FAST} --test-domain A",
        None,
        ["'latte'", "'late'"],
    ),
    "no option for the label": (
        f"train visits.csv {FAST} --test-domain A",
        None,
        ["--label NAME", "'ward'"],
    ),
    "a label without a value": (
        f"train t.csv {TRAIN}",
        text("t.csv", header("yes,A,1\n,B,2\n")),
        ["'late'", "row 2", "Fill"],
    ),
    "a domain without a name": (
        f"train t.csv {TRAIN}",
        text("t.csv", header("yes,A,1\nno,,2\n")),
        ["'site'", "row 2", "Fill"],
    ),
    "a column of NaN": (
        f"train t.csv {TRAIN}",
        text("t.csv", header("yes,A,\nno,B,NaN\n")),
        ["'x' has no values", "--ignore"],
    ),
    "an infinite value": (
        f"train t.csv {TRAIN}",
        text("t.csv", header("yes,A,inf\nno,B,2\n")),
        ["'x' has infinite", "row 1", "--ignore"],
    ),
    "a value beyond single precision": (
        f"train t.csv {TRAIN}",
        text("t.csv", header("yes,A,1\nno,B,2e39\n" * 4)),
        ["'x' has values beyond", "row 2", "--ignore"],
    ),
    "a value beyond single precision to examine": (
        f"data doctor t.csv {COLUMNS}",
        text("t.csv", header("yes,A,1\nno,B,-1e200\n" * 4)),
        ["'x' has values beyond", "row 2", "--ignore"],
    ),
    "a test domain that is none": (f"train visits.csv {TRAIN}Q", None, ["'AQ'", "'A'"]),
    "columns of data that are no table": (f"train colored-digits {TRAIN}", None, ["'label'"]),
    # tables at prediction
    "a column that is missing": (NEW, table(lambda t: t.drop(columns="age")), ["'age' is missing"]),
    "text in a column of numbers": (NEW, table(lambda t: t.assign(age="old")), ["'age'", "'old'"]),
    "numbers in a column of dates": (NEW, table(lambda t: t.assign(day=3.5)), ["'day' held dates"]),
    "an infinite value at prediction": (NEW, table(lambda t: t.assign(age=np.inf)), ["infinite"]),
    "no rows at prediction": (NEW, table(lambda t: t[:0]), ["no rows"]),
    "a label that the model does not have": (
        "evaluate late new.csv",
        table(lambda t: t.assign(late="maybe")),
        ["'maybe'", "yes"],
    ),
    "images for a model of tables": (
        "predict late pets -o p.csv",
        None,
        ["takes a table (.csv, .tsv, .parquet)", "pets is a folder"],
    ),
    # images
    "no input": ("predict model nothing -o p.csv", None, ["nothing"]),
    "an empty folder": (
        "predict model empty -o p.csv",
        lambda: os.mkdir("empty"),
        ["no images", "another folder"],
    ),
    "bytes that are no image": (
        "predict model a.png -o p.csv",
        lambda: Path("a.png").write_bytes(b"GIF"),
        ["a.png", "No input of 1", "unknown image format", "replace"],
    ),
    "a truncated image": (
        "predict model a.png -o p.csv",
        lambda: Path("a.png").write_bytes(Path("pets/ink/cat/0.png").read_bytes()[:900]),
        ["a.png", "No input of 1"],
    ),
    "a huge image": (
        "predict model a.png -o p.csv",
        lambda: Image.new("1", (20_000, 10_000)).save("a.png"),
        ["No input of 1", "a.png", "200000000 pixels"],
    ),
    "a link to an image that is gone": (
        f"train pets --method erm --test-domain ink {NETWORK}",
        lambda: os.symlink("/gone/9.png", "pets/oil/cat/9.png"),
        ["pets/oil/cat/9.png", "link to /gone/9.png", "does not exist", "remove the link"],
    ),
    "a link to a class that is gone": (
        f"train pets --method erm --test-domain ink {NETWORK}",
        lambda: os.symlink("/gone", "pets/oil/fox"),
        ["pets/oil/fox", "link to /gone", "does not exist", "remove"],
    ),
    "a manifest without paths": (
        "predict model a.csv -o p.csv",
        text("a.csv", "file\nx.png\n"),
        ["'path'", "'file'"],
    ),
    "a class that the model does not have": (
        "evaluate model pets",
        lambda: os.rename("pets/oil/cat", "pets/oil/kat"),
        ["'kat'", "'cat'"],
    ),
    "two domains to advise on": (
        "advise pets --out m",
        lambda: shutil.rmtree("pets/ink"),
        ["at least 3 domains", "2"],
    ),
    # the folder of a model, and advice
    "a folder that is no model": (
        "predict pets pets -o p.csv",
        None,
        ["model.json", "--all-"],
    ),
    "no folder of a model": ("predict nowhere pets -o p.csv", None, ["nowhere"]),
    "a file in place of a model": ("monitor visits.csv visits.csv", None, ["visits.csv", "--all-"]),
    "truncated weights": (
        PREDICT,
        lambda: os.truncate("model/weights.safetensors", 5000),
        ["weights.safetensors", "5,000 bytes", "checksum"],
    ),
    "tampered weights": (
        PREDICT,
        lambda: flip("model/weights.safetensors"),
        ["weights.safetensors", "checksum"],
    ),
    "tampered risks": (
        "monitor late visits.csv",
        lambda: flip("late/held_out.safetensors"),
        ["held_out.safetensors", "checksum"],
    ),
    "weights that are missing": (
        "export model --format torch -o m.pt2",
        lambda: os.remove("model/weights.safetensors"),
        ["weights.safetensors", "missing"],
    ),
    "JSON of another version": (
        PREDICT,
        text("model/model.json", '{"format": "riskmatch model 7"}'),
        ["riskmatch model 7", "riskmatch model 2"],
    ),
    "half of the JSON": (PREDICT, lambda: os.truncate("model/model.json", 300), ["model.json"]),
    "advice of another version": (
        "train pets --all-domains --advice a.json",
        text("a.json", '{"format": "riskmatch advice 7"}'),
        ["a.json", "riskmatch advice 7", "riskmatch advise"],
    ),
    # options
    "a file type that is not written": (
        "predict model pets -o p.xlsx",
        None,
        [".xlsx", ".parquet"],
    ),
    "a batch of none": ("predict model pets -o p.csv --batch-size 0", None, ["batch_size", "0"]),
    "a level beyond 1": ("monitor late visits.csv --level 1.5", None, ["level", "1.5"]),
    "too few permutations": (
        "monitor late visits.csv --permutations 0",
        None,
        ["permutations", "0"],
    ),
    "no look": ("monitor late visits.csv --looks 0", None, ["looks", "[1, 2^63)", "0"]),
    "a seed below 0": ("monitor late visits.csv --seed -1", None, ["seed", "[0, 2^63)", "-1"]),
    "no table to evaluate": ("evaluate late nowhere", None, ["There is no nowhere", ".csv"]),
    "no folder to evaluate": ("evaluate model no/pets", None, ["There is no no/pets", "Give"]),
    "no site to monitor": ("monitor late no.csv", None, ["There is no no.csv", "Give"]),
    "data without labels": (
        "monitor late new.csv",
        table(lambda t: t.drop(columns="late")),
        ["'late'", "--unlabelled"],
    ),
    "an evaluation without labels": (
        "evaluate late new.csv",
        table(lambda t: t.drop(columns="late")),
        ["'late'", "--label", "ward"],
    ),
    "a label of a model of images": (
        "evaluate model pets --label foo",
        None,
        ["label is for models of tables", "images"],
    ),
    "images without labels": ("monitor model pets/ink/cat", None, ["domain/class", "--unlabelled"]),
    "a figure that is none": (
        "monitor late visits.csv --figure p.txt",
        None,
        ["--figure", ".txt", ".png"],
    ),
    "the suffix of another export": ("export model -o m.pt2", None, [".pt2", ".onnx"]),
    "all domains and a test domain": (
        "train pets --method erm --all-domains --test-domain ink",
        None,
        ["--all-domains", "test domain"],
    ),
    "a place of the model that is taken": (
        f"train pets --method erm --all-domains --save pets {NETWORK}",
        None,
        ["pets", "another path"],
    ),
    "--save without --all-domains": (
        "train pets --method erm --test-domain ink --save m",
        None,
        ["--save", "--all-domains"],
    ),
}


def files():
    return {path for path in Path().rglob("*") if "cache" not in path.parts and path.is_file()}


def check(result, facts, before):
    (message,) = result.err.splitlines()
    assert result.code == 2
    assert message.startswith("riskmatch: ")
    for fact in facts:
        assert fact in message
    assert files() == before


@pytest.mark.parametrize("case", CASES)
def test_malformed_input_is_one_line_and_leaves_no_file(
    riskmatch, trained, tmp_path, monkeypatch, case
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    words, prepare, facts = CASES[case]
    if prepare:
        prepare()
    before = files()
    check(riskmatch(*shlex.split(words), "--quiet"), facts, before)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root alone can do this")


@contextmanager
def small_disk(path):
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(path)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        (path / "filler").write_bytes(b"x" * 15_000)
        yield
    finally:
        subprocess.run(["umount", str(path)], check=True)


@needs_root
@pytest.mark.parametrize(
    "words",
    [
        "predict model pets -o small/p.parquet",
        "monitor late visits.csv --figure small/p.png",
        "export late --format torch -o small/m.pt2",
        f"train visits.csv {COLUMNS} {FAST} --all-domains --out runs --save small/model",
    ],
)
def test_a_full_disk_leaves_no_partial_file(riskmatch, trained, tmp_path, words):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    with small_disk(tmp_path / "small"):
        result = riskmatch(*shlex.split(words), "--quiet")
        assert [path.name for path in Path("small").iterdir()] == ["filler"]
    (message,) = result.err.splitlines()
    assert result.code == (3 if words.startswith("train") else 2)  # the run is done, not its model
    assert "No space left on device. Free some space" in message


@pytest.mark.parametrize(
    ("words", "closed"),
    [
        ("predict late visits.csv -o p.csv", "visits.csv"),
        ("predict late visits.csv -o p.csv", "late/weights.safetensors"),
        (f"train visits.csv {TRAIN}", "visits.csv"),
    ],
)
def test_a_file_without_permission_is_named(riskmatch, trained, tmp_path, words, closed):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    tmp_path.chmod(0o777)
    Path(closed).chmod(0)
    before, user = files(), os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        result = riskmatch(*shlex.split(words), "--quiet")
    finally:
        os.seteuid(user)
    check(result, [closed, "Permission denied", "chmod"], before)
