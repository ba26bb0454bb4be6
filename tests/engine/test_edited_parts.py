"""A part of the user's own that was edited makes another run, and an earlier result is kept."""

import importlib
import json
import sys
import textwrap
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import riskmatch
from riskmatch.cli import main
from riskmatch.contract import Objective, Terms
from riskmatch.defaults import SourceChangedError
from riskmatch.runs import records

MODULE = """
    from dataclasses import dataclass

    from riskmatch.contract import Objective, Terms

    @dataclass(frozen=True)
    class Spread(Objective):
        weight: float = 0.5

        def __call__(self, ev, memory):
            return Terms({"risk": ev.risk, "spread": self.weight * ev.domain_risks.var()})
"""
EDIT = ("var()", "max()")
TRAIN = ["train", "colored-digits", "--method", "edited:Spread", "--test-domain", "0.1", "--quiet"]
TRAIN += ["--steps", "6", "--eval-every", "3", "--data-option", "samples=60"]
PLAN = ["sweep", "plan", "s", "--data", "colored-digits", "--methods", "erm,edited:Spread"]
PLAN += ["--test-domain", "0.1", "--draws", "1", "--trials", "1", "--quiet"]
PLAN += ["--steps", "6", "--eval-every", "3", "--data-option", "samples=60"]


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run a command like a new process, which imports the module as it is now."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def run(*words):
        sys.modules.pop("edited", None)
        importlib.invalidate_caches()
        code = main(list(words))
        output = capsys.readouterr()
        return code, output.out, output.err

    yield run
    sys.modules.pop("edited", None)


@pytest.fixture
def write(tmp_path):
    def text(*change):
        edited = textwrap.dedent(MODULE).replace(*change) if change else textwrap.dedent(MODULE)
        (tmp_path / "edited.py").write_text(edited)

    text()
    return text


def runs(folder):
    return {run.config.id: run for run in records.read_all(folder)}


def test_edited_method_is_trained_again(command, write, tmp_path):
    assert command(*TRAIN)[0] == 0
    before = runs(tmp_path / "runs")
    write("Spread", "Spread")
    assert command(*TRAIN)[0] == 0
    assert runs(tmp_path / "runs") == before
    write(*EDIT)
    assert command(*TRAIN)[0] == 0
    after = runs(tmp_path / "runs")
    assert len(after) == 2
    first, second = after.values()
    assert first.config.sources.keys() == second.config.sources.keys() == {"method"}
    assert first.evaluations[-1].loss != second.evaluations[-1].loss


def test_resuming_an_edited_method_is_refused(command, write, tmp_path):
    assert command(*TRAIN)[0] == 0
    ((id, _),) = runs(tmp_path / "runs").items()
    records.rewind(tmp_path / "runs" / id, 3)
    write(*EDIT)
    code, _, err = command(*TRAIN, "--resume")
    assert code == 2
    assert "edited:Spread" in err
    assert id in err
    assert len(runs(tmp_path / "runs")) == 1


def test_force_trains_a_finished_run_again(command, write, tmp_path):
    assert command(*TRAIN)[0] == 0
    ((id, run),) = runs(tmp_path / "runs").items()
    file = tmp_path / "runs" / id / records.FILE
    stamp = file.stat().st_mtime_ns
    assert command(*TRAIN)[0] == 0
    assert file.stat().st_mtime_ns == stamp
    assert command(*TRAIN, "--force")[0] == 0
    assert file.stat().st_mtime_ns > stamp
    again = records.read(tmp_path / "runs" / id)
    assert again.evaluations[-1].loss == run.evaluations[-1].loss
    assert again.status == "done"


def test_force_keeps_the_result_until_the_new_run_starts(tmp_path):
    options = {"out": tmp_path, "steps": 4, "data_options": {"samples": 40}}
    run = riskmatch.train("colored-digits", "erm", "0.1", **options)

    def fail(progress):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        riskmatch.train(
            *("colored-digits", "erm", "0.1"), force=True, device="cpu", on_step=fail, **options
        )
    again = riskmatch.train("colored-digits", "erm", "0.1", restart=True, **options)
    assert again.record.evaluations[-1].loss == run.record.evaluations[-1].loss


