"""Reports of runs with parts of the user's own."""

import importlib
import json
import shlex
import shutil
import sys
import textwrap
from dataclasses import replace

import pytest

import riskmatch
from riskmatch import report
from riskmatch.cli import main
from riskmatch.cli.train import Train
from riskmatch.report.page import page_data
from riskmatch.runs import records

MODULE = """
    from dataclasses import dataclass

    from torch import nn

    from riskmatch.contract import Objective, Terms
    from riskmatch.data import load

    @dataclass(frozen=True)
    class Cautious(Objective):
        weight: float = 0.5

        def __call__(self, ev, memory):
            return Terms({"risk": ev.risk, "largest": self.weight * ev.domain_risks.max()})

    class Net(nn.Module):
        def __init__(self, input_shape, classes, dropout):
            super().__init__()
            self.body = nn.Sequential(nn.Flatten(), nn.Linear(128, 4), nn.ReLU())
            self.head = nn.Linear(4, classes)

        def forward(self, x):
            features = self.body(x)
            return features, self.head(features)

    def digits(*, samples: int = 60):
        return load("colored-digits", {"samples": samples})
"""
SIZE = {"steps": 20, "eval_every": 10}


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """The module their_parts, importable from the current folder."""
    (tmp_path / "their_parts.py").write_text(textwrap.dedent(MODULE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "their_parts", raising=False)
    return importlib.import_module("their_parts")


@pytest.fixture
def run(parts, tmp_path):
    """A run with a method, a network and a data set by name."""
    return riskmatch.train(
        "their_parts:digits", "their_parts:Cautious", "0.1", model="their_parts:Net", **SIZE
    )


def make_unimportable(tmp_path):
    (tmp_path / "their_parts.py").unlink()
    shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
    importlib.invalidate_caches()
    del sys.modules["their_parts"]


def test_titles_name_the_parts_and_the_configuration_has_their_full_names(run):
    data = page_data(run.folder)
    assert data["title"] == "Cautious on digits without 0.1"
    (page,) = data["runs"]
    assert page["config"]["method"] == "their_parts:Cautious"
    assert len(page["parts"]["method"]["source"]) == 16
    assert page["hardest"]["0.1"][0]["thumbnail"] is None
    command = page["reproduce"].split()
    assert command[command.index("--method") + 1] == "their_parts:Cautious"
    assert command[command.index("--weight") + 1] == "0.5"
    (note,) = (note for note in data["notes"] if "without pictures" in note)
    assert "their_parts:Net" in note
    assert "only reads" in note


def test_command_to_reproduce_gives_the_same_run(run):
    (page,) = page_data(run.folder)["runs"]
    assert Train.parse("train", shlex.split(page["reproduce"])[2:]).config == run.config


def test_comparison_with_erm(run):
    erm = replace(run.config, method="erm", hparams={})
    records.write(run.folder.parent / erm.id, replace(run.record, config=erm))
    summary = report.summarise(run.folder.parent)
    assert [row[0] for row in summary["comparison"].rows] == ["ERM", "Cautious"]
    assert summary["differences"][0]["method"] == "Cautious"


def test_commands_work_when_the_parts_cannot_be_imported(run, tmp_path, capsys):
    folder = str(run.folder)
    make_unimportable(tmp_path)
    assert main(["show", folder, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run"]["histograms"]
    for name in ("risks", "curves", "gap"):
        assert main(["figure", name, folder, "-o", f"{name}.png", "--quiet"]) == 0
    assert main(["report", folder, "-o", "report.html", "--quiet"]) == 0
    data = page_data(run.folder)
    (page,) = data["runs"]
    assert page["snapshots"]
    assert page["hardest"]["0.1"][0]["thumbnail"] is None
    (note,) = (note for note in data["notes"] if "without pictures" in note)
    assert "not imported" in note


def test_checkpoint_of_a_network_that_is_not_imported_gives_a_note(run):
    shutil.rmtree(run.folder / "predictions")
    assert any("not imported" in note for note in report.summarise(run.folder)["notes"])
    data = page_data(run.folder)
    assert data["runs"][0]["snapshots"] == []
    assert "not imported" in data["runs"][0]["no_predictions"]


def test_run_with_objects_passed_in_python(parts, tmp_path):
    network = parts.Net((2, 8, 8), 2, 0.0)
    run = riskmatch.train(parts.digits(), parts.Cautious(), "0.1", model=network, **SIZE)
    file = report.write_report(run.folder, tmp_path / "report.html")
    assert file.stat().st_size > 10_000
    data = page_data(run.folder)
    assert data["title"] == "Cautious on DomainSet without 0.1"
    assert data["runs"][0]["snapshots"]
    assert data["runs"][0]["reproduce"] == ""
    assert any("passed as an object" in note for note in data["notes"])
    assert report.draw_figure("curves", run.folder).axes
