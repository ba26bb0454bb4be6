"""Risk matching in PyTorch Lightning: one criterion in ``training_step``.

With ``group="world"`` the criterion matches the batch of all processes, if there are several.

Run: python examples/lightning_module.py
 or: torchrun --nproc-per-node 2 examples/lightning_module.py
"""

from __future__ import annotations

import os

import lightning
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import riskmatch
from riskmatch import RiskMatching

Sample = tuple[Tensor, Tensor, Tensor]


class Classifier(lightning.LightningModule):
    """A small network trained on (x, y, domain)."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 2))
        self.criterion = RiskMatching(weight, divergence="moments", group="world")

    def training_step(self, batch: Sample, index: int) -> Tensor:
        """The loss of one batch; the penalty needs samples of several domains in it."""
        x, y, domain = batch
        out = self.criterion(cross_entropy(self.net(x), y, reduction="none"), domain)
        self.log_dict({"risk": out.risk, "penalty": out.penalty}, prog_bar=True)
        return out.loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(epochs: int = 5) -> Classifier:
    """Train on coloured digits; returns the model."""
    domains = riskmatch.load_data("colored-digits", options={"samples": 1000}).domains[:2]
    data = TensorDataset(
        torch.cat([domain.x for domain in domains]),
        torch.cat([domain.y for domain in domains]),
        torch.arange(2).repeat_interleave(1000),
    )
    lightning.seed_everything(0, verbose=False)
    model = Classifier(weight=10.0)
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, DataLoader(data, batch_size=256, shuffle=True))
    print({name: round(float(value), 4) for name, value in trainer.callback_metrics.items()})
    return model


if __name__ == "__main__":
    main()
