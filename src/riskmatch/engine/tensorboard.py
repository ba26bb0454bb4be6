"""Write evaluations as TensorBoard events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from riskmatch.runs.config import RunConfig
from riskmatch.runs.records import Evaluation


class TensorBoard:
    """Writes the evaluations of runs to ``out/ID/tensorboard``; pass it as ``on_evaluation``.

    Scalars: ``loss``, ``term/NAME``, ``raw/NAME``, ``accuracy/DOMAIN/SPLIT``,
    ``risk/DOMAIN/SPLIT``.

    Args:
        out: folder of all runs.

    Raises:
        ImportError: the package tensorboard is not installed.
    """

    def __init__(self, out: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError(
                "TensorBoard events need pip install 'riskmatch[tensorboard]'."
            ) from error
        self._out, self._make = out, SummaryWriter
        self._writers: dict[str, Any] = {}

    def __call__(self, config: RunConfig, evaluation: Evaluation) -> None:
        """Write one evaluation."""
        if config.id not in self._writers:
            self._writers[config.id] = self._make(self._out / config.id / "tensorboard")
        writer = self._writers[config.id]
        values = {"loss": evaluation.loss}
        values |= {f"term/{name}": value for name, value in evaluation.terms.items()}
        values |= {f"raw/{name}": value for name, value in evaluation.raw.items()}
        for domain, splits in evaluation.scores.items():
            for split, score in splits.items():
                values[f"accuracy/{domain}/{split}"] = score.accuracy
                values[f"risk/{domain}/{split}"] = score.risk
        for name, value in values.items():
            writer.add_scalar(name, value, evaluation.step)
        writer.flush()

    def close(self) -> None:
        """Close all files."""
        for writer in self._writers.values():
            writer.close()
