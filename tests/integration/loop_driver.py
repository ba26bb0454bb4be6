"""20 steps of risk matching in other people's training loops, under torchrun or alone.

Usage: loop_driver.py LOOP FILE
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from riskmatch import RiskMatching, accumulate
from riskmatch.models.trunk import import_torchvision

with suppress(ImportError):  # one built for another torch breaks the imports of Lightning
    import_torchvision()

RANK, COUNT = (
    int(os.environ.get(name, default)) for name, default in (("RANK", 0), ("WORLD_SIZE", 1))
)
STEPS = 20


def samples(dtype: torch.dtype) -> TensorDataset:
    """The samples of this process. Of three domains, the last process has all of the third."""
    generator = torch.Generator().manual_seed(0)
    domain = torch.arange(3).repeat_interleave(torch.tensor([40, 25, 7]))
    y = torch.arange(72) % 2
    x = torch.randn(72, 4, generator=generator) + y[:, None] + 0.3 * domain[:, None]
    owner = (torch.arange(72) % (COUNT + 2)).clamp(max=COUNT - 1)
    owner[domain == 2] = COUNT - 1
    own = owner == RANK
    return TensorDataset(x[own].to(dtype), y[own], domain[own])


def network(dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2)).to(dtype)


CRITERION = RiskMatching(5.0, variance_weight=0.1, group="world")


def sgd(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), lr=0.005)


def ddp(dtype: torch.dtype) -> nn.Module:
    net, model = _distributed(dtype)
    x, y, domain = samples(dtype).tensors
    optimizer = sgd(net)
    for _ in range(STEPS):
        optimizer.zero_grad()
        CRITERION(cross_entropy(model(x), y, reduction="none"), domain).loss.backward()
        optimizer.step()
    return net


def ddp_in_pieces(dtype: torch.dtype) -> nn.Module:
    net, model = _distributed(dtype)
    x, y, domain = samples(dtype).tensors
    optimizer = sgd(net)
    for _ in range(STEPS):
        optimizer.zero_grad()
        accumulate(
            model,
            lambda piece: cross_entropy(model(piece[0]), piece[1], reduction="none"),
            list(zip(x.split(10), y.split(10), strict=True)),
            lambda risks: CRITERION(risks, domain),
        )
        optimizer.step()
    return net


def _distributed(dtype: torch.dtype) -> tuple[nn.Module, nn.Module]:
    net = network(dtype)
    if COUNT == 1:
        return net, net
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    return net, nn.parallel.DistributedDataParallel(net)


def lightning(dtype: torch.dtype) -> nn.Module:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.criterion = network(dtype), CRITERION

        def training_step(self, batch: list[Tensor], index: int) -> Tensor:
            x, y, domain = batch
            return self.criterion(cross_entropy(self.net(x), y, reduction="none"), domain).loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return sgd(self.net)

    own, module = samples(dtype), Module()
    trainer = lightning.Trainer(
        accelerator="cpu",
        strategy="ddp" if COUNT > 1 else "auto",
        devices=COUNT,
        use_distributed_sampler=False,
        precision="64-true" if dtype == torch.float64 else "32-true",
        max_epochs=STEPS,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, DataLoader(own, batch_size=len(own)))
    return module.net


def accelerate(dtype: torch.dtype) -> nn.Module:
    from accelerate import Accelerator

    accelerator, net = Accelerator(cpu=True), network(dtype)
    model, optimizer = accelerator.prepare(net, sgd(net))
    x, y, domain = samples(dtype).tensors
    for _ in range(STEPS):
        optimizer.zero_grad()
        risks = cross_entropy(model(x), y, reduction="none")
        accelerator.backward(CRITERION(risks, domain).loss)
        optimizer.step()
    return net


LOOPS: dict[str, Callable[[torch.dtype], nn.Module]] = {
    "ddp": ddp,
    "ddp in pieces": ddp_in_pieces,
    "lightning": lightning,
    "accelerate": accelerate,
}

if __name__ == "__main__":
    results = {}
    for dtype in (torch.float32, torch.float64):
        net = LOOPS[sys.argv[1]](dtype)
        results[dtype] = torch.cat([weight.detach().flatten() for weight in net.parameters()])
    if RANK == 0:
        torch.save(results, sys.argv[2])
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
