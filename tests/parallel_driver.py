"""Train small runs with SGD, on one process or on those that torchrun starts.

Usage: parallel_driver.py FOLDER
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import riskmatch
from riskmatch.objectives import CORAL, ERM, RDM, GroupDRO

STEPS = 20
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}
DTYPES = {"float32": torch.float32, "float64": torch.float64}
MATCHED = RDM(weight=5.0, warmup=5, lr_after=0.002, variance_weight=0.1)
RUNS = {
    "rdm": (MATCHED, {}),
    "rdm in pieces": (MATCHED, {"accumulate": 5, "clip": 0.5}),
    "groupdro": (GroupDRO(eta=0.1), {"micro_batch": 4}),
    "one sample": (ERM(), {"test_domains": ("b", "c", "t"), "batch_size": 1}),
}
"""Method and options. In batches of one sample, only the first process has one."""
CASES = [("rdm", "float32"), *((name, "float64") for name in RUNS)]


def domains() -> dict[str, tuple[Tensor, Tensor]]:
    """Ragged domains; c has two training samples, fewer than three processes."""
    generator = torch.Generator().manual_seed(1)
    made = {}
    for number, (name, size) in enumerate({"a": 60, "b": 35, "c": 3, "t": 20}.items()):
        y = torch.arange(size) % 2
        x = torch.randn(size, 4, generator=generator) + y[:, None]
        made[name] = (x + 0.3 * number * torch.randn(4, generator=generator), y)
    return made


class Network(nn.Module):
    """A small network with a frozen BatchNorm and a layer that is never used."""

    def __init__(self, frozen: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.frozen = frozen
        self.hidden, self.out, self.unused = nn.Linear(4, 16), nn.Linear(16, 2), nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(16)

    def train(self, mode: bool = True) -> Network:
        super().train(mode)
        self.norm.train(mode and not self.frozen)
        return self

    def forward(self, x: Tensor) -> Tensor:
        x = x.to(self.out.weight.dtype)  # data sets are float32
        return self.out(self.norm(torch.tanh(self.hidden(x))))


def train(folder: Path, name: str, dtype: str) -> dict[str, object]:
    """Train a run; returns its weights, its evaluations and the calls of ``on_step``."""
    objective, options = RUNS[name]
    calls: list[int] = []
    run = riskmatch.train(
        domains(),
        objective,
        **{"test_domains": "t", "batch_size": 32, **options},
        model=Network().to(DTYPES[dtype]),
        optim="sgd",
        lr=0.02,
        steps=STEPS,
        eval_every=10,
        out=folder / dtype / name,
        device="cpu",
        on_step=lambda progress: calls.append(progress.step),
    )
    evaluations = [
        {"loss": e.loss, "scores": {d: s["val"].risk for d, s in e.scores.items()}}
        for e in run.record.evaluations
    ]
    lines = (run.folder / "records.jsonl").read_text("utf-8").splitlines()
    weights = torch.cat([w.detach().flatten() for w in run.model().parameters()])
    return {"weights": weights, "evaluations": evaluations, "calls": calls, "lines": len(lines)}


def refusals(folder: Path) -> list[str]:
    """Messages on a method and a network that cannot be split, and on data that differ by rank."""
    messages = []
    other = {**domains(), "a": (torch.full((9, 4), float(os.environ["RANK"])), torch.arange(9) % 2)}
    for data, objective, frozen in (
        (domains(), CORAL(), True),
        (domains(), MATCHED, False),
        (other, MATCHED, True),
    ):
        try:
            riskmatch.train(
                data, objective, "t", model=Network(frozen), steps=2, out=folder, device="cpu"
            )
        except ValueError as error:
            messages.append(str(error))
    return messages


def main(folder: Path) -> None:
    """Train all runs and write what this process saw of them."""
    results = {case: train(folder, *case) for case in CASES}
    rank = os.environ.get("RANK", "0")
    torch.save(results, folder / f"{rank}.pt")
    if os.environ.get("WORLD_SIZE", "1") != "1":
        (folder / f"refusals-{rank}.json").write_text(json.dumps(refusals(folder / "no")))


def torchrun(processes: int, *command: object) -> list[str]:
    """The command that runs a script, or -m and a module, on several processes."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*launcher, "--nproc-per-node", str(processes), *map(str, command)]


def check_processes(processes: int, folder: Path) -> None:
    """Train all runs on several processes and on one, and compare them."""
    command = torchrun(processes, __file__, folder)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "RiskMatching runs in a process group" not in done.stderr
    alone = {case: train(folder / "alone", *case) for case in CASES}
    for rank in range(processes):
        results = torch.load(folder / f"{rank}.pt")
        for case, one in alone.items():
            several, tolerance = results[case], TOLERANCE[case[1]]
            assert (several["weights"] - one["weights"]).abs().max() < tolerance, case
            for before, now in zip(one["evaluations"], several["evaluations"], strict=True):
                assert now["loss"] == pytest.approx(before["loss"], abs=tolerance)
                assert now["scores"] == pytest.approx(before["scores"], abs=2e-6)
            assert several["calls"] == ([] if rank else one["calls"])
            assert several["lines"] == one["lines"]
        method, layer, data = json.loads((folder / f"refusals-{rank}.json").read_text())
        assert "CORAL needs features" in method
        assert "norm is a BatchNorm in training mode" in layer
        assert "Rank 1 differs from rank 0" in data
    assert not (folder / "no").exists()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
