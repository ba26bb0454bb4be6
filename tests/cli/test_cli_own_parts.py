"""Parts of the user's own on the command line, from the current folder and from packages."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from riskmatch.runs import records

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin" / "src" / "riskmatch_shapes"
SCRIPT = """
import sys
from riskmatch.cli import main
if __name__ == "__main__":
    sys.exit(main())
"""
TINY = ["--steps", "20", "--eval-every", "10"]
MODULE = "riskmatch_shapes"
OWN = ["train", f"{MODULE}.data:noisy_shapes", "--test-domain", "stormy", *TINY]


@pytest.fixture
def console(tmp_path):
    """Run the command line as its console script does, in a folder of its own."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "riskmatch").write_text(SCRIPT)
    (tmp_path / "work").mkdir()

    def run(*words, path=None):
        source = str(Path(__file__).parents[2] / "src")
        env = {**os.environ, "COLUMNS": "100"}
        env["PYTHONPATH"] = os.pathsep.join([source, *([str(path)] if path else [])])
        return subprocess.run(
            [sys.executable, str(tmp_path / "bin" / "riskmatch"), *words],
            cwd=tmp_path / "work",
            env=env,
            capture_output=True,
            text=True,
        )

    return run


@pytest.fixture
def local(tmp_path, console):
    """The example plugin as a plain folder in the current folder."""
    shutil.copytree(PLUGIN, tmp_path / "work" / MODULE)
    return tmp_path / "work"


@pytest.fixture
def installed(tmp_path):
    """The example plugin installed in a folder, with its entry points."""
    site = tmp_path / "site"
    shutil.copytree(PLUGIN, site / MODULE)
    info = site / "riskmatch_shapes-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: riskmatch-shapes\nVersion: 0.1.0\n"
    )
    (info / "RECORD").write_text(f"{MODULE}/__init__.py,,\n")
    (info / "entry_points.txt").write_text(
        f"[riskmatch.methods]\ntop-risk = {MODULE}.method:TopRisk\n"
        f"broken = {MODULE}.nowhere:Missing\n"
        f"[riskmatch.data]\nnoisy-shapes = {MODULE}.data:noisy_shapes\n"
        f"[riskmatch.models]\nwide-mlp = {MODULE}.network:WideMLP\n"
        f"[riskmatch.divergences]\ncramer = {MODULE}.divergence:Cramer\n"
    )
    return site


def test_parts_in_the_current_folder_are_trained(console, local):
    method = f"{MODULE}.method:TopRisk"
    model = f"{MODULE}.network:WideMLP"
    options = ["--alpha", "0.7", "--model-option", "width=8", "--data-option", "samples=60"]
    done = console(*OWN, "--method", method, "--model", model, *options, "--quiet", "--json")
    assert done.returncode == 0, done.stderr
    config = json.loads(done.stdout)["config"]
    assert (config["method"], config["model"]) == (method, model)
    assert config["hparams"] == {"alpha": 0.7}
    (run,) = records.read_all(local / "runs")
    assert run.status == "done"
    assert set(run.parts) == {"method", "model", "data"}


def test_divergence_in_the_current_folder_is_trained(console, local):
    divergence = f"{MODULE}.divergence:Cramer"
    words = [*OWN, "--method", "rdm", "--warmup", "5", "--divergence", divergence, "--quiet"]
    done = console(*words, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["config"]["hparams"]["divergence"] == divergence


def test_sweep_in_several_processes_finds_the_current_folder(console, local):
    methods = f"erm,{MODULE}.method:TopRisk"
    plan = ["sweep", "plan", "s", "--data", f"{MODULE}.data:noisy_shapes", "--methods", methods]
    plan += ["--draws", "1", "--trials", "1", "--test-domain", "stormy"]
    done = console(*plan, "--steps", "10", "--eval-every", "10")
    assert done.returncode == 0, done.stderr
    done = console("sweep", "run", "s", "--jobs", "2")
    assert done.returncode == 0, done.stderr
    assert {run.status for run in records.read_all(local / "s" / "runs")} == {"done"}
    done = console("sweep", "table", "s")
    assert done.returncode == 0, done.stderr
    assert "TopRisk" in done.stdout


def test_help_has_options_of_own_parts(console, local):
    words = [*OWN, "--method", f"{MODULE}.method:TopRisk", "--model", f"{MODULE}.network:WideMLP"]
    text = " ".join(console(*words, "--help").stdout.replace("│", " ").split())
    assert "--alpha X" in text
    assert "default 0.5; searched in U(0.2, 1)" in text
    assert "width=N number of hidden units (default 64)" in text
    assert "samples=N number of points per domain (default 200)" in text


def test_announced_parts_are_listed_with_their_package(console, installed):
    methods = console("methods", path=installed).stdout
    assert "top-risk" in methods
    assert "riskmatch-shapes" in methods
    assert "broken" in methods
    listed = json.loads(console("data", "list", "--json", path=installed).stdout)
    packages = {row["name"]: row["package"] for row in listed}
    assert packages["noisy-shapes"] == "riskmatch-shapes"
    assert packages["pacs"] == "riskmatch"
    assert "riskmatch-shapes" in console("data", "list", path=installed).stdout


def test_announced_parts_are_trained_by_name(console, installed, tmp_path):
    words = ["train", "noisy-shapes", "--test-domain", "stormy", *TINY]
    words += ["--method", "top-risk", "--model", "wide-mlp", "--quiet"]
    done = console(*words, path=installed)
    assert done.returncode == 0, done.stderr
    (run,) = records.read_all(tmp_path / "work" / "runs")
    assert {part["version"] for part in run.parts.values()} == {"0.1.0"}
    described = console("methods", "top-risk", path=installed)
    assert "Rockafellar" in described.stdout


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["--method", "nowhere:Robust"], ["nowhere:Robust", "current folder"]),
        (["--method", f"{MODULE}.method:TopRsik"], ["Did you mean 'TopRisk'"]),
        (["--method", f"{MODULE}.data:noisy_shapes"], ["frozen dataclass", "Objective"]),
        (["--method", "erm", "--model", f"{MODULE}.network:WideMPL"], ["Did you mean 'WideMLP'"]),
        (["--method", "rdm", "--divergence", "nowhere:D"], ["nowhere:D"]),
        (["--method", "erm", "--data-option", "smaples=3"], ["Did you mean 'samples'"]),
    ],
)
def test_part_that_cannot_be_used_is_one_line(console, local, words, facts):
    done = console(*OWN, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    for fact in facts:
        assert fact in done.stderr


def test_describe_part_that_cannot_be_imported(console):
    done = console("methods", "nowhere:Robust")
    assert done.returncode == 2
    assert "nowhere:Robust" in done.stderr
    assert done.stderr.count("\n") == 1
