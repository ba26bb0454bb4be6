"""Opening files of a stranger imports nothing that they name."""

import json
import shutil
from pathlib import Path

import pytest

import riskmatch
from riskmatch import report
from riskmatch.deployment.folder import own_checksum
from riskmatch.sweep import run_sweep, sweep_status
from riskmatch.trust import UntrustedError

READING = {
    "show run": ["show", "runs"],
    "show sweep": ["show", "sweep"],
    "show json": ["show", "runs", "--json"],
    "report": ["report", "runs", "-o", "report.html"],
    "report sweep": ["report", "sweep", "-o", "report.html"],
    "figure curves": ["figure", "curves", "runs", "-o", "curves.png"],
    "figure risks": ["figure", "risks", "runs", "-o", "risks.png"],
    "table": ["sweep", "table", "sweep"],
    "status": ["sweep", "status", "sweep"],
}
ASKING = {
    "predict": ["predict", "model", "inputs.csv", "--out", "out.csv"],
    "evaluate": ["evaluate", "model", "colored-digits"],
    "monitor": ["monitor", "model", "colored-digits"],
    "export": ["export", "model", "--format", "torch"],
    "sweep run": ["sweep", "run", "sweep"],
    "sweep run --cost": ["sweep", "run", "sweep", "--cost"],
    "sweep retry": ["sweep", "retry", "sweep"],
    "train --advice": [
        *("train", "colored-digits", "--advice", "advice.json", "--test-domain", "0.1"),
    ],
}


@pytest.mark.parametrize("words", READING.values(), ids=READING)
def test_reading_commands_import_nothing(downloaded, words):
    done = downloaded(*words)
    assert not downloaded.ran()
    assert done.code == 0, done.err
    shutil.rmtree(next(downloaded.folder.glob("runs/*/predictions")), ignore_errors=True)
    done = downloaded(*words)
    assert not downloaded.ran()
    if words[:2] == ["figure", "risks"]:
        assert done.code == 2
        assert "only reads" in done.err
    else:
        assert done.code == 0, done.err


def test_report_says_what_is_missing_without_the_parts(downloaded):
    assert downloaded("report", "runs", "-o", "report.html", "--quiet").code == 0
    page = (downloaded.folder / "report.html").read_text()
    assert "mine:digits" in page
    assert "not imported" in page


@pytest.mark.parametrize("words", READING.values(), ids=READING)
def test_reading_commands_refuse_trust(downloaded, words):
    done = downloaded(*words, "--trust")
    assert done.code == 2
    assert "--trust" in done.err
    assert not downloaded.ran()


@pytest.mark.parametrize("words", ASKING.values(), ids=ASKING)
def test_commands_ask_before_they_import(downloaded, words):
    advice = {"format": "riskmatch advice 1", "data": "colored-digits", "method": "mine:Spread"}
    text = json.dumps({**advice, "hparams": {}, "options": {}, "expected": None})
    (downloaded.folder / "advice.json").write_text(text)
    done = downloaded(*words)
    assert not downloaded.ran()
    assert done.code == 2
    assert "mine:" in done.err
    assert "--trust" in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("name", ["venv.__main__:main", "os:system", "this:s"])
def test_model_folder_cannot_name_a_module_of_python(downloaded, name):
    path = downloaded.folder / "model" / "model.json"
    values = json.loads(path.read_text())
    values["network"]["name"] = name
    values["sha256"] = own_checksum(values)
    path.write_text(json.dumps(values))
    before = sorted(downloaded.folder.iterdir())
    done = downloaded("predict", "model", "inputs.csv", "--out", "out.csv")
    assert done.code == 2
    assert name in done.err
    assert "Zen" not in done.out
    assert sorted(downloaded.folder.iterdir()) == before


@pytest.mark.parametrize("name", ["mine:Net", "m,mine:Net", "m=mine:Net"])
def test_path_that_looks_like_a_name_is_no_name(downloaded, name):
    (downloaded.folder / "model").rename(downloaded.folder / name)
    done = downloaded("predict", name, "inputs.csv", "--out", "out.csv")
    assert done.code == 2
    assert "--trust" in done.err
    assert not downloaded.ran()


def only_run():
    (run,) = Path("runs").iterdir()
    return run


@pytest.mark.parametrize(
    "call",
    [
        lambda: riskmatch.load_model("model"),
        lambda: riskmatch.predict("model", "inputs.csv"),
        lambda: riskmatch.load_run(only_run()).model(),
        lambda: riskmatch.save_model(only_run(), "other"),
        lambda: run_sweep("sweep"),
        lambda: run_sweep("sweep", retry=True),
    ],
    ids=["load_model", "predict", "load_run", "save_model", "run_sweep", "retry"],
)
def test_python_calls_ask_before_they_import(downloaded, call):
    with pytest.raises(UntrustedError, match=r"mine:.*trust=True"):
        downloaded.call(call)
    assert not downloaded.ran()


@pytest.mark.parametrize(
    "call",
    [
        lambda: riskmatch.results("runs"),
        lambda: riskmatch.choose("sweep"),
        lambda: riskmatch.load_run(only_run()).evaluations,
        lambda: riskmatch.load_run(only_run()).predictions,
        lambda: report.summarise("runs"),
        lambda: report.write_report("sweep", "report.html"),
        lambda: report.draw_figure("curves", "runs", "curves.png"),
        lambda: report.tables_of("sweep"),
        lambda: sweep_status("sweep"),
    ],
    ids=[
        *("results", "choose", "load_run", "predictions", "show", "report", "figure", "table"),
        "status",
    ],
)
def test_python_calls_that_read_import_nothing(downloaded, call):
    downloaded.call(call)
    assert not downloaded.ran()


@pytest.mark.parametrize("words", [["--version"], ["methods"], ["show", "sweep"]])
def test_modules_in_the_current_folder_are_left_alone(downloaded, words):
    for name in ("select", "json", "numpy", "torch", "random", "riskmatch"):
        downloaded.write(f"{name}.py", "")
    done = downloaded.process(*words)
    assert done.code == 0, done.err
    assert not downloaded.ran()


def test_processes_of_a_sweep_leave_modules_in_the_current_folder_alone(user):
    user.write("select.py", "")
    plan = ["sweep", "plan", "s", "--data", "colored-digits", "--methods", "erm", "--draws", "1"]
    tiny = ["--trials", "1", "--steps", "4", "--eval-every", "4", "--data-option", "samples=40"]
    assert user(*plan, *tiny, "--quiet").code == 0
    done = user.process("sweep", "run", "s", "--jobs", "2", "--quiet")
    assert done.code == 0, done.err
    assert not user.ran()
