"""Files that would exhaust memory or time are refused within 1 GB and ten seconds."""

import hashlib
import io
import json
import shlex
import shutil
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet

from riskmatch import limits
from riskmatch.cli import main
from riskmatch.data.table_files import read_table
from riskmatch.deployment.inputs import BATCH
from riskmatch.files import read_arrays
from riskmatch.limits import FIELD, LimitError, check_fields
from riskmatch.models.weights import bounded_build
from riskmatch.runs.lines import DataIdentity
from riskmatch.validation import check_option

PILOT = Path(__file__).with_name("limited.py")
GB = 10**9
FAST = "--method erm --steps 2"
COLUMNS = "--label late --domain site --model-option widths=[6]"
PREDICTED = [f"0/val/{name}" for name in ("index", "label", "predicted", "confidence", "risk")]
FACTOR = "RISKMATCH_LIMIT_FACTOR="
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits are measured on Linux")


def npz(path, members):
    """Write members: name, stored bytes, and what the directory states about them."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content, facts in members:
            info = zipfile.ZipInfo(f"{name}.npy")
            archive.writestr(info, content)
            for fact, value in facts.items():
                setattr(info, fact, value)


def header(rows):
    """The first bytes of an array of doubles."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": "<f8", "fortran_order": False, "shape": (rows,)}
    )
    return file.getvalue()


