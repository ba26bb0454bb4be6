"""Files of the user stay: what a command replaces, keeps and refuses."""

import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pets import draw_pets

from riskmatch import load_model
from riskmatch.cli import main

COLUMNS = "--label late --domain site"
FAST = "--method erm --steps 6 --eval-every 3 --model-option widths=[4]"
TRAIN = f"train visits.csv {COLUMNS} {FAST} --all-domains --no-left-out --save model"
PETS = (
    "--model lite0 --model-option pretrained=false --model-option size=32 "
    "--data-option augment=false --steps 1"
)
ADVISE = (
    f"advise visits.csv {COLUMNS} --methods coral --draws 1 --steps 4 --eval-every 4 "
    "--model-option widths=[4] --jobs 1"
)


def visits(seed=0, n=90):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.normal(50, 20, n),
            "site": np.array(["A", "B", "C"])[np.arange(n) % 3],
            "late": np.array(["yes", "no"])[np.arange(n) // 3 % 2],
        }
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table and images, models of both with their runs, and an advice."""
    root = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setenv("XDG_CACHE_HOME", str(root / "cache"))
        visits().to_csv("visits.csv", index=False)
        draw_pets(root / "pets", each=3)
        for words in (
            TRAIN,
            f"train pets --method erm --all-domains --no-left-out --save pet-model {PETS}",
            ADVISE,
        ):
            assert main([*shlex.split(words), "--quiet"]) == 0
    return root


@pytest.fixture
def here(riskmatch, made, tmp_path, monkeypatch):
    """This as the current folder, with notes of the user; what a test changes is undone."""
    shutil.copytree(made, tmp_path / "made")
    monkeypatch.chdir(made)  # the id of a run depends on the path of its data
    monkeypatch.setenv("XDG_CACHE_HOME", str(made / "cache"))
    for folder in ("model", "advice", "runs"):
        (made / folder / "notes.txt").write_text("chapter 1")
    (made / "model/model.onnx").write_bytes(b"made with another tool")
    yield made
    for path in made.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(tmp_path / "made", made, dirs_exist_ok=True)


def contents():
    return {path: path.read_bytes() for path in sorted(Path().rglob("*")) if path.is_file()}


def refused(result, *facts):
    """Check that a command was refused in one line after its progress, and return that line."""
    *_, message = result.err.splitlines()
    assert message.startswith("riskmatch: ")
    assert result.code == 2
    for fact in facts:
        assert fact in message
    return message


def test_the_same_command_again_changes_nothing(riskmatch, here):
    before = contents()
    assert riskmatch(*shlex.split(TRAIN)).code == 0
    assert contents() == before


def test_an_edited_card_stays_and_is_named(riskmatch, here):
    Path("model/README.md").write_text("our own words")
    result = riskmatch(*shlex.split(TRAIN), "--licence", "MIT")
    assert result.code == 0
    assert "model/README.md was edited and is kept" in result.err
    assert Path("model/README.md").read_text() == "our own words"
    assert load_model("model").values["licence"] == "MIT"


@pytest.mark.parametrize(
    "change",
    [
        ["--seed", "1"],
        ["--steps", "9"],
        ["--out", "elsewhere"],  # the same options, and another visits.csv
    ],
)
def test_another_model_is_refused_before_training(riskmatch, here, change):
    if change[0] == "--out":
        visits(seed=1).to_csv("visits.csv", index=False)
    before = contents()
    refused(riskmatch(*shlex.split(TRAIN), *change), "model holds another model", "--overwrite")
    assert contents() == before  # no run was started


def test_overwrite_replaces_the_model_and_nothing_else(riskmatch, here):
    before = load_model("model").config
    result = riskmatch(*shlex.split(TRAIN), "--seed", "1", "--overwrite")
    assert result.code == 0
    after = load_model("model").config
    assert (before.seed, after.seed) == (0, 1)
    assert Path("model/notes.txt").read_text() == "chapter 1"
    assert Path("model/model.onnx").read_bytes() == b"made with another tool"
    assert after.id in Path("model/README.md").read_text()


def test_another_step_of_the_same_run_is_another_model(riskmatch, tmp_path):
    words = "train colored-digits --data-option samples=60 --method rdm --warmup 2 --steps 4"
    words += " --eval-every 2 --model-option widths=[4] --all-domains --save model"
    assert riskmatch(*shlex.split(words)).code == 0
    step = load_model("model").values["run"]["step"]
    again = riskmatch(*shlex.split(words), "--after-warmup")
    if step == 4:
        assert again.code == 0
    else:
        assert again.code == 2
        assert f"step {step} of the same run, not step 4" in again.err
        assert riskmatch(*shlex.split(words), "--after-warmup", "--overwrite").code == 0
    assert load_model("model").values["run"]["step"] == 4


def test_overwrite_is_an_option_of_the_model_folder(riskmatch):
    words = "train colored-digits --method erm --test-domain 0.1 --overwrite"
    refused(riskmatch(*words.split()), "--overwrite", "--all-domains")


INPUTS = {
    "a table": ("predict model visits.csv --out visits.csv", "visits.csv"),
    "a table under another name": ("predict model link.csv -o visits.csv", "visits.csv"),
    "a manifest": ("embed list.parquet --model-option pretrained=false --out list.parquet", None),
    "an image of the folder": (
        "monitor pet-model pets --figure pets/ink/cat/0.png",
        "pets/ink/cat/0.png",
    ),
    "an image of the folder, unlabelled": (
        "monitor pet-model pets --unlabelled --figure pets/ink/cat/0.png",
        "pets/ink/cat/0.png",
    ),
    "an image of a manifest": (
        "monitor pet-model list.parquet --figure pets/oil/dog/1.png",
        "pets/oil/dog/1.png",
    ),
    "an image of a contact sheet": (
        "data doctor pets --quiet --sheet pets/ink/cat/0.png",
        "pets/ink/cat/0.png",
    ),
    "the preprocessing of a run": ("figure curves runs -o PREPROCESSING", None),
    "the figure itself": ("figure curves.json -o curves.json", "curves.json"),
}


@pytest.mark.parametrize("case", INPUTS)
def test_an_output_that_is_an_input_is_refused(riskmatch, here, case):
    words, name = INPUTS[case]
    Path("link.csv").symlink_to("visits.csv")
    rows = [path.relative_to(here) for path in sorted(here.glob("pets/*/*/*.png"))]
    listed = [{"path": str(p), "label": p.parts[2], "domain": p.parts[1]} for p in rows]
    pd.DataFrame(listed).to_parquet("list.parquet")
    assert riskmatch("figure", "curves", "runs", "-o", "curves.json").code == 0
    for word, file in (("RECORD", "records.jsonl"), ("PREPROCESSING", "preprocessing.json")):
        if word in words:
            name = str(next(Path("runs").glob(f"*/{file}")))
            words = words.replace(word, name)
    before = contents()
    refused(riskmatch(*shlex.split(words)), name or "list.parquet", "another file")
    assert contents() == before


@pytest.mark.parametrize(
    "words",
    [
        "predict model visits.csv -o predictions.csv",
        "figure curves runs -o runs/curves.json",
        "figure curves runs -o runs/curves.png",
        "report runs -o runs/report.html",
        "data doctor pets --quiet --sheet sheet.png",
        "export model --format torch",
        "monitor model visits.csv --quiet --figure risks.png",
    ],
)
def test_the_output_of_the_same_command_is_replaced(riskmatch, here, words):
    first = riskmatch(*shlex.split(words))
    again = riskmatch(*shlex.split(words))
    assert first.code == again.code
    assert first.code in (0, 1)
    assert again.err == first.err


def test_an_export_replaces_its_own_file_alone(riskmatch, here):
    Path("model/model.pt2").write_bytes(b"of another tool")
    words = "export model --format torch"
    refused(riskmatch(*words.split()), "model/model.pt2", "--overwrite", "--out")
    assert Path("model/model.pt2").read_bytes() == b"of another tool"
    for more in ("--overwrite", "", "-o model/model.pt2"):
        assert riskmatch(*words.split(), *more.split()).code == 0
    assert Path("model/model.pt2").stat().st_size > 1000


def test_advice_again_changes_nothing(riskmatch, here):
    before = contents()
    assert riskmatch(*shlex.split(ADVISE)).code == 0
    assert contents() == before


def test_advice_on_other_data_is_refused_before_training(riskmatch, here):
    visits(seed=1).to_csv("other.csv", index=False)
    before = contents()
    words = shlex.split(ADVISE.replace("visits", "other"))
    refused(riskmatch(*words), "advice/advice.json", "--overwrite", "--out")
    assert contents() == before
    assert riskmatch(*words, "--overwrite").code == 0
    assert json.loads(Path("advice/advice.json").read_text())["data"].endswith("other.csv")
    assert Path("advice/notes.txt").exists()


def test_an_edited_advice_stays_and_is_named(riskmatch, here):
    file = Path("advice/advice.json")
    edited = {**json.loads(file.read_text()), "hparams": {}, "method": "erm", "mine": 1}
    file.write_text(json.dumps(edited))
    result = riskmatch(*shlex.split(ADVISE))
    assert result.code == 0
    assert "advice/advice.json was edited and is kept" in result.err
    assert json.loads(file.read_text()) == edited
    assert riskmatch(*shlex.split(ADVISE), "--overwrite").code == 0
    assert "mine" not in json.loads(file.read_text())


@pytest.mark.parametrize("name", ["advice.json", "advice.html", "siblings.json", "baselines.json"])
def test_files_in_the_places_of_an_advice_are_refused(riskmatch, here, name):
    Path("thoughts").mkdir()
    Path("thoughts", name).write_text("chapter 1")
    before = contents()
    words = [*shlex.split(ADVISE), "--out", "thoughts"]
    refused(riskmatch(*words), f"thoughts/{name}", "--overwrite", "--out")
    assert contents() == before


@pytest.mark.parametrize("text", ['{"task": 1}\n{"task": 2}\n', "buy milk\n"])
def test_a_plan_of_something_else_is_not_extended(riskmatch, here, text):
    Path("sweep").mkdir()
    Path("sweep/plan.jsonl").write_text(text)
    before = contents()
    words = f"sweep plan sweep --data visits.csv {COLUMNS} --methods erm --draws 1 --trials 1"
    words += " --steps 4 --model-option widths=[4]"
    refused(riskmatch(*shlex.split(words)), "sweep/plan.jsonl")
    assert contents() == before


@pytest.mark.parametrize("name", ["demo.json", "demo.md", "demo.png"])
def test_files_in_the_places_of_a_demo_are_refused(riskmatch, name):
    Path("demo").mkdir()
    Path("demo", name).write_text("slides")
    refused(riskmatch("demo"), f"demo/{name}", "--overwrite", "--out")
    assert contents() == {Path("demo", name): b"slides"}


def test_a_table_of_other_runs_is_refused_before_training(riskmatch):
    Path("here").mkdir()
    Path("here/vlcs.md").write_text("chapter 4")
    words = "reproduce vlcs --budget smoke --methods erm --out here --jobs 1"
    Path("here/vlcs-on-colored-digits.csv").write_text("1,2")
    result = riskmatch(*words.split())
    refused(result, "vlcs-on-colored-digits.csv", "--overwrite", "--out")
    assert sorted(path.name for path in Path("here").iterdir()) == [
        *("vlcs-on-colored-digits.csv", "vlcs.md")
    ]
    assert riskmatch(*words.split(), "--overwrite", "--quiet").code == 0
    assert riskmatch(*words.split(), "--quiet").code == 0  # the runs are there now
    assert Path("here/vlcs.md").read_text() == "chapter 4"
