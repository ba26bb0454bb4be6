import csv
import json
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("PIL", reason="needs the extra riskmatch[images]")
pytest.importorskip("efficientnet_lite_pytorch", reason="needs the extra riskmatch[images]")

from pets import DOMAINS, draw_pets

from riskmatch.cli.train import Train
from riskmatch.runs.findings import RunWarning

RUN = shlex.split(
    "--method rdm --test-domain oil --steps 4 --eval-every 2 --batch-size 2 --warmup 1"
)


@pytest.fixture
def pets(riskmatch, settled, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("RISKMATCH_DATA", raising=False)
    return draw_pets(tmp_path / "pets", each=3)


def test_frozen_run_prints_progress_of_the_embedding(riskmatch, pets):
    first = riskmatch("train", "pets", *RUN, "--frozen")
    assert first.code == 0
    lines = first.err.splitlines()
    assert lines[:2] == ["reading images · 18 images", "decoding images · 18 images"]
    assert lines[2].startswith("embedding · 18 images")
    assert lines[3].startswith("step 2/4 ")
    second = riskmatch("train", "pets", *RUN, "--frozen", "--seed", "1")
    assert second.err.startswith("step 2/4 ")  # the features were cached


def test_run_id_does_not_depend_on_the_current_folder(riskmatch, pets, monkeypatch):
    words = ["train", "--data-option", "image_size=32", *RUN, "--frozen", "--json", "--quiet"]
    first = json.loads(riskmatch(*words, "pets").out)
    assert first["config"]["data"] == str(pets)
    assert set(first["evaluation"]["scores"]) == set(DOMAINS)
    monkeypatch.chdir(pets)
    for path in (".", "../pets/", str(pets)):
        assert Train.parse("train", [*words[1:], path]).config.id == first["id"]


@pytest.mark.parametrize("network", ["mlp", "cnn", "linear"])
def test_network_without_preprocessing_of_images_is_refused(riskmatch, pets, network):
    done = riskmatch("train", "pets", *RUN, "--model", network)
    assert done.code == 2
    assert f"The network {network} does not resize and normalise images" in done.err
    assert "Use a backbone: lite0 or timm:NAME." in done.err


def test_manifest_with_trainable_backbone(riskmatch, pets):
    with open("pets.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "label", "domain"])
        for path in sorted(pets.rglob("*.png")):
            rows.writerow([path.relative_to(pets.parent), path.parts[-2], path.parts[-3]])
    done = riskmatch("train", "pets.csv", *RUN, "--steps", "1", "--data-option", "image_size=32")
    assert done.code == 0
    assert "oil (test)" in done.out


def test_a_list_with_a_label_of_another_name_and_missing_ones(riskmatch, pets):
    files = sorted(path.relative_to(pets.parent) for path in pets.rglob("*.png"))
    lines = [f"{path},{path.parts[-2]},{path.parts[-3]}" for path in files]
    lines[0] = f"{files[0]},,ink"
    Path("pets.csv").write_text("\n".join(["path,kind,domain", *lines]))
    network = ("--frozen", "--model-option", "pretrained=false")
    words = ("train", "pets.csv", "--label", "kind", *RUN, *network)
    refused = riskmatch(*words)
    assert (refused.code, "line 2: the kind is empty" in refused.err) == (2, True)
    done = riskmatch(*words, "--drop-missing-labels")
    assert done.code == 0
    assert done.err.count(" without a label are left out: ink 1") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("pets --method erm --test-domain oli", "Did you mean 'oil'? Valid: 'ink', 'oil', 'photo'"),
        ("pets --method erm", "Give --test-domain, one of 'ink', 'oil', 'photo'"),
        ("pacs --method erm --test-domain skech", "Unknown domain of 'pacs' 'skech'. Did you mean"),
        ("pacs --method erm --test-domain sketch", "riskmatch data get pacs"),
        ("pacs --method erm", "one of 'art_painting', 'cartoon', 'photo', 'sketch'"),
        ("./nowhere --method erm --test-domain a", "There is no folder "),
        ("nowhere.csv --method erm --test-domain a", "There is no manifest "),
        (
            "pets --method erm --test-domain oil --model-option weights=nowhere.pt",
            "The file of weights nowhere.pt does not exist.",
        ),
        (
            "pets --method erm --test-domain oil --model-option size=big",
            "size of lite0 must be an integer or None, got 'big'.",
        ),
        (
            "pets --method erm --test-domain oil --frozen --model-option pretrained=no",
            "pretrained of lite0 must be true or false, got 'no'.",
        ),
        ("pets --method erm --test-domain oil --backbone light0", "Did you mean 'lite0'?"),
    ],
)
def test_bad_input_is_refused_before_any_image_is_decoded(
    riskmatch, pets, tmp_path, words, message
):
    done = riskmatch("train", *words.split())
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "cache").exists()