def zeros(size):
    """An array of ``size`` bytes of zeros, deflated a thousandfold."""
    block = 1 << 24
    first = header(size // 8)
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    start = deflate.compress(first) + deflate.flush(zlib.Z_FULL_FLUSH)
    part = deflate.compress(bytes(block)) + deflate.flush(zlib.Z_FULL_FLUSH)
    return start + part * (size // block) + deflate.flush(), len(first) + size // block * block


def bomb(path, names, state=None):
    """A file of arrays of 2.4 GB each, or of the size that its directory states."""
    content, size = zeros(2_400_000_000)
    facts = {"compress_type": zipfile.ZIP_DEFLATED, "file_size": state or size}
    domains = io.BytesIO()
    np.save(domains, np.array('["A"]'))
    npz(path, [("domains", domains.getvalue(), {}), *((name, content, facts) for name in names)])


def resigned(folder, change):
    """Change ``model.json`` as someone would who also writes its checksum."""
    file = folder / "model.json"
    values = json.loads(file.read_text())
    change(values)
    del values["sha256"]
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    file.write_text(json.dumps({**values, "sha256": digest.hexdigest()}))


def network(**values):
    def change(model):
        options = values.pop("options", {})
        model["network"] |= values
        model["network"]["options"] |= options

    return change


def side(model):
    model["preprocessing"]["resize"] = [{"side": 20_000, "filter": "bilinear"}]
    model["network"]["input_shape"] = [3, 20_000, 20_000]


def size(model):
    model["network"]["options"]["size"] = 20_000
    model["network"]["preprocess"] = model["network"]["preprocess"].replace("(32,", "(20000,")


def long_field(path, start, size):
    """A file that is sparse, so that it takes no space."""
    path.write_text(start)
    with open(path, "r+b") as file:
        file.truncate(size)


def write_rows(path):
    column = pa.table({"x": pa.nulls(2 * 10**7, pa.int32())})
    with parquet.ParquetWriter(path, column.schema) as writer:
        for _ in range(10):
            writer.write_table(column, row_group_size=2 * 10**7)


def write_shared_text(path):
    text = pa.DictionaryArray.from_arrays(np.zeros(10**5, np.int8), ["x" * 10**6])
    table = pa.table({"late": text, "x": np.zeros(10**5)})
    plain = pa.schema([("late", pa.string()), ("x", pa.float64())])
    parquet.write_table(table, path, store_schema=False)
    assert parquet.read_schema(path) == plain


def write_columns(path):
    names = [f"x{k}" for k in range(120_000)]
    table = pa.table([pa.nulls(1)] * len(names), names=names)
    parquet.write_table(table, path, write_statistics=False, store_schema=False)


MODEL = "predict {} visits.csv -o p.csv"
CASES = {
    # name: (command, what prepares its file, facts of the message)
    "predictions of 12 GB": (
        "figure risks run",
        lambda: bomb(one_file("run/predictions"), PREDICTED),
        ["00000002.npz", "12.0 GB", "1.0 GB", FACTOR + "12"],
    ),
    "predictions that state too little": (
        "figure risks small",
        lambda: bomb(one_file("small/predictions"), PREDICTED, state=1000),
        ["00000002.npz", "damaged"],
    ),
    "predictions that state too much": (
        "figure risks large",
        lambda: npz(one_file("large/predictions"), [("domains", header(10**12), {})]),
        ["00000002.npz", "damaged"],
    ),
    "features of 7 GB": (
        f"train f.npz --test-domain A {FAST}",
        lambda: bomb("f.npz", ["domain", "label", "features"]),
        ["f.npz", "2.4 GB", "1.0 GB", FACTOR + "3"],
    ),
    "a table of 200,000,000 rows": (
        "predict late rows.parquet -o p.csv",
        lambda: write_rows("rows.parquet"),
        ["rows.parquet", "200,000,000 rows", "1.6 GB", "1.0 GB", FACTOR + "2"],
    ),
    "a text of 1 MB in 100,000 rows": (
        f"train text.parquet {COLUMNS} {FAST} --test-domain A",
        lambda: write_shared_text("text.parquet"),
        ["text.parquet", "100.0 GB", "1.0 GB", FACTOR + "101"],
    ),
    "a field of 1 GB": (
        "evaluate late field.csv",
        lambda: long_field(Path("field.csv"), "late,site,x\nyes,A,", GB),
        ["field.csv", "1.0 GB", "16 MB", FACTOR + "63"],
    ),
    "a first line of 1 GB": (
        f"train line.csv {COLUMNS} {FAST} --test-domain A",
        lambda: long_field(Path("line.csv"), "late,site,", GB),
        ["line.csv", "1.0 GB", "16 MB", FACTOR + "63"],
    ),
    "a field of many lines": (
        "predict late lines.csv -o p.csv",
        lambda: Path("lines.csv").write_text('late,x\nno,"' + "long\n" * 10**7 + '"\n'),
        ["lines.csv", "50 MB", "16 MB", FACTOR + "4"],
    ),
    "a list of images with a field of 1 GB": (
        "predict pets photos.csv -o p.csv",
        lambda: long_field(Path("photos.csv"), "path\na.png", GB),
        ["photos.csv", "1.0 GB", "16 MB", FACTOR + "63"],
    ),
    "a million columns": (
        f"train wide.csv {COLUMNS} {FAST} --test-domain A",
        lambda: Path("wide.csv").write_text(",".join(f"x{k}" for k in range(10**6)) + "\n"),
        ["wide.csv", "1,000,000 columns", "100,000", FACTOR + "10"],
    ),
    "120,000 columns of Parquet": (
        f"train wide.parquet {COLUMNS} {FAST} --test-domain A",
        lambda: write_columns("wide.parquet"),
        ["wide.parquet", "at least 100,001 columns", "100,000", FACTOR + "2"],
    ),
    "images of 20,000 pixels": (
        MODEL.format("side"),
        lambda: resigned(copied("pets", "side"), side),
        ["side", "20,000 × 20,000 pixels", "153.6 GB", "1.0 GB", FACTOR + "154"],
    ),
    "a network for images of 20,000 pixels": (
        MODEL.format("size"),
        lambda: resigned(copied("pets", "size"), size),
        ["size", "20,000 × 20,000 pixels", "153.6 GB", "1.0 GB", FACTOR + "154"],
    ),
    "200,000 layers": (
        MODEL.format("deep"),
        lambda: resigned(copied("late", "deep"), network(options={"widths": [1] * 200_000})),
        ["deep", "widths", "200,000", "10,000", FACTOR + "20"],
    ),
    "layers of a million units": (
        MODEL.format("units"),
        lambda: resigned(copied("late", "units"), network(options={"widths": [10**6, 10**6]})),
        ["units", "4,000.0 GB", "1.0 GB", FACTOR],
    ),
    "a billion classes": (
        MODEL.format("classes"),
        lambda: resigned(copied("late", "classes"), network(outputs=10**9)),
        ["classes", "1000000000 outputs for 2 classes"],
    ),
}


def one_file(folder):
    (file,) = (path for path in Path(folder).iterdir() if path.stem.isdecimal())
    return file


def copied(model, name):
    return Path(shutil.copytree(model, name))


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Outcome of every command, all in one process."""
    root = tmp_path_factory.mktemp("limits")
    rng = np.random.default_rng(0)
    visits = pd.DataFrame({"late": rng.choice(["yes", "no"], 60), "site": list("ABC") * 20})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setenv("XDG_CACHE_HOME", str(root / "cache"))
        visits.assign(x=rng.random(60)).to_csv("visits.csv", index=False)
        draw_photos(rng)
        network = "--model lite0 --model-option pretrained=false --model-option size=32"
        photos = f"--out photo-runs --save pets {network}"
        for words in (
            f"train visits.csv {COLUMNS} {FAST} --all-domains --no-left-out --out runs --save late",
            f"train photos {FAST} --all-domains --no-left-out {photos}",
        ):
            assert main([*shlex.split(words), "--quiet"]) == 0
        (folder,) = (path for path in Path("runs").iterdir() if path.is_dir())
        for name in ("run", "small", "large"):
            shutil.copytree(folder, name)
        for _, prepare, _ in CASES.values():
            prepare()
        commands = [[*shlex.split(words), "--quiet"] for words, _, _ in CASES.values()]
        words = [sys.executable, str(PILOT), json.dumps(commands)]
        printed = subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=170).stdout
        shutil.rmtree(root / "cache")
    return dict(zip(CASES, json.loads(printed), strict=True))


def draw_photos(rng):
    from PIL import Image

    for domain in ("ink", "oil"):
        for label in ("cat", "dog"):
            folder = Path("photos", domain, label)
            folder.mkdir(parents=True)
            for number in range(2):
                pixels = rng.integers(0, 256, (32, 32, 3), np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.png")


@pytest.mark.parametrize("case", CASES)
def test_it_is_refused_in_one_line_within_1_gb_and_ten_seconds(outcomes, case):
    outcome = outcomes[case]
    (message,) = outcome["err"].splitlines()
    assert outcome["code"] == 2
    assert outcome["out"] == ""
    for fact in CASES[case][2]:
        assert fact in message
    assert len(message) < 500
    assert outcome["peak"] < GB
    assert outcome["seconds"] < 10


def test_a_large_file_may_take_ten_times_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr("riskmatch.limits.MEMORY", 10_000)
    path = tmp_path / "a.npz"
    for values, refused in (
        (np.random.default_rng(0).random(10**5), False),
        (np.zeros(10**5), True),
    ):
        np.savez_compressed(path, x=values)
        if refused:
            with pytest.raises(LimitError, match=r"a\.npz unpacks to 1 MB; the limit is"):
                read_arrays(path)
        else:
            assert np.array_equal(read_arrays(path)["x"], values)


def test_the_factor_raises_limits_and_must_be_positive(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "1" * (FIELD + 1) + ",2\n")
    for factor in ("2", "inf"):
        monkeypatch.setenv("RISKMATCH_LIMIT_FACTOR", factor)
        check_fields(path)
    for factor in ("0", "-1", "nan", "many"):
        monkeypatch.setenv("RISKMATCH_LIMIT_FACTOR", factor)
        with pytest.raises(ValueError, match=f"RISKMATCH_LIMIT_FACTOR .* '{factor}'"):
            check_fields(path)
    monkeypatch.delenv("RISKMATCH_LIMIT_FACTOR")
    with pytest.raises(LimitError, match="16 MB"):
        check_fields(path)


def test_quotes_within_fields_join_no_lines(tmp_path):
    path = tmp_path / "pipes.csv"
    path.write_text(
        'pipe,text\n5" wide,"one\ntwo, ""three"""\n' + "4 wide,plain\n" * (2 * FIELD // 13)
    )
    frame = read_table(path)
    assert len(frame) == 1 + 2 * FIELD // 13
    assert frame.iloc[0].to_list() == ['5" wide', 'one\ntwo, "three"']


def test_parquet_is_read_as_pandas_reads_it(tmp_path):
    days = pd.date_range("2024-01-01", periods=4)
    frame = pd.DataFrame(
        {
            "text": ["a", None, "b", "a"],
            "category": pd.Categorical(["x", "y", None, "x"]),
            "day": days,
            "number": [1.5, np.nan, 3, 4],
            "whole": [1, 2, 3, 4],
            "a.b": ["dot", "in", "the", "name"],
            "yes": [True, False, True, True],
        }
    )
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=2)
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.parquet"), frame)


