"""``riskmatch figure``, and the figures that ``riskmatch reproduce`` writes."""

import json
import shutil

import pytest
from tiny import train

from riskmatch.report.figures import FIGURES, draw_figure

NAMES = [name for name in FIGURES if name != "ablation"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folder with runs of two methods."""
    from riskmatch.cli import main

    out = tmp_path_factory.mktemp("runs")
    for method in ("erm", "vrex"):
        assert main([*train(method), "--out", str(out), "--quiet"]) == 0
    return out


def test_figures_are_listed(riskmatch):
    text = riskmatch("figure").out
    assert all(f"{name} " in text and type_.summary in text for name, type_ in FIGURES.items())


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_of_trained_runs(riskmatch, runs, tmp_path, name):
    done = riskmatch("figure", name, str(runs), "-o", f"here/{name}.svg", "--width", "column")
    assert (done.code, done.out, done.err) == (0, f"here/{name}.svg\n", "")
    text = (tmp_path / "here" / f"{name}.svg").read_text("utf-8")
    assert ">ERM on colored-digits without 0.1</text>" in text
    assert 'width="237.6pt"' in text


def test_several_folders_and_output_files(riskmatch, runs, tmp_path):
    folders = sorted(str(path) for path in runs.iterdir())
    assert riskmatch("figure", "curves", *folders).out == "curves.png\n"
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert riskmatch("figure", "curves", folders[0], "--quiet", "-o", "one.pdf").out == ""
    assert (tmp_path / "one.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("rsks RUNS", "Unknown figure 'rsks'. Did you mean 'risks'?"),
        ("risks", "riskmatch figure risks runs/ID -o risks.pdf"),
        ("risks nowhere", "nowhere does not exist."),
        ("risks RUNS -o risks.jpg", "Unknown file type of --out '.jpg'."),
        ("ablation RUNS", "these runs have the same weight and batch_size"),
        ("fig1.json", "fig1.json: No such file or directory"),
        ("fig1.json RUNS", "fig1.json holds all its numbers"),
        ("-o a.png", "riskmatch figure --help lists them."),
    ],
)
def test_errors_are_one_line(riskmatch, runs, words, message):
    done = riskmatch("figure", *words.replace("RUNS", str(runs)).split())
    assert done.code == 2
    assert done.err.startswith("riskmatch: ")
    assert message in done.err
    assert done.err.count("\n") == 1


def test_missing_predictions_name_the_cure(riskmatch, runs, tmp_path):
    first = next(path for path in runs.iterdir())
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "records.jsonl").write_text((first / "records.jsonl").read_text())
    done = riskmatch("figure", "risks", "bare")
    assert done.code == 2
    assert "bare has neither predictions nor a checkpoint" in done.err
    assert "bare holds no predictions" in riskmatch("figure", "gap", "bare").err
    assert riskmatch("figure", "worst", "bare").code == 0


@pytest.mark.parametrize("name", ["risks", "cdf"])
def test_checkpoint_takes_the_place_of_predictions(riskmatch, runs, tmp_path, name):
    shutil.copytree(runs, tmp_path / "swept")
    for folder in (tmp_path / "swept").iterdir():
        shutil.rmtree(folder / "predictions")
    images = []
    for folder in (str(runs), "swept"):
        done = riskmatch("figure", name, folder, "-o", "figure.png")
        assert (done.code, done.out) == (0, "figure.png\n")
        images.append((tmp_path / "figure.png").read_bytes())
    assert images[0] == images[1]


def test_numbers_of_a_figure_are_kept_and_drawn_again(riskmatch, runs, tmp_path):
    for words in ("curves RUNS -o a.png", "curves RUNS -o a.json", "a.json -o b.png"):
        assert riskmatch("figure", *words.replace("RUNS", str(runs)).split()).code == 0
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_progress_while_a_checkpoint_predicts(runs, tmp_path):
    folder = shutil.copytree(next(runs.iterdir()), tmp_path / "run")
    shutil.rmtree(folder / "predictions")
    calls = []
    draw_figure("risks", folder, on_progress=lambda *call: calls.append(call))
    last = calls[-1]
    assert last[0] == "predicting with run"
    assert last[1] == last[2] > 0


def test_missing_data_is_not_taken_for_a_missing_checkpoint(riskmatch, tmp_path):
    rows = "\n".join(f"{site},{n},{n % 2}" for site in "abc" for n in range(20))
    (tmp_path / "visits.csv").write_text(f"site,x,late\n{rows}\n")
    words = "train visits.csv --label late --domain site --test-domain a --method erm --steps 2"
    assert riskmatch(*words.split(), "--out", "runs", "--quiet").code == 0
    (run,) = (tmp_path / "runs").iterdir()
    shutil.rmtree(run / "predictions")
    (tmp_path / "visits.csv").rename(tmp_path / "moved.csv")
    done = riskmatch("figure", "risks", str(run))
    assert done.code == 2
    assert "visits.csv" in done.err
    assert "checkpoint" not in done.err


def test_too_many_panels_are_rejected(riskmatch, runs, monkeypatch):
    monkeypatch.setattr("riskmatch.report.figures.catalogue.MAX_PANELS", 1)
    done = riskmatch("figure", "risks", str(runs))
    assert (done.code, done.err) == (2, "riskmatch: 2 runs need 2 panels; give at most 1 runs.\n")


@pytest.mark.parametrize("name", ["fig5", "fig8"])
def test_figure_of_the_paper_is_redrawn_from_its_json(riskmatch, tmp_path, monkeypatch, name):
    monkeypatch.delenv("RISKMATCH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    done = riskmatch("reproduce", name, "--budget", "smoke", "--out", "here")
    assert done.code == 0
    drawn = tmp_path / "here" / f"{name}-on-colored-digits.png"
    record = drawn.with_suffix(".json")
    values = json.loads(record.read_text("utf-8"))
    assert "colored-digits" in values["title"]
    assert "check that everything works" in values["note"]
    assert drawn.with_suffix(".pdf").stat().st_size
    assert riskmatch("figure", str(record), "-o", "again.png").code == 0
    assert (tmp_path / "again.png").read_bytes() == drawn.read_bytes()
    for run in (tmp_path / "here" / "runs").iterdir():
        shutil.rmtree(run / "predictions")
        shutil.rmtree(run / "checkpoints")
    done = riskmatch("reproduce", name, "--budget", "smoke", "--out", "here", "--as-is")
    assert done.code == 2
    assert "predictions" in done.err
