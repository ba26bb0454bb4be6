import json
from dataclasses import replace

import pytest

from riskmatch.experiments import demonstration


@pytest.fixture
def small(monkeypatch):
    """The demo with few samples and steps; returns its runs."""
    planned = [
        replace(
            run,
            config=replace(
                run.config,
                steps=6,
                pretrain=3,
                eval_every=3,
                data_options={"seed": 2, "samples": 60},
            ),
        )
        for run in demonstration.demo_runs(2)
    ]
    monkeypatch.setattr(demonstration, "demo_runs", lambda seed: planned)
    return planned


def test_demo_writes_table_figure_and_numbers(riskmatch, small, tmp_path):
    done = riskmatch("demo", "--seed", "2")
    assert done.code == 0
    assert "| method           | accuracy, 90% | accuracy, 80% | accuracy, 10% (test) |" in done.out
    assert done.out.splitlines()[-3:] == ["demo/demo.png", "demo/demo.md", "demo/demo.json"]
    assert (tmp_path / "demo" / "demo.md").read_text().rstrip() in done.out
    record = json.loads((tmp_path / "demo" / "demo.json").read_text())
    assert list(record["panels"]) == [run.title for run in small]
    again = riskmatch("figure", "demo/demo.json", "-o", "again.png", "--width", "page")
    assert again.code == 0
    assert (tmp_path / "again.png").read_bytes() == (tmp_path / "demo/demo.png").read_bytes()
    again = riskmatch("demo", "--json")
    assert again.err.startswith("4 runs (4 done")  # with the shared ERM phase
    rows = json.loads(again.out)["result"]
    assert [row["method"] for row in rows] == [run.title for run in small]


def test_runs_share_erm_phase_and_length():
    configs = [run.config for run in demonstration.demo_runs(0)]
    assert len({config.erm_phase().id for config in configs}) == 1
    assert len({config.steps for config in configs}) == 1
    other = [run.config for run in demonstration.demo_runs(1)]
    assert len({config.id for config in [*configs, *other]}) == 6
