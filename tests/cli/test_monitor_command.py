"""``riskmatch monitor``: exit codes and output."""

import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from riskmatch.cli import main

TRAIN = "train visits.csv --label late --domain site --method erm --all-domains --steps 60"


def visits(path, seed, flip=False):
    rng = np.random.default_rng(seed)
    age, late = rng.normal(size=240), np.arange(240) % 2
    sites = np.repeat([*"ABC"], 80)
    shown = 1 - late if flip else late
    pd.DataFrame({"age": age + 3 * late, "site": sites, "late": shown}).to_csv(path, index=False)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with the model of a table, and tables of new sites."""
    root = tmp_path_factory.mktemp("monitor")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        visits("visits.csv", 0)
        visits("same.csv", 1)
        visits("worse.csv", 1, flip=True)
        pd.read_csv("same.csv").drop(columns="late").assign(age=99.0).to_csv("inputs.csv")
        assert main([*shlex.split(TRAIN), "--save", "model", "--quiet"]) == 0
        bare = [*shlex.split(TRAIN), "--save", "bare", "--no-left-out", "--seed", "1", "--quiet"]
        assert main(bare) == 0
    return root


@pytest.fixture
def shipped(trained, tmp_path, riskmatch):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    return riskmatch


def test_exit_code_one_is_the_alarm(shipped):
    quiet, alarm = (shipped("monitor", "model", name) for name in ("same.csv", "worse.csv"))
    assert (quiet.code, alarm.code) == (0, 1)
    assert "no alarm: A: accuracy" in quiet.out
    assert re.search(r"ALARM: A: accuracy .* points lower than .* 3 left-out sites", alarm.out)
    assert "information" in alarm.out


def test_json_and_figure(shipped):
    words = "monitor model worse.csv --figure new/risks.svg --json --permutations 9 --looks 2"
    found = json.loads(shipped(*words.split(), "--metric", "risk").out)
    assert (found["alarm"], found["metric"], found["looks"]) == (True, "mean risk", 2)
    assert [row["site"] for row in found["sites"]] == [*"ABC"]
    assert [row["reference_samples"] for row in found["tests"]] == [48] * 3
    assert b"risk of a sample" in Path("new/risks.svg").read_bytes()


def test_data_without_labels(shipped):
    result = shipped("monitor", "model", "inputs.csv", "--unlabelled")
    assert result.code == 0
    assert "no calibrated alarm: the data have no labels" in result.out
    assert re.search(r"inputs +confidence +240 +48", result.out)
    words = "monitor model inputs.csv --unlabelled --json --permutations 9"
    assert json.loads(shipped(*words.split()).out)["alarm"] is False


def test_the_command_that_cures_missing_left_out_sites_does(shipped):
    result = shipped("monitor", "bare", "worse.csv")
    assert result.code == 0
    assert "information" in result.out
    command = re.search(r"riskmatch (train .*)", result.out)[1]
    assert shipped(*shlex.split(command), "--quiet").code == 0
    assert shipped("monitor", "bare", "worse.csv").code == 1


def test_no_figure_of_a_regression_without_labels(riskmatch):
    visits("visits.csv", 0)
    words = TRAIN.replace("--label late", "--label age --risk squared").replace("60", "2")
    assert riskmatch(*words.split(), "--save", "model", "--quiet").code == 0
    words = "monitor model visits.csv --unlabelled --figure risks.png"
    result = riskmatch(*words.split())
    assert result.code == 2
    assert "leave out figure" in result.err
    assert "predicting" not in result.err
    assert riskmatch(*words.split()[:-2]).code == 0
