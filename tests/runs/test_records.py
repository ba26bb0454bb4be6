import json
import math
import subprocess
import sys
from dataclasses import replace

import pytest

from riskmatch.files import append_line
from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.lines import DataIdentity, Evaluation, Score
from riskmatch.runs.records import FILE, RecordError
from riskmatch.runs.rows import read_rows
from riskmatch.sweep.board import Board

CONFIG = RunConfig("colored-digits", ("0.1",), "rdm", {"weight": 3.0})


def evaluation(step: int, raw: float = 0.5) -> Evaluation:
    score = Score({"accuracy": 0.5}, 0.7, tuple(map(float, range(7))))
    scores = {"é": {"train": score, "val": score}}
    return Evaluation(step, scores, 1.0, {"risk": 1.0}, {"matching": raw}, "é", 2.0, 0.1, 1000)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / CONFIG.id
    records.start(folder, CONFIG)
    for step in (10, 20, 30):
        records.append(folder, evaluation(step))
    return folder


def test_records_round_trip(folder):
    run = records.read(folder)
    assert run == records.read(folder / FILE)
    assert run.config == CONFIG
    assert run.evaluations == (evaluation(10), evaluation(20), evaluation(30))
    assert (run.status, run.error) == ("unfinished", None)


def test_first_line_states_version_and_id(folder):
    first = json.loads((folder / FILE).read_text().splitlines()[0])
    assert first["id"] == CONFIG.id
    assert first["version"]


def test_last_line_states_the_status(folder):
    records.end(folder, "failed", "DivergedError: Step 3")
    assert records.read(folder).status == "failed"
    assert records.read(folder).error == "DivergedError: Step 3"


def test_non_finite_numbers_are_null(folder):
    records.append(folder, evaluation(40, raw=math.inf))
    text = (folder / FILE).read_text()
    assert "Infinity" not in text
    assert math.isnan(records.read(folder).evaluations[-1].raw["matching"])


def test_incomplete_last_line_is_ignored_and_removed(folder):
    before = (folder / FILE).read_bytes()
    records.append(folder, evaluation(40))
    whole = (folder / FILE).read_bytes()
    for cut in range(len(before) + 1, len(whole)):  # also in the middle of a character
        (folder / FILE).write_bytes(whole[:cut])
        assert len(records.read(folder).evaluations) == 3
    records.rewind(folder, 40)
    records.append(folder, evaluation(40))
    assert (folder / FILE).read_bytes() == whole


def test_incomplete_first_line_is_no_run(folder):
    whole = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(whole[:30])
    assert records.find(folder) is None
    assert records.read_all(folder.parent) == []
    with pytest.raises(FileNotFoundError, match="is not the folder of a run"):
        records.read(folder)


def test_damaged_line_raises_with_its_number(folder):
    lines = (folder / FILE).read_bytes().splitlines(keepends=True)
    (folder / FILE).write_bytes(b"".join([lines[0], lines[1][:20] + b"\n", *lines[2:]]))
    with pytest.raises(ValueError, match="line 2, is not JSON"):
        records.read(folder)


FOREIGN = ["{}", "null", "7", '[{"kind": "end"}]', '{"kind": "note"}', '{"kind": "evaluation"}']
FOREIGN += ['{"kind": []}']


@pytest.mark.parametrize("line", FOREIGN)
@pytest.mark.parametrize("look", [records.find, records.read, read_rows])
def test_foreign_line_raises_with_the_cure(folder, look, line):
    append_line(folder / FILE, line)
    with pytest.raises(RecordError) as caught:
        look(folder)
    for fact in (f"{folder / FILE}, line 5, is not a line of a record", f"remove {folder} to"):
        assert fact in str(caught.value)


@pytest.mark.parametrize("line", FOREIGN)
@pytest.mark.parametrize("look", [records.find, read_rows])
def test_file_without_configuration_raises(tmp_path, look, line):
    (tmp_path / FILE).write_text(line + "\n")
    with pytest.raises(RecordError, match="line 1, is not a line of a record"):
        look(tmp_path)


def test_lines_out_of_place_raise(folder):
    lines = (folder / FILE).read_bytes().splitlines(keepends=True)
    (folder / FILE).write_bytes(b"".join([lines[1], lines[0]]))
    with pytest.raises(RecordError, match="line 1, is out of place"):
        records.find(folder)
    with pytest.raises(RecordError, match="line 1, is out of place"):
        read_rows(folder)


