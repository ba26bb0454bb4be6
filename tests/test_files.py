import json
import multiprocessing
import time

import pytest

from riskmatch.files import file_lock, to_json, try_lock
from riskmatch.runs.lock import BusyError, is_locked, lock


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
