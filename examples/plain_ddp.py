"""Exact risk matching in plain DistributedDataParallel: ``group="world"``.

The penalty of a batch depends on the risks of all processes, and only through them: the criterion
gathers one number per sample. Without ``group`` each process would match only its own share.

Run: torchrun --nproc-per-node 2 examples/plain_ddp.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import riskmatch
from riskmatch import RiskMatching


def main(steps: int = 20, batch_size: int = 256) -> None:
    """Train on coloured digits, each process on its own share of every batch."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    domains = riskmatch.load_data("colored-digits", options={"samples": 1000}).domains[:2]
    x = torch.cat([domain.x for domain in domains])
    y = torch.cat([domain.y for domain in domains])
    domain = torch.arange(2).repeat_interleave(1000)

    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 2))
    model = DistributedDataParallel(net)
    criterion = RiskMatching(10.0, divergence="moments", group="world")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    shuffle = torch.Generator().manual_seed(0)  # the same on every process
    for _ in range(steps):
        batch = torch.randperm(len(x), generator=shuffle)[:batch_size]
        rows = batch.tensor_split(size)[rank]
        out = criterion(cross_entropy(model(x[rows]), y[rows], reduction="none"), domain[rows])
        optimizer.zero_grad()
        out.loss.backward()
        optimizer.step()
    if rank == 0:
        total = sum(weight.double().abs().sum().item() for weight in net.parameters())
        print(f"loss {out.loss.item():.6f}, penalty {out.penalty.item():.3e}, weights {total:.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
