import sys

import numpy as np
import pytest

pytest.importorskip("PIL", reason="needs the extra riskmatch[images]")
pytest.importorskip("efficientnet_lite_pytorch", reason="needs the extra riskmatch[images]")

from pets import CLASSES, DOMAINS, draw_pets
from safetensors.torch import save_file

from riskmatch.data import load
from riskmatch.models import seeded_trunk, trunk
from riskmatch.models.embedding import embed


@pytest.fixture
def pets(riskmatch, settled, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("RISKMATCH_DATA", raising=False)
    return draw_pets(tmp_path / "pets")


def test_features_are_written_from_the_cache(riskmatch, pets):
    done = riskmatch("embed", "pets", "--out", "new/pets.npz")
    assert (done.code, done.out) == (0, "new/pets.npz has 12 rows of 1,280 features\n")
    lines = done.err.splitlines()
    assert lines[2].startswith("embedding · 12 images")
    table = np.load("new/pets.npz")
    assert table["domain"].tolist() == [name for name in DOMAINS for _ in range(4)]
    assert table["class"].tolist() == [name for _ in DOMAINS for name in CLASSES for _ in "ab"]
    expected = np.concatenate(
        [domain.x for domain in embed(load("pets"), seeded_trunk("lite0", {})).domains]
    )
    np.testing.assert_array_equal(table["features"], expected)
    again = riskmatch("embed", str(pets), "--out", "again.npz")
    assert again.err == "writing again.npz\n"  # every feature was cached
    assert riskmatch("embed", "pets", "--out", "again.npz", "--quiet") == (0, "", "")


def test_parquet_has_a_row_per_view(riskmatch, pets):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra riskmatch[parquet]")
    words = ["--views", "2", "--image-size", "32", "--backbone", "lite0"]
    done = riskmatch("embed", "pets", "--out", "pets.parquet", *words)
    assert done.out == "pets.parquet has 24 rows of 1,280 features\n"
    assert parquet.read_table("pets.parquet")["view"].to_pylist() == [0, 1] * 12


def test_weights_can_come_from_a_file(riskmatch, pets):
    state = trunk("lite0", pretrained=False).body.state_dict()
    save_file(state, "mine.safetensors")
    words = ["--model-option", "weights=mine.safetensors", "--model-option", "size=32"]
    assert riskmatch("embed", "pets", "--out", "mine.npz", *words, "--quiet").code == 0
    options = {"weights": "mine.safetensors", "size": 32}
    features = embed(load("pets"), seeded_trunk("lite0", options))
    expected = np.concatenate([domain.x for domain in features.domains])
    np.testing.assert_array_equal(np.load("mine.npz")["features"], expected)
    assert riskmatch("embed", "pets", "--out", "ours.npz", "--quiet").code == 0
    assert not np.array_equal(np.load("ours.npz")["features"], expected)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("pets", "riskmatch embed needs --out"),
        ("pets --out f.csv", "Unknown file type of --out '.csv'. Valid: '.parquet', '.npz'."),
        ("pets --out f.npz --views 0", "views must be at least 1, got 0."),
        ("pets --out f.npz --image-size -1", "image_size must be at least 1, got -1."),
        ("pets --out f.npz --backbone lite1", "Unknown backbone 'lite1'. Did you mean 'lite0'?"),
        (
            "pets --out f.npz --model-option size=big",
            "size of lite0 must be an integer or None, got 'big'.",
        ),
        (
            "pets --out f.npz --model-option pretrained=no",
            "pretrained of lite0 must be true or false, got 'no'.",
        ),
        ("pets --out f.npz --model-option frozen=true", "Unknown option of lite0 'frozen'."),
        (
            "pets --out f.npz --model-option weights=no.pt",
            "The file of weights no.pt does not exist",
        ),
        ("pets --out f.npz --device gpu", "Device gpu is not available: "),
        ("pacs --out f.npz", "PACS is not on this machine; "),
        ("colored-digits --out f.npz", "Unknown data set of images 'colored-digits'."),
    ],
)
def test_bad_input_is_refused_before_any_work(riskmatch, pets, tmp_path, words, message):
    done = riskmatch("embed", *words.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"riskmatch: {message}")
    assert done.err.count("\n") == 1
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("package", "file", "extra"),
    [("pyarrow", "f.parquet", "parquet"), ("efficientnet_lite_pytorch", "f.npz", "images")],
)
def test_missing_package_is_named_before_any_work(
    riskmatch, pets, tmp_path, monkeypatch, package, file, extra
):
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    done = riskmatch("embed", "pets", "--out", file)
    assert done.code == 2
    assert f"pip install 'riskmatch[{extra}]'" in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "cache").exists()


def test_features_file_is_a_data_set_of_train_and_sweep(riskmatch, pets):
    assert riskmatch("embed", "pets", "--out", "pets.npz", "--quiet").code == 0
    words = ["--method", "erm", "--steps", "4"]
    done = riskmatch("train", "pets.npz", *words, "--test-domain", "oil", "--json")
    assert '"model": "linear"' in done.out
    missing = riskmatch("train", "pets.npz", *words)
    assert (missing.code, missing.err.count("\n")) == (2, 1)
    assert "'ink', 'oil', 'photo'" in missing.err
    words = ["--data", "pets.npz", "--methods", "erm", "--draws", "1", "--trials", "1"]
    assert riskmatch("sweep", "plan", "sweep", *words, "--steps", "2", "--quiet").code == 0
    assert riskmatch("sweep", "run", "sweep", "--jobs", "1", "--quiet").code == 0
    assert "pets.npz" in riskmatch("sweep", "table", "sweep").out


@pytest.mark.parametrize("command", ["data doctor pets.npz", "embed pets.npz --out again.npz"])
def test_features_file_is_refused_where_images_are_needed(riskmatch, pets, command):
    assert riskmatch("embed", "pets", "--out", "pets.npz", "--quiet").code == 0
    done = riskmatch(*command.split())
    assert done.code == 2
    assert "pets.npz holds features, not images" in done.err
