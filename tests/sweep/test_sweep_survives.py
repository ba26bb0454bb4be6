"""Sweeps that are killed or shared by two processes give the records of undisturbed ones."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sweeps import lines


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    out = tmp_path_factory.mktemp("sweeps")
    tests = Path(__file__).resolve().parents[1]
    path = os.pathsep.join([str(tests), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("sweep_driver.py")), str(out)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out, json.loads(done.stdout.splitlines()[-1])


def test_sweep_trains_each_run_once(driver):
    runs = lines(driver[0] / "whole")
    assert len(runs) == 24
    for run in runs.values():
        assert [entry["kind"] for entry in run] == ["config", *["evaluation"] * 3, "end"]
        assert [entry["step"] for entry in run[1:-1]] == [20, 40, 60]


def test_sweep_killed_five_times_has_the_same_records(driver):
    out, result = driver
    assert result["codes"] == [*[-signal.SIGKILL] * 5, 0]
    assert lines(out / "killed") == lines(out / "whole")


def test_two_processes_share_the_runs_of_a_folder(driver):
    out, result = driver
    assert [entry["done"] for entry in result["shared"]] == [24, 24]
    own = [entry["own"] for entry in result["shared"]]
    assert sum(own) == 24
    assert min(own) > 0
    assert lines(out / "shared") == lines(out / "whole")
