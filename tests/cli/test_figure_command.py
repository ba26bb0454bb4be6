"""``riskmatch figure``, and the figures that ``riskmatch reproduce`` writes."""

import json
import shutil

import pytest
from tiny import train

from riskmatch.report.figures import FIGURES

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
    assert "bare holds no predictions" in done.err
    assert riskmatch("figure", "worst", "bare").code == 0


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