SAMPLES = {"classes": ["a"], "samples": {"d": ""}, "content": ""}


@pytest.mark.parametrize(
    ("number", "name", "values"),
    [
        (1, "config", [{"data": "d"}]),
        (1, "id", [{"a": 1}]),
        (1, "data", [[], SAMPLES]),
        (3, "scores", [{"a": 1}, []]),
        (3, "step", ["x", -1, 10**30]),
        (3, "worst_domain", [[], 5]),
        (3, "terms", [{"risk": "x"}]),
        (3, "scores", [{"a": {"val": {"metrics": {"accuracy": 1}, "risk": 1, "quantiles": 5}}}]),
        (3, "scores", [{"a": {"val": {"metrics": {"accuracy": 1}, "risk": 1}}}]),
        (3, "scores", [{"a": {"val": {"metrics": {"accuracy": "x"}, "risk": 1, "quantiles": []}}}]),
    ],
)
def test_value_of_wrong_type_raises_with_its_line(folder, number, name, values):
    lines = (folder / FILE).read_text().splitlines()
    for value in values:
        changed = json.dumps({**json.loads(lines[number - 1]), name: value})
        text = "\n".join([*lines[: number - 1], changed, *lines[number:]])
        (folder / FILE).write_text(text + "\n")
        for look in (records.find, read_rows):
            with pytest.raises(RecordError, match=f"line {number}, (is not a line|cannot be read)"):
                look(folder)


@pytest.mark.parametrize(
    ("number", "keys", "value", "fact"),
    [
        (1, "data", {"classes": [], "samples": {"é": 1.5}, "content": ""}, "`int`.*data.samples"),
        (1, "data", {"classes": 5, "samples": {}, "content": ""}, "`array`.*data.classes"),
        (1, "data", 5, "`object.*data"),
        (1, "config", {"data": "x"}, "config.test_domains is missing"),
        (1, "config.stepz", 3, "'stepz'. Did you mean 'steps'"),
        (1, "parts", {"method": 5}, "`object`.*parts"),
        (3, "seconds", math.inf, "not JSON"),
        (3, "peak_memory", 10**400, "out of range.*peak_memory"),
        (3, "loss", "x", "`float.*`str`.*loss"),
        (3, "scores.é.val.quantiles", None, "`array`.*quantiles"),
        (3, "scores.é.train", 5, "`object`.*scores"),
        (3, "terms", [], "`object`.*terms"),
        (5, "status", "gone", "'gone'.*status"),
        (5, "error", 5, "`str.*`int`.*error"),
    ],
)
@pytest.mark.parametrize("look", [records.find, read_rows])
def test_value_that_makes_no_sense_is_named_with_its_line(folder, look, number, keys, value, fact):
    records.end(folder, "done")
    lines = [json.loads(line) for line in (folder / FILE).read_text().splitlines()]
    *path, last = keys.split(".")
    inside = lines[number - 1]
    for key in path:
        inside = inside[key]
    inside[last] = value
    (folder / FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(RecordError, match=f"line {number}, .*{fact}.*remove {folder}") as caught:
        look(folder)
    assert "Error:" not in str(caught.value)
    assert len(str(caught.value)) < 900


def test_identity_of_the_data_round_trips(folder):
    assert records.read(folder).data is None
    data = DataIdentity(("cat", "dog"), {"é": 6}, "1f")
    records.start(folder, CONFIG, data)
    record = records.read(folder)
    assert record.data == data
    assert not records.write(folder, record)  # that would change its file


def test_progress_without_times(folder):
    records.append(folder, replace(evaluation(40), seconds=math.nan))
    board = Board([CONFIG], folder.parent)
    board.read_record(CONFIG)
    assert board.steps == {CONFIG.id: 40}
    assert board.seconds_left == 0


def test_rewind_removes_later_steps_and_the_end(folder):
    records.end(folder, "failed", "?")
    records.rewind(folder, 20)
    run = records.read(folder)
    assert [entry.step for entry in run.evaluations] == [10, 20]
    assert run.status == "unfinished"


def test_read_all_reads_every_run(folder):
    other = RunConfig("colored-digits", ("0.1",), "erm")
    records.start(folder.parent / other.id, other)
    read = records.read_all(folder.parent)
    assert [run.config.id for run in read] == sorted([CONFIG.id, other.id])


def test_reading_records_needs_no_torch():
    code = "import sys, riskmatch.runs.records; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
