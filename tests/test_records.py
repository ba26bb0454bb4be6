import json
import math
import subprocess
import sys

import pytest

from riskmatch import records
from riskmatch.config import RunConfig
from riskmatch.records import FILE, Evaluation, Score

CONFIG = RunConfig("colored-digits", ("0.1",), "rdm", {"weight": 3.0})


def evaluation(step: int, raw: float = 0.5) -> Evaluation:
    score = Score(0.5, 0.7, tuple(map(float, range(7))))
    scores = {"é": {"train": score, "val": score}}
    return Evaluation(step, scores, 1.0, {"risk": 1.0}, {"matching": raw}, "é", 2.0, 0.1, 1000)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / CONFIG.id
    records.start(folder, CONFIG)
    for step in (10, 20, 30):
        records.append(folder, evaluation(step))
    return folder


def test_what_is_written_is_read(folder):
    run = records.read(folder)
    assert run == records.read(folder / FILE)
    assert run.config == CONFIG
    assert run.evaluations == (evaluation(10), evaluation(20), evaluation(30))
    assert (run.status, run.error) == ("unfinished", None)


def test_the_first_line_names_version_and_id(folder):
    first = json.loads((folder / FILE).read_text().splitlines()[0])
    assert first["id"] == CONFIG.id
    assert first["version"]


def test_the_end_says_how(folder):
    records.end(folder, "failed", "DivergedError: Step 3")
    assert records.read(folder).status == "failed"
    assert records.read(folder).error == "DivergedError: Step 3"


def test_numbers_that_are_not_finite_stay_standard_json(folder):
    records.append(folder, evaluation(40, raw=math.inf))
    text = (folder / FILE).read_text()
    assert "Infinity" not in text
    assert math.isnan(records.read(folder).evaluations[-1].raw["matching"])


def test_a_line_torn_anywhere_is_passed_over_and_repaired(folder):
    before = (folder / FILE).read_bytes()
    records.append(folder, evaluation(40))
    whole = (folder / FILE).read_bytes()
    for cut in range(len(before) + 1, len(whole)):  # also in the middle of a character
        (folder / FILE).write_bytes(whole[:cut])
        assert len(records.read(folder).evaluations) == 3
    records.rewind(folder, 40)
    records.append(folder, evaluation(40))
    assert (folder / FILE).read_bytes() == whole


def test_a_torn_first_line_is_no_run_yet(folder):
    whole = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(whole[:30])
    assert records.find(folder) is None
    assert records.read_all(folder.parent) == []
    with pytest.raises(FileNotFoundError, match="holds no run"):
        records.read(folder)


def test_damage_before_the_last_line_is_an_error_with_its_place(folder):
    lines = (folder / FILE).read_bytes().splitlines(keepends=True)
    (folder / FILE).write_bytes(b"".join([lines[0], lines[1][:20] + b"\n", *lines[2:]]))
    with pytest.raises(ValueError, match="line 2, is not JSON"):
        records.read(folder)


def test_rewinding_drops_later_steps_and_the_end(folder):
    records.end(folder, "failed", "?")
    records.rewind(folder, 20)
    run = records.read(folder)
    assert [entry.step for entry in run.evaluations] == [10, 20]
    assert run.status == "unfinished"


def test_all_runs_of_a_folder(folder):
    other = RunConfig("colored-digits", ("0.1",), "erm")
    records.start(folder.parent / other.id, other)
    found = records.read_all(folder.parent)
    assert [run.config.id for run in found] == sorted([CONFIG.id, other.id])


def test_reading_records_needs_no_torch():
    code = "import sys, riskmatch.records; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
