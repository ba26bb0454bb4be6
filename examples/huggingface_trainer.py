"""Risk matching in the Hugging Face Trainer: override ``compute_loss``.

Two settings matter. ``remove_unused_columns=False`` keeps the column ``domain``, which the model
does not take. ``model_accepts_loss_kwargs = False`` makes the Trainer divide the loss by the number
of accumulation steps; without it, an accumulated step would be as many times too large. Each of its
micro-batches is matched on its own, so prefer large batches to accumulation.

Run: python examples/huggingface_trainer.py
"""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments

import riskmatch
from riskmatch import RiskMatching


class Digits(Dataset[dict[str, Tensor]]):
    """The training domains of coloured digits, as dictionaries."""

    def __init__(self, samples: int) -> None:
        domains = riskmatch.load_data("colored-digits", options={"samples": samples}).domains[:2]
        self.x = torch.cat([domain.x for domain in domains])
        self.y = torch.cat([domain.y for domain in domains])
        self.domain = torch.arange(2).repeat_interleave(samples)

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        return {"x": self.x[row], "labels": self.y[row], "domain": self.domain[row]}


class RiskMatchingTrainer(Trainer):  # type: ignore[misc]
    """A Trainer whose loss is the mean risk plus the matching penalty."""

    def __init__(self, *args: Any, weight: float = 1.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.criterion = RiskMatching(weight, divergence="moments")
        self.model_accepts_loss_kwargs = False

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Tensor], *args: Any, **kwargs: Any
    ) -> Tensor:
        """The loss of one batch."""
        risks = cross_entropy(model(inputs["x"]), inputs["labels"], reduction="none")
        return self.criterion(risks, inputs["domain"]).loss


def main(steps: int = 20, accumulation: int = 1) -> nn.Module:
    """Train on coloured digits; returns the model."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 2))
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=steps,
            per_device_train_batch_size=256 // accumulation,
            gradient_accumulation_steps=accumulation,
            learning_rate=1e-3,
            remove_unused_columns=False,
            report_to="none",
            save_strategy="no",
            logging_steps=10,
            use_cpu=True,
            disable_tqdm=True,
        )
        RiskMatchingTrainer(model, arguments, train_dataset=Digits(1000), weight=10.0).train()
    return model


if __name__ == "__main__":
    main()
