import json
from dataclasses import replace

import pytest

from riskmatch.experiments import demo


@pytest.fixture
def small(monkeypatch):
    """The demo with few samples and steps."""
    planned = {
        title: replace(
            config, steps=6, pretrain=3, eval_every=3, data_options={"seed": 2, "samples": 60}
        )
        for title, config in demo.runs(2).items()
    }
    monkeypatch.setattr(demo, "runs", lambda seed: planned)
    return planned


def test_a_table_a_picture_and_the_numbers(riskmatch, small, tmp_path):
    done = riskmatch("demo", "--seed", "2")
    assert done.code == 0
    assert "| method           | accuracy, 90% | accuracy, 80% | accuracy, 10% (test) |" in done.out
    assert done.out.splitlines()[-3:] == ["demo/demo.png", "demo/demo.md", "demo/demo.json"]
    assert (tmp_path / "demo" / "demo.md").read_text().rstrip() in done.out
    record = json.loads((tmp_path / "demo" / "demo.json").read_text())
    assert list(record) == list(small)
    demo.draw(record).savefig(tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes() == (tmp_path / "demo/demo.png").read_bytes()
    again = riskmatch("demo", "--json")
    assert "4 of them done before; nothing left" in again.err
    assert [row["method"] for row in json.loads(again.out)["result"]] == list(small)


def test_the_runs_share_their_erm_phase_and_their_length():
    planned = list(demo.runs(0).values())
    assert len({config.erm_phase().id for config in planned}) == 1
    assert len({config.steps for config in planned}) == 1
    assert len({config.id for config in [*planned, *demo.runs(1).values()]}) == 6
