"""Parts of the user's own: an installed plugin, and a single file in the current folder."""

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "examples" / "plugin"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
ENVIRONMENT.pop("PYTHONPATH", None)


@dataclass(frozen=True)
class Setup:
    """An environment, a working folder, and the names of the parts in it."""

    command: tuple[str, ...]
    folder: Path
    method: str
    data: str
    model: str
    divergence: str
    adversarial: str
    mixup: str
    task: str
    metric: str
    mixstyle: str
    version: str | None

    def run(self, *words: str) -> str:
        """Run ``riskmatch`` in the folder; returns what it printed."""
        done = subprocess.run(
            [*self.command, *words],
            cwd=self.folder,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def train(self, *words: str) -> tuple[str, ...]:
        """The words of a short training on the own data set and network."""
        return ("train", self.data, "--model", self.model, "--test-domain", "stormy", *words)

    def record(self, out: str) -> list[dict]:
        """The lines of the only record below a folder."""
        (path,) = (self.folder / out).glob("*/records.jsonl")
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The plugin and riskmatch installed by pip, with the dependencies of this environment."""
    folder = tmp_path_factory.mktemp("installed")
    home = folder / "environment"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    (site,) = home.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    shutil.copytree(PLUGIN, folder / "plugin")
    options = ["-q", "--disable-pip-version-check", "--no-deps"]
    subprocess.run(
        [str(python), "-m", "pip", "install", *options, str(ROOT), str(folder / "plugin")],
        check=True,
        env=ENVIRONMENT,
    )
    command = (str(home / "bin" / "riskmatch"),)
    names = ("top-risk", "noisy-shapes", "wide-mlp", "cramer", "domain-confusion", "feature-mixup")
    names += ("noisy-labels", "worst-recall", "mixstyle-cnn")
    return Setup(command, folder, *names, version="0.1.0")


@pytest.fixture(scope="module")
def single_file(tmp_path_factory):
    """All parts in one file of the current folder, nothing installed."""
    folder = tmp_path_factory.mktemp("single_file")
    parts = sorted((PLUGIN / "src" / "riskmatch_shapes").glob("[a-z]*.py"))
    bodies = [
        path.read_text("utf-8").replace("from __future__ import annotations\n", "")
        for path in parts
    ]
    text = "from __future__ import annotations\n\n" + "\n\n".join(bodies)
    (folder / "shapes.py").write_text(text, "utf-8")
    command = (str(Path(sys.executable).with_name("riskmatch")),)
    names = ("TopRisk", "noisy_shapes", "WideMLP", "Cramer", "DomainConfusion", "FeatureMixup")
    names += ("NOISY_LABELS", "WORST_RECALL", "MixStyleCNN")
    return Setup(command, folder, *(f"shapes:{name}" for name in names), version=None)


@pytest.fixture(params=["installed", "single_file"])
def setup(request):
    return request.getfixturevalue(request.param)


def test_announced_parts_are_listed_and_pass_the_conformance_suites(installed):
    assert "top-risk" in installed.run("methods")
    assert "noisy-shapes" in installed.run("data", "list")
    python = Path(installed.command[0]).with_name("python")
    tests = installed.folder / "plugin" / "tests"
    subprocess.run([str(python), "-m", "pytest", "-q", str(tests)], check=True, env=ENVIRONMENT)


def test_help_shows_options_and_search_ranges(setup):
    shown = setup.run("train", setup.data, "--method", setup.method, "--help")
    assert "--alpha" in shown
    assert "U(0.2, 1)" in shown


def test_train_records_the_parts_and_their_versions(setup):
    short = ("--steps", "40", "--eval-every", "20")
    setup.run(*setup.train("--method", setup.method, "--alpha", "0.7", *short, "--out", "own"))
    first, *_, last = setup.record("own")
    assert first["config"]["method"] == setup.method
    assert first["config"]["hparams"] == {"alpha": 0.7}
    parts = {kind: part["name"] for kind, part in first["parts"].items()}
    assert parts == {"method": setup.method, "data": setup.data, "model": setup.model}
    assert {part["version"] for part in first["parts"].values()} == {setup.version}
    assert last["status"] == "done"

    more = ("--warmup", "20", "--divergence", setup.divergence, "--out", "matched")
    setup.run(*setup.train("--method", "rdm", *short, *more))
    first, *lines = setup.record("matched")
    assert first["config"]["hparams"]["divergence"] == setup.divergence
    assert lines[-2]["raw"]["matching"] >= 0


@pytest.mark.parametrize("part", ["method", "adversarial", "mixstyle"])
def test_killed_run_resumes_to_the_same_scores(setup, part):
    name, whole, killed = getattr(setup, part), f"whole {part}", f"killed {part}"
    if part == "mixstyle":  # draws random numbers in the network
        words = ("train", "colored-digits", "--method", "erm", "--model", name, "--test-domain")
        words += ("0.1", "--batch-size", "16", "--steps", "600", "--eval-every", "100")
    else:
        words = setup.train("--method", name, "--steps", "2000", "--eval-every", "100")
    setup.run(*words, "--out", whole)
    words = (*words, "--out", killed)
    process = subprocess.Popen(
        [*setup.command, *words], cwd=setup.folder, env=ENVIRONMENT, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while not list((setup.folder / killed).glob("*/checkpoints/*.safetensors")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert setup.record(killed)[-1]["kind"] != "end"
    setup.run(*words, "--resume")
    whole, killed = (
        [line["scores"] for line in setup.record(out) if line["kind"] == "evaluation"]
        for out in (whole, killed)
    )
    assert killed == whole


def test_task_and_metric_are_recorded(setup):
    judged = ("--task", setup.task, "--metric", setup.metric)
    short = ("--method", setup.mixup, "--steps", "40", "--eval-every", "20", "--out", "judged")
    setup.run(*setup.train(*judged, *short))
    header, first, *_ = setup.record("judged")
    assert (header["task"]["name"], header["task"]["primary"]) == (setup.task, setup.metric)
    assert header["task"]["metrics"][setup.metric]["title"] == "worst recall"
    names = ["balanced-accuracy", "accuracy", "brier", setup.metric]
    assert list(first["scores"]["stormy"]["val"]["metrics"]) == names


def test_model_of_a_method_with_a_network_predicts(setup):
    rows = [f"{x},{-x},{'ABC'[x % 3]},{'yes' if x % 2 else 'no'}" for x in range(60)]
    (setup.folder / "rows.csv").write_text("\n".join(["u,v,site,label", *rows]) + "\n", "utf-8")
    columns = ("--label", "label", "--domain", "site", "--all-domains")
    short = ("--method", setup.adversarial, "--steps", "20", "--out", "tables")
    setup.run("train", "rows.csv", *columns, *short, "--save", "model")
    setup.run("predict", "model", "rows.csv", "-o", "predicted.csv")
    lines = (setup.folder / "predicted.csv").read_text("utf-8").splitlines()
    assert len(lines) == 61


def test_sweep_with_two_processes_table_and_report(setup):
    methods = ",".join(("erm", setup.method, setup.adversarial, setup.mixup))
    plan = ("--data", setup.data, "--methods", methods, "--model", setup.model)
    size = ("--draws", "1", "--trials", "1", "--steps", "40", "--eval-every", "20")
    size += ("--metrics", f"accuracy,{setup.metric}")
    setup.run("sweep", "plan", "sweep", *plan, *size)
    setup.run("sweep", "run", "sweep", "--jobs", "2")
    assert len(list((setup.folder / "sweep" / "runs").glob("*/records.jsonl"))) == 12
    table = setup.run("sweep", "table", "sweep")
    assert "stormy" in table
    assert setup.method.rpartition(":")[2] in table
    assert "Domain confusion" in table
    assert "Feature Mixup" in table
    judged = setup.run("sweep", "table", "sweep", "--metric", setup.metric)
    assert "worst recall" in judged
    assert "stormy" in judged
    setup.run("report", "sweep", "-o", "report.html")
    page = (setup.folder / "report.html").read_text("utf-8")
    assert setup.method.rpartition(":")[2] in page
    assert setup.method in setup.run("show", "sweep") or "TopRisk" in setup.run("show", "sweep")


def test_part_that_cannot_be_imported_is_one_line(single_file):
    done = subprocess.run(
        [*single_file.command, "train", "colored-digits", "--method", "absent_module:Mine"],
        cwd=single_file.folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "absent_module" in done.stderr