@pytest.mark.skipif(find_spec("timm") is None, reason="needs the extra riskmatch[timm]")
@pytest.mark.parametrize("more", [[], ["--frozen"]])
def test_unknown_timm_model_is_refused_before_any_image_is_decoded(riskmatch, pets, tmp_path, more):
    done = riskmatch("train", "pets", *RUN, *more, "--backbone", "timm:resnet5O")
    assert (done.code, done.out) == (2, "")
    assert "timm has no model 'resnet5O'. Did you mean 'timm:resnet50'?" in done.err
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("more", [[], ["--frozen"]])
@pytest.mark.parametrize(
    ("backbone", "package", "extra"),
    [("lite0", "efficientnet_lite_pytorch", "images"), ("timm:resnet18", "timm", "timm")],
)
def test_missing_package_is_named_before_any_image_is_decoded(
    riskmatch, pets, tmp_path, monkeypatch, backbone, package, extra, more
):
    monkeypatch.setitem(sys.modules, package, None)  # what an import finds where it is not
    done = riskmatch("train", "pets", *RUN, *more, "--backbone", backbone)
    assert (done.code, done.out) == (2, "")
    assert f"pip install 'riskmatch[{extra}]'" in done.err
    assert not (tmp_path / "cache").exists()


def test_frozen_scales_learning_rates_unless_given(riskmatch):
    words = ["pacs", "--method", "rdm", "--test-domain", "sketch"]
    whole = Train.parse("train", words).config
    head = Train.parse("train", [*words, "--frozen"]).config
    assert (whole.model, whole.lr) == ("lite0", 5e-5)
    assert (head.model, head.lr) == ("lite0", 1e-3)
    assert (whole.steps, whole.eval_every) == (head.steps, head.eval_every) == (5000, 300)
    assert (head.hparams["warmup"], head.hparams["lr_after"]) == (300, 3e-4)
    assert head.hparams["weight"] == whole.hparams["weight"]
    with pytest.warns(RunWarning, match="lr_after"):
        assert Train.parse("train", [*words, "--frozen", "--lr", "0.1"]).config.lr == 0.1
    Path("run.toml").write_text("frozen = true\n")
    assert Train.parse("train", [*words, "--config", "run.toml"]).config == head


def test_help_shows_the_defaults_of_a_frozen_backbone(riskmatch):
    words = ["train", "pacs", "--method", "rdm", "--help"]
    whole, head = (
        " ".join(riskmatch(*more).out.replace("│", " ").split())
        for more in (words, [*words, "--frozen"])
    )
    assert "(default lite0)" in whole
    assert "Learning rate (default 5e-5; searched in" in whole
    assert "Learning rate (default 0.001; searched in 20 ·" in head
    assert "(default 5000)" in head


def stop_after(monkeypatch, step):
    from riskmatch.cli.progress import RunDisplay

    show_step = RunDisplay.step

    def interrupt(display, progress):
        show_step(display, progress)
        if progress.step == step:
            raise KeyboardInterrupt

    monkeypatch.setattr(RunDisplay, "step", interrupt)


def test_run_is_not_resumed_if_labels_have_changed(riskmatch, pets, monkeypatch):
    with monkeypatch.context() as patch:
        stop_after(patch, 3)
        assert riskmatch("train", "pets", *RUN, "--frozen").code == 3
    for domain in DOMAINS:
        (pets / domain / "cat").rename(pets / domain / "zebra")
    refused = riskmatch("train", "pets", *RUN, "--frozen", "--resume")
    assert (refused.code, refused.out) == (2, "")
    last = refused.err.splitlines()[-1]
    assert (
        "class 'cat' was removed, class 'zebra' was added. Restore them to continue, or remove"
        in last
    )
    for domain in DOMAINS:
        (pets / domain / "zebra").rename(pets / domain / "cat")
    assert riskmatch("train", "pets", *RUN, "--frozen", "--resume").code == 0


@pytest.mark.filterwarnings("default:The data differ")
def test_finished_run_warns_of_changed_data(riskmatch, pets):
    first = riskmatch("train", "pets", *RUN, "--frozen")
    for file in (pets / "ink" / "dog").iterdir():
        file.unlink()
    (pets / "photo" / "dog").rename(pets / "photo" / "owl")
    again = riskmatch("train", "pets", *RUN, "--frozen")
    assert (again.code, again.out) == (0, first.out)
    warned, known = again.err.splitlines()
    assert warned == (
        "riskmatch: The data differ from those that this run was trained on: "
        "class 'owl' was added, 'ink' has 3 samples instead of 6."
    )
    assert known == "This run was done before; this is its record."


def test_images_that_cannot_be_read_are_skipped_and_listed(riskmatch, pets):
    (pets / "ink" / "cat" / "0.png").write_bytes(b"no image")
    (pets / "photo" / "dog" / "9.png").symlink_to("nowhere")
    words = ("train", "pets", *RUN, "--frozen", "--model-option", "pretrained=false")
    refused = riskmatch(*words)
    assert refused.code == 2
    (pets / "photo" / "dog" / "9.png").unlink()
    assert "--skip-unreadable" in riskmatch(*words).err
    (pets / "photo" / "dog" / "9.png").symlink_to("nowhere")
    done = riskmatch(*words, "--skip-unreadable")
    assert done.code == 0
    listed = "2 images cannot be read and are left out: 'ink/cat/0.png', 'photo/dog/9.png'"
    assert listed in done.err
    (run,) = (path for path in Path("runs").iterdir() if (path / "records.jsonl").exists())
    again = riskmatch(*words, "--skip-unreadable", "--seed", "1")
    assert (again.code, "checking images" in done.err, "checking images" in again.err) == (0, 1, 0)
    assert "changed" not in riskmatch("show", str(run)).err
    embedded = riskmatch("embed", "pets", "-o", "pets.npz", "--skip-unreadable")
    assert "17 rows" in embedded.out
    assert listed in embedded.err
