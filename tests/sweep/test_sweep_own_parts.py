"""Sweeps over a method, a data set and a network from a file in the current folder."""

import json
import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from riskmatch.runs import records
from riskmatch.sweep import Local, plan_sweep, run_sweep, sweep_status
from riskmatch.sweep.plan import read

MODULE = '''
import time
from dataclasses import dataclass

import torch
from torch import nn

from riskmatch.contract import Objective, Terms
from riskmatch.data import Domain, DomainSet
from riskmatch.space import Uniform, tuned
from riskmatch.sweep import Launcher, Worker


@dataclass(frozen=True)
class Scaled(Objective):
    """The mean risk times a factor."""

    factor: float = tuned(1.0, Uniform(0.5, 2.0))
    pause: float = 0.0
    citation = "none"

    def __call__(self, ev, memory):
        time.sleep(self.pause)
        return Terms({"risk": self.factor * ev.risk})


def points(*, samples: int = 20) -> DomainSet:
    """Two Gaussians per domain, in samples points."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(samples) % 2
    domains = [
        Domain(name, y[:, None] + k + torch.randn(samples, 3, generator=generator), y)
        for k, name in enumerate("abc")
    ]
    return DomainSet("points", tuple(domains), 2)


class Linear(nn.Module):
    """A linear classifier of the first width inputs."""

    def __init__(self, input_shape, classes, dropout, *, width: int = 3):
        super().__init__()
        self.width = width
        self.classifier = nn.Linear(width, classes)

    def forward(self, x):
        return x[:, :self.width], self.classifier(x[:, :self.width])


@dataclass(frozen=True)
class OneByOne(Launcher):
    """Trains one run after another."""

    greeting: str = "hello"
    """Text to print first."""

    def launch(self, board, settings, on_change, on_progress=None):
        print(self.greeting)
        worker = Worker(settings)
        while (run := board.start_next()) is not None:
            board.close(run, worker.train(run, lambda report: None))
        on_change(board)
'''


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The name of a module in the current folder, unique to the test."""
    name = f"own_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def plan(mine, **choices):
    values = {"steps": 10, "eval_every": 5, "model": f"{mine}:Linear", **choices}
    return plan_sweep(
        "s",
        f"{mine}:points",
        ["erm", f"{mine}:Scaled"],
        test_domains=["c"],
        draws=3,
        trials=1,
        choices=values,
    )


def test_plan_draws_from_the_search_ranges_of_an_own_method(mine):
    options = {"data_options": {"samples": 12}, "model_options": {"width": 2}}
    runs = plan(mine, **options).new
    assert [run.config for run in read(Path("s"))] == [run.config for run in runs]
    own = [run for run in runs if run.config.method == f"{mine}:Scaled"]
    assert [run.draw for run in own] == [0, 1, 2]
    factors = [run.config.hparams["factor"] for run in own]
    assert factors[0] == 1.0
    assert len(set(factors)) == 3
    assert all(0.5 <= factor <= 2 for factor in factors)
    assert own[0].config.data_options == {"samples": 12}
    assert own[0].config.model_options == {"width": 2}
    assert own[0].title == f"{mine}:Scaled on {mine}:points without c, draw 0, trial 0"


def test_killed_workers_with_own_parts_are_replaced_and_their_runs_retried(mine):
    runs = plan(mine, steps=60, eval_every=20, pause=0.02).runs
    killed = []

    def kill(board):
        if board.steps and not killed:
            for process in multiprocessing.active_children():
                killed.append(process.pid)
                os.kill(process.pid, signal.SIGKILL)

    board = run_sweep("s", Local(jobs=2), on_change=kill)
    assert killed
    assert all("exit code -9" in cause for cause in board.failed.values())
    assert not run_sweep("s", Local(jobs=2), retry=True).failed
    assert sweep_status("s").total == {"done": len(runs)}
    (own, *_) = (run for run in runs if run.config.method == f"{mine}:Scaled")
    lines = (Path("s") / "runs" / own.config.id / records.FILE).read_text().splitlines()
    parts = json.loads(lines[0])["parts"]
    assert {part["name"] for part in parts.values()} == {
        f"{mine}:Scaled",
        f"{mine}:points",
        f"{mine}:Linear",
    }


def test_commands_take_own_parts_and_an_own_launcher(mine, capsys):
    from riskmatch.cli import main

    words = f"--data {mine}:points --methods erm,{mine}:Scaled --backbone {mine}:Linear"
    size = "--test-domain c --draws 1 --trials 1 --steps 4 --eval-every 4"
    assert main(["sweep", "plan", "s", *words.split(), *size.split()]) == 0
    launcher = ["--launcher", f"{mine}:OneByOne"]
    assert main(["sweep", "run", *launcher, "--help"]) == 0
    assert "--greeting" in capsys.readouterr().out
    assert main(["sweep", "run", "s", *launcher, "--greeting", "good morning"]) == 0
    assert capsys.readouterr().out.startswith("good morning\nAll 2 runs are done.")
    assert main(["sweep", "table", "s"]) == 0
    assert "Scaled" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "value", "facts"),
    [
        ("--methods", "absent_module:Mine", ("method", "absent_module")),
        ("--methods", "{mine}:Scald", ("Scald", "Scaled")),
        ("--data", "{mine}:pionts", ("pionts", "points")),
        ("--backbone", "{mine}:Liner", ("Liner", "Linear")),
        ("--launcher", "{mine}:points", ("points", "not a launcher")),
    ],
)
def test_missing_own_part_is_one_line(mine, capsys, option, value, facts):
    from riskmatch.cli import main

    verb = "run" if option == "--launcher" else "plan"
    data = [] if verb == "run" or option == "--data" else ["--data", f"{mine}:points"]
    assert main(["sweep", verb, "s", *data, option, value.format(mine=mine)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert all(fact in error for fact in facts)
