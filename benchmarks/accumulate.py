"""Time and peak memory of a step on a large batch in pieces: `make bench`."""

from __future__ import annotations

import subprocess
import sys

import torch
from measure import machine, peak_megabytes, peak_tensor_megabytes, save, seconds, table
from torch import Tensor, nn

from riskmatch.contract import Memory, Objective, OptimSpec
from riskmatch.data import Batch
from riskmatch.engine.step import Stepper, StepSettings
from riskmatch.objectives import RDM, Fish

SIDE, CLASSES, DOMAINS = 64, 7, 4
BATCH, PIECE = 512, 32
RDM_NOW = RDM(warmup=0, lr_after=1e-3)
CASES: dict[str, tuple[Objective, int, int]] = {
    f"RDM, batch {BATCH} whole": (RDM_NOW, BATCH, 0),
    f"RDM, batch {BATCH} in pieces of {PIECE}": (RDM_NOW, BATCH, PIECE),
    f"RDM, batch {PIECE} whole": (RDM_NOW, PIECE, 0),
    f"Fish, batch {BATCH} whole": (Fish(), BATCH, 0),
}
"""Method, batch size and samples per piece, by name."""


class Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.GroupNorm(8, outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.GroupNorm(8, outputs),
        )
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(n, outputs, h / stride, w / stride)."""
        return torch.relu(self.body(x) + self.shortcut(x))


class ResNet(nn.Module):
    """Six blocks in three stages."""

    def __init__(self) -> None:
        super().__init__()
        widths = [16, 16, 32, 32, 64, 64]
        blocks, before = [], 3
        for number, width in enumerate(widths):
            blocks.append(Block(before, width, 1 + (number % 2 == 0)))
            before = width
        self.body, self.head = nn.Sequential(*blocks), nn.Linear(before, CLASSES)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features (n, 64) and logits (n, 7)."""
        features = self.body(x).mean((2, 3))
        return features, self.head(features)


def stepper_and_batch(name: str) -> tuple[Stepper, Batch]:
    """The parts of a case after its first step, which fills the caches of torch as well."""
    objective, size, accumulate = CASES[name]
    torch.manual_seed(0)
    x, y = torch.randn(size, 3, SIDE, SIDE), torch.randint(CLASSES, (size,))
    batch = Batch(x, y, (size // DOMAINS,) * DOMAINS)
    settings = StepSettings(accumulate=accumulate)
    stepper = Stepper(ResNet(), objective, Memory(OptimSpec(lr=1e-3)), settings)
    stepper.step(batch)
    return stepper, batch


def memory(name: str) -> float:
    """Megabytes that a step takes above weights, optimiser and batch, in a process of its own."""
    command = [sys.executable, __file__, name]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Measure every case, or print the memory of one."""
    if len(sys.argv) > 1:
        stepper, batch = stepper_and_batch(sys.argv[1])
        print(peak_megabytes(lambda: stepper.step(batch)))
        return
    parts = {name: stepper_and_batch(name) for name in CASES}
    times = seconds(
        {n: lambda s=s, b=b: s.step(b) for n, (s, b) in parts.items()}, rounds=3, turn=0.0
    )
    peaks = {
        name: peak_tensor_megabytes(lambda s=s, b=b: s.step(b)) for name, (s, b) in parts.items()
    }
    resident = {name: memory(name) for name in CASES}
    whole, pieces, small, fish = CASES
    record = {
        "machine": machine(),
        "seconds": times,
        "megabytes of tensors": peaks,
        "megabytes of the process": resident,
        "time in pieces / whole": times[pieces] / times[whole],
        "memory in pieces / small batch": peaks[pieces] / peaks[small],
        "memory of RDM in pieces / Fish": peaks[pieces] / peaks[fish],
        "process in pieces / small batch": resident[pieces] / resident[small],
    }
    rows = [
        [name, f"{times[name]:.3f}", f"{peaks[name]:.0f}", f"{resident[name]:.0f}"]
        for name in CASES
    ]
    headings = ["step of a ResNet on 64 × 64 pixels", "seconds", "tensors, MB", "process, MB"]
    text = table(headings, rows) + (
        f"\nBatch {BATCH} in pieces of {PIECE} takes {record['time in pieces / whole']:.2f} times "
        f"the time of the whole batch, {record['memory in pieces / small batch']:.2f} times the "
        f"memory of batch {PIECE} and {record['memory of RDM in pieces / Fish']:.2f} times that of "
        "Fish. Memory is the peak of what a step takes above weights, optimiser and batch: of its "
        "tensors, as a GPU counts it, and of the process, where the C library keeps some of what "
        f"is freed ({record['process in pieces / small batch']:.2f} times that of batch {PIECE}).\n"
    )
    save("accumulate", record, text)


if __name__ == "__main__":
    main()
