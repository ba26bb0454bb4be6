"""Killed runs continue to the same bits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_runs import HPARAMS, assert_same_run, tiny

KILLS = 4  # per method


@pytest.fixture(scope="module")
def crashed(tmp_path_factory):
    out = tmp_path_factory.mktemp("crashed")
    driver = Path(__file__).with_name("crash_driver.py")
    done = subprocess.run(
        [sys.executable, str(driver), str(out), str(KILLS)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out, json.loads(done.stdout)


@pytest.mark.parametrize("method", HPARAMS)
def test_run_killed_at_random_moments_ends_in_the_same_bits(crashed, method):
    out, counts = crashed
    config = tiny(method)
    for number in range(1, counts["runs"][method] + 1):
        folder = out / method / f"run {number}" / config.id
        assert_same_run(folder, out / method / "whole" / config.id)


def test_run_killed_at_any_write_ends_in_the_same_bits(crashed):
    out, counts = crashed
    config = tiny(steps=12, eval_every=4)
    assert counts["syncs"] >= 14  # the configuration, three evaluations, four checkpoints, the end
    for number in range(1, counts["syncs"] + 1):
        folder = out / "short" / f"sync {number}" / config.id
        assert_same_run(folder, out / "short" / "whole" / config.id)
        leftovers = {path.suffix for path in (folder / "checkpoints").iterdir()}
        assert leftovers == {".safetensors"}
