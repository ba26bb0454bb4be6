"""A run's evaluations as TensorBoard events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from riskmatch.cli.errors import BadInput

if TYPE_CHECKING:
    from riskmatch.runs.records import Evaluation


class Events:
    """Writes loss, terms, accuracies and risks to the folder ``tensorboard`` of the run."""

    def __init__(self, run: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise BadInput(
                "--tensorboard needs a package: pip install 'riskmatch[tensorboard]'."
            ) from None
        self._writer = SummaryWriter(run / "tensorboard")

    def write(self, evaluation: Evaluation) -> None:
        """Write an evaluation."""
        values = {"loss": evaluation.loss}
        values |= {f"term/{name}": value for name, value in evaluation.terms.items()}
        values |= {f"raw/{name}": value for name, value in evaluation.raw.items()}
        for domain, splits in evaluation.scores.items():
            for split, score in splits.items():
                values[f"accuracy/{domain}/{split}"] = score.accuracy
                values[f"risk/{domain}/{split}"] = score.risk
        for name, value in values.items():
            self._writer.add_scalar(name, value, evaluation.step)
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()
