import json
import multiprocessing
import time

import pytest

from riskmatch.files import file_lock, free_name, refuse_input, to_json, try_lock, write_whole
from riskmatch.runs.records import BusyError, is_locked, lock


def hold(path, ready, done):
    with try_lock(path) as locked:
        ready.put(locked)
        done.get()


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock in tmp_path; returns the process and a queue that ends it."""
    context = multiprocessing.get_context("spawn")
    ready, done = context.Queue(), context.Queue()
    process = context.Process(target=hold, args=(tmp_path / "lock", ready, done))
    process.start()
    assert ready.get(timeout=60)
    yield process, done
    done.put(None)
    process.join()


def test_lock_of_another_process_is_seen_and_respected(tmp_path, holder):
    assert is_locked(tmp_path)
    with pytest.raises(BusyError, match="Another process is training the run"), lock(tmp_path):
        pytest.fail("locked")
    with try_lock(tmp_path / "lock") as locked:
        assert not locked


def test_lock_ends_with_its_process(tmp_path, holder):
    holder[0].kill()
    holder[0].join()
    assert not is_locked(tmp_path)
    with lock(tmp_path):
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path)


def test_file_lock_waits_and_reports_it(tmp_path, holder):
    calls = []

    def waiting():
        calls.append(time.monotonic())
        holder[1].put(None)

    with file_lock(tmp_path / "lock", waiting):
        assert len(calls) == 1


def test_error_inside_a_lock_is_raised_and_releases_it(tmp_path):
    for _ in range(2):
        with pytest.raises(KeyError), file_lock(tmp_path / "lock", pytest.fail):
            raise KeyError


def test_is_locked_creates_nothing(tmp_path):
    assert not is_locked(tmp_path)
    assert not list(tmp_path.iterdir())


def test_to_json_has_null_for_non_finite_numbers():
    value = {"é": [1.5, float("nan"), (float("inf"), -1)], "none": None, "yes": True}
    assert json.loads(to_json(value)) == {"é": [1.5, None, [None, -1]], "none": None, "yes": True}
    assert "é" in to_json(value)
    assert to_json([1], indent=2) == "[\n  1\n]"


def test_a_file_beside_the_one_that_is_written_stays(tmp_path):
    (tmp_path / "a.csv.tmp").write_text("mine")
    write_whole(tmp_path / "a.csv", b"1,2")
    assert {path.name for path in tmp_path.iterdir()} == {"a.csv", "a.csv.tmp"}
    assert (tmp_path / "a.csv.tmp").read_text() == "mine"


def test_a_failed_write_leaves_the_old_file_alone(tmp_path):
    (tmp_path / "a").write_text("old")
    with pytest.raises(TypeError):
        write_whole(tmp_path / "a", b"half", 5)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "old"}


def test_free_names_are_not_taken(tmp_path):
    names = []
    for _ in range(3):
        free = free_name(tmp_path / "a.md")
        free.touch()
        names.append(free.name)
    assert names == ["a.md.old", "a.md.old2", "a.md.old3"]


def test_inputs_are_told_from_other_files(tmp_path):
    folder, table = tmp_path / "photos", tmp_path / "table.csv"
    (folder / "cat").mkdir(parents=True)
    image, notes = folder / "cat/1.PNG", folder / "notes.txt"
    for file in (table, image, notes):
        file.touch()
    for out, inputs in ((table, [folder, table]), (image, [table, folder])):
        with pytest.raises(ValueError, match=str(out)):
            refuse_input(out, *inputs, within=(".png",))
    refuse_input(notes, folder, table, within=(".png",))
    refuse_input(folder / "cat/2.png", folder, within=(".png",))  # nothing is there
    refuse_input(image, folder)
    refuse_input(table, tmp_path / "none", "a:name")
