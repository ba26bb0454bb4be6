import json

import pytest

from riskmatch.sweep.plan import FILE, extend, read
from riskmatch.sweep.protocol import Protocol

RUNS = Protocol("colored-digits", ("erm", "vrex"), (("0.1",),), draws=2, trials=2).runs()


def test_a_plan_is_read_as_it_was_written(tmp_path):
    assert extend(tmp_path / "new", RUNS, "some words") == RUNS
    assert read(tmp_path / "new") == RUNS


def test_a_plan_can_be_read_by_people(tmp_path):
    extend(tmp_path, RUNS, "some words")
    head, first, *_ = map(json.loads, (tmp_path / FILE).read_text().splitlines())
    assert (head["made by"], head["runs"]) == ("some words", len(RUNS))
    assert first["title"] == "erm on colored-digits without 0.1, draw 0, trial 0"
    assert first["config"]["weight_decay"] == 0


def test_an_extended_plan_has_every_run_once_and_keeps_what_was_there(tmp_path):
    extend(tmp_path, RUNS[:3], "first")
    before = (tmp_path / FILE).read_text()
    assert extend(tmp_path, RUNS, "second") == RUNS[3:]
    assert (tmp_path / FILE).read_text().startswith(before)
    assert extend(tmp_path, RUNS, "third") == []
    assert read(tmp_path) == RUNS


def test_a_plan_can_be_cut_and_edited(tmp_path):
    extend(tmp_path, RUNS, "some words")
    lines = (tmp_path / FILE).read_text().splitlines()
    edited = json.loads(lines[3])
    edited["config"]["steps"] = 7
    cut = [lines[2], "", json.dumps(edited), lines[2]]
    (tmp_path / FILE).write_text("\n".join(cut))  # no newline at the end
    assert [run.config.steps for run in read(tmp_path)] == [RUNS[1].config.steps, 7]
    extend(tmp_path, RUNS, "again")
    assert len(read(tmp_path)) == len(RUNS) + 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2, is no run: Expecting"),
        ('{"draw": 0, "config": {"data": "d"}}', "line 2, is no run: 'test_domains'"),
        (
            '{"draw": 0, "config": {"data": "d", "test_domains": [], "method": "erm", "stesp": 1}}',
            "unexpected keyword argument 'stesp'",
        ),
    ],
)
def test_a_damaged_line_is_named(tmp_path, line, message):
    (tmp_path / FILE).write_text("{}\n" + line + "\n")
    with pytest.raises(ValueError, match="is no run") as error:
        read(tmp_path)
    assert message in str(error.value)


def test_a_folder_without_a_plan_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no sweep"):
        read(tmp_path)