def test_sweep_plans_an_edited_method_again_and_tables_show_the_newest(command, write, tmp_path):
    assert command(*PLAN)[0] == 0
    assert command("sweep", "run", "s", "--jobs", "1", "--quiet")[0] == 0
    before = runs(tmp_path / "s" / "runs")
    write(*EDIT)
    first, *_ = command("sweep", "run", "s", "--jobs", "1")[2].splitlines()
    assert "edited:Spread" in first
    assert "1 run is planned again" in first
    after = runs(tmp_path / "s" / "runs")
    (new,) = after.keys() - before.keys()
    assert after[new].config.method == "edited:Spread"
    assert {run.status for run in after.values()} == {"done"}
    code, out, err = command("sweep", "table", "s", "--json")
    assert code == 0
    assert "1 run is left out" in err
    assert "edited:Spread" in err
    assert sum("Spread" in str(row) for row in json.loads(out)[0]["rows"]) == 1
    code, out, _ = command("sweep", "status", "s", "--json")
    assert (code, json.loads(out)["done"]) == (0, 2)


def test_folder_of_runs_without_a_plan_shows_the_newest_source(command, write, tmp_path):
    assert command(*TRAIN)[0] == 0
    write(*EDIT)
    assert command(*TRAIN)[0] == 0
    with pytest.warns(UserWarning, match="1 run is left out"):
        frame = riskmatch.results(tmp_path / "runs")
    newest = max(
        (tmp_path / "runs").iterdir(), key=lambda run: (run / records.FILE).stat().st_mtime
    )
    assert set(frame["run"]) == {newest.name}


def make_method(formula):
    """A method as a cell of a notebook defines it, under the same name each time."""
    if formula == "variance":

        @dataclass(frozen=True)
        class Cell(Objective):
            def __call__(self, ev, memory):
                return Terms({"risk": ev.risk, "more": ev.domain_risks.var()})

    else:

        @dataclass(frozen=True)
        class Cell(Objective):
            def __call__(self, ev, memory):
                return Terms({"risk": ev.risk, "more": ev.domain_risks.max()})

    Cell.__qualname__ = "Cell"
    return Cell()


def make_network(activation):
    if activation == "relu":

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.head = nn.Linear(3, 4), nn.Linear(4, 2)

            def forward(self, x):
                return self.head(torch.relu(self.layer(x)))

    else:

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer, self.head = nn.Linear(3, 4), nn.Linear(4, 2)

            def forward(self, x):
                return self.head(torch.tanh(self.layer(x)))

    torch.manual_seed(0)
    return Net()


def test_objects_of_an_edited_class_make_another_run(tmp_path):
    x, y = torch.randn(40, 3), torch.arange(40) % 2
    sites = {"A": (x, y), "B": (x + 1, y), "C": (x - 1, y)}
    options = {"out": tmp_path, "steps": 4}
    networks = [make_network("relu"), make_network("relu"), make_network("tanh")]
    ids = [riskmatch.train(sites, "erm", "C", model=n, **options).config.id for n in networks]
    assert ids[0] == ids[1] != ids[2]


def test_edited_source_is_found_by_python_too(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path, options = tmp_path / "edited.py", {"out": tmp_path / "runs", "steps": 4}
    path.write_text(textwrap.dedent(MODULE))
    first = riskmatch.train("colored-digits", "edited:Spread", "0.1", **options)
    path.write_text(textwrap.dedent(MODULE).replace(*EDIT))
    with pytest.raises(ValueError, match=r"edited\.py was edited"):
        riskmatch.train("colored-digits", "edited:Spread", "0.1", **options)
    importlib.reload(sys.modules["edited"])
    records.rewind(first.folder, 0)
    with pytest.raises(SourceChangedError, match="edited:Spread"):
        riskmatch.train("colored-digits", "edited:Spread", "0.1", resume=True, **options)
    second = riskmatch.train("colored-digits", "edited:Spread", "0.1", **options)
    assert second.config.id != first.config.id
    sys.modules.pop("edited")