def test_a_network_within_the_limit_is_built_as_without_it():
    def build():
        torch.manual_seed(0)
        generator = torch.Generator().manual_seed(1)
        noise = torch.randn(4, generator=generator, dtype=torch.float64)
        return [*torch.nn.Linear(3, 2).parameters(), noise, torch.zeros(2, out=torch.ones(2))]

    expected = build()
    with bounded_build("it takes", 100):
        built = build()
    assert all(map(torch.equal, built, expected))
    with pytest.raises(LimitError, match="it takes"), bounded_build("it takes", 31):
        build()


def test_a_stray_label_is_compared_at_once():
    many = DataIdentity(tuple(map(str, range(300_000))), {"A": 9})
    fewer = DataIdentity(("a", *many.classes[1:]), {"A": 9})
    assert many.changes(fewer) == "class '0' was removed, class 'a' was added"


def test_messages_list_few_of_many_names():
    with pytest.raises(ValueError, match=r"Did you mean 'x70'.* 'x49' and 99,950 more") as error:
        check_option("column", "x 70", [f"x{k}" for k in range(100_000)])
    assert len(str(error.value)) < 600


def test_the_documentation_states_the_limits():
    text = Path(__file__, "../../../docs/file-formats.md").resolve().read_text("utf-8")
    section = text.partition("## Limits")[2].partition("## ")[0]
    side = int((limits.MEMORY / (BATCH * 3 * 4)) ** 0.5)
    stated = [limits.MEMORY / 1e9, limits.COLUMNS, limits.FIELD / 1e6, limits.ENTRIES, side]
    for number in stated:
        assert f" {number:,.0f}" in section
    assert limits.EXPANSION == 10
    assert limits.VARIABLE in section
