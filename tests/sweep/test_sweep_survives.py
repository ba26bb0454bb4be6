"""Sweeps that are killed, and sweeps that two processes share, end as undisturbed ones."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sweeps import lines


@pytest.fixture(scope="module")
def driven(tmp_path_factory):
    out = tmp_path_factory.mktemp("sweeps")
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("sweep_driver.py")), str(out)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out, json.loads(done.stdout.splitlines()[-1])


def test_an_undisturbed_sweep_trains_each_run_once(driven):
    found = lines(driven[0] / "whole")
    assert len(found) == 24
    for run in found.values():
        assert [entry["kind"] for entry in run] == ["config", *["evaluation"] * 3, "end"]
        assert [entry["step"] for entry in run[1:-1]] == [20, 40, 60]


def test_a_sweep_killed_five_times_ends_with_the_same_records(driven):
    out, told = driven
    assert told["codes"] == [*[-signal.SIGKILL] * 5, 0]
    assert lines(out / "killed") == lines(out / "whole")


def test_two_processes_on_one_folder_share_the_runs_and_train_none_twice(driven):
    out, told = driven
    assert [entry["done"] for entry in told["shared"]] == [24, 24]
    own = [entry["own"] for entry in told["shared"]]
    assert sum(own) == 24
    assert min(own) > 0
    assert lines(out / "shared") == lines(out / "whole")
