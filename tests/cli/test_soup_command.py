"""``riskmatch soup``: the table, the model folder, runs that cannot be averaged."""

import json
from pathlib import Path

from tiny import train


def test_soup_prints_a_table_and_writes_a_model(riskmatch):
    for lr in ("0.001", "0.003"):
        assert riskmatch(*train("erm", "--lr", lr, "--quiet")).code == 0
    done = riskmatch("soup", "runs", "--how", "uniform", "--test-domain", "0.1")
    assert done.code == 0
    for part in ("best member", "ensemble", "barrier", "2 of 2 runs", "of the samples"):
        assert part in " ".join(done.out.split())
    (folder,) = Path("soups").iterdir()
    assert f"model  {folder} (without 0.1)" in done.out
    assert (folder / "model.json").exists()
    values = json.loads(riskmatch("soup", "runs", "--how", "uniform", "--json").out)
    assert values["models"] == [str(folder)]
    assert len(values["members"][0]) == 2
    assert [row["network"] for row in values["rows"]][:2] == ["best member", "soup"]


def test_runs_of_other_seeds_are_bad_input(riskmatch):
    for seed in ("0", "1"):
        riskmatch(*train("erm", "--seed", seed, "--quiet"))
    done = riskmatch("soup", "runs")
    assert done.code == 2
    assert "started from different weights: seed 0, 1" in done.err.replace("1, 0", "0, 1")
    assert not Path("soups").exists()
