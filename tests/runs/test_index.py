"""The index of a folder of runs, which saves parsing the records again."""

import os
from dataclasses import replace

import pandas as pd
import pytest
from made_records import evaluation, run

from riskmatch.runs import records, rows
from riskmatch.runs.frame import frame_of, results
from riskmatch.sweep.board import status_of
from riskmatch.sweep.plan import PlannedRun

EVALUATIONS = evaluation(10, a=(60, 61), b=(62, 63)), evaluation(20, a=(70, 71), b=(72, 73))
ONE = run("b", *EVALUATIONS)
TWO = run("b", *EVALUATIONS, evaluation(30, c=(1, float("nan"))), method="rdm", status="failed")
EMPTY = run("b", method="vrex", status="unfinished")
RUNS = sorted([ONE, replace(TWO, error="no “memory”"), EMPTY], key=lambda one: one.config.id)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of runs with an index, although they are few and new."""
    monkeypatch.setattr(rows, "MANY", 1)
    monkeypatch.setattr(rows, "SETTLED", -1)
    for one in RUNS:
        records.write(tmp_path / one.config.id, one)
    results(tmp_path)
    assert (tmp_path / rows.INDEX).is_file()
    return tmp_path


def assert_correct(folder, runs=RUNS):
    pd.testing.assert_frame_equal(results(folder).assign(folder=""), frame_of(runs))


def count_parsed(monkeypatch):
    """The runs whose records are parsed from now on."""
    parsed, read_rows = [], rows.read_rows

    def read(folder):
        parsed.append(folder.name)
        return read_rows(folder)

    monkeypatch.setattr(rows, "read_rows", read)
    return parsed


def test_runs_of_the_index_are_those_of_the_records_and_not_parsed(folder, monkeypatch):
    planned = [PlannedRun(one.config, "") for one in RUNS]
    parsed = count_parsed(monkeypatch)
    assert_correct(folder)
    status = status_of(planned, folder)
    assert parsed == []
    (folder / rows.INDEX).unlink()
    assert status_of(planned, folder) == status
    assert len(parsed) == len(RUNS)


def edit_in_place(file, text):
    with open(file, "r+") as opened:
        opened.write(text)


def replace_file(file, text):
    other = file.with_name("other")
    other.write_text(text)
    os.replace(other, file)


@pytest.mark.parametrize("change", [edit_in_place, replace_file])
def test_record_of_other_content_but_the_same_size_and_time_is_parsed(folder, change, monkeypatch):
    file = folder / ONE.config.id / records.FILE
    before = file.stat()
    change(file, file.read_text().replace("0.73", "0.99"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    parsed = count_parsed(monkeypatch)
    last = results(folder).query("run == @ONE.config.id").iloc[-1]
    assert last["accuracy/val/b"] == 0.99
    assert parsed == [ONE.config.id]


def test_runs_that_grow_and_disappear_are_noticed(folder):
    (one, *others, last) = RUNS
    (folder / last.config.id / records.FILE).unlink()
    grown = replace(one, evaluations=(*one.evaluations, evaluation(40, a=(80, 81), b=(82, 83))))
    records.write(folder / one.config.id, grown)
    pd.testing.assert_frame_equal(
        results(folder).assign(folder=""), frame_of([grown, *others]), check_like=True
    )


def test_record_damaged_after_the_index_was_made_is_named(folder):
    file = folder / ONE.config.id / records.FILE
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([*lines[:2], "{]\n", *lines[3:]]))
    for _ in range(2):
        with pytest.warns(UserWarning, match=rf"{file}, line 3, is not JSON"):
            results(folder)


def flipped(data):
    return data[:-1] + bytes([data[-1] ^ 1])


def sealed(body):
    return body + rows._checksum([body])


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        flipped,
        lambda data: data.replace(b"riskmatch ", b"riskmatch 9.", 1),
        lambda data: sealed(rows._title() + b'{"methods": [], "runs": {"a": 1}}\n'),
        lambda data: sealed(
            rows._title() + b'{"methods": [], "runs": {"a": [[1, 2, 3, 4], 0, 9]}}\n'
        ),
        lambda data: sealed(data[:-4].replace(b"\xa4data", b"\xa4else")),
        lambda data: sealed(rows._title() + b"[" * 100_000 + b"\n"),
    ],
)
def test_damaged_index_is_ignored_and_written_again(folder, damage):
    file = folder / rows.INDEX
    file.write_bytes(damage(whole := file.read_bytes()))
    assert_correct(folder)
    assert file.read_bytes() == whole


def test_index_that_is_a_link_is_not_followed(folder, tmp_path_factory, monkeypatch):
    file = folder / rows.INDEX
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "file"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    before, parsed = elsewhere.read_bytes(), count_parsed(monkeypatch)
    assert_correct(folder)
    assert len(parsed) == len(RUNS)
    assert elsewhere.read_bytes() == before
    assert not file.is_symlink()


def test_no_index_is_written_through_a_link_to_the_folder(folder, tmp_path_factory):
    (folder / rows.INDEX).unlink()
    link = tmp_path_factory.mktemp("elsewhere") / "runs"
    link.symlink_to(folder)
    assert_correct(link)
    assert not (folder / rows.INDEX).exists()


def test_folder_in_which_no_index_can_be_written_is_read(folder):
    (folder / rows.INDEX).unlink()
    (folder / rows.INDEX).mkdir()  # no file can take its place
    assert_correct(folder)


def test_records_that_have_just_changed_are_parsed_again(folder, monkeypatch):
    monkeypatch.setattr(rows, "SETTLED", 1000)
    (folder / rows.INDEX).unlink()
    results(folder)
    parsed = count_parsed(monkeypatch)
    assert_correct(folder)
    assert len(parsed) == len(RUNS)


def test_few_runs_have_no_index(tmp_path):
    records.write(tmp_path / ONE.config.id, ONE)
    results(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [ONE.config.id]
