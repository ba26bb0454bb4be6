"""Write the evaluations of runs for other tools: TensorBoard, MLflow, CSV."""

from __future__ import annotations

import os
import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from riskmatch import registry
from riskmatch.files import make_folder, read_file, refuse_link, write_whole
from riskmatch.registry import PartError
from riskmatch.runs.config import RunConfig
from riskmatch.runs.lines import Evaluation
from riskmatch.validation import from_extra


class Logger(ABC):
    """Receives every evaluation of runs, once it is on disk; an ``on_evaluation`` of a run.

    A logger of your own derives from this class, or has its methods and its argument.

    Args:
        out: folder of all runs; that of one run is ``out/ID``.
    """

    def __init__(self, out: Path) -> None:
        self.out = out

    @abstractmethod
    def __call__(self, config: RunConfig, evaluation: Evaluation) -> None:
        """Write one evaluation."""

    def close(self) -> None:  # noqa: B027
        """End all logs; called once, also when a run fails."""


def scalars(evaluation: Evaluation) -> dict[str, float]:
    """The numbers of an evaluation by name.

    They are ``loss``, ``term/NAME``, ``raw/NAME``, ``METRIC/DOMAIN/SPLIT``, such as
    ``accuracy/photo/val``, and ``risk/DOMAIN/SPLIT``.
    """
    values = {"loss": evaluation.loss}
    values |= {f"term/{name}": value for name, value in evaluation.terms.items()}
    values |= {f"raw/{name}": value for name, value in evaluation.raw.items()}
    for domain, splits in evaluation.scores.items():
        for split, score in splits.items():
            values |= {f"{name}/{domain}/{split}": v for name, v in score.metrics.items()}
            values[f"risk/{domain}/{split}"] = score.risk
    return values


class TensorBoard(Logger):
    """TensorBoard events in ``out/ID/tensorboard``.

    Raises:
        ImportError: the package tensorboard is not installed.
    """

    def __init__(self, out: Path) -> None:
        super().__init__(out)
        with from_extra("tensorboard", "Writing TensorBoard events"):
            from torch.utils.tensorboard import SummaryWriter
        self._make = SummaryWriter
        self._writers: dict[str, Any] = {}

    def __call__(self, config: RunConfig, evaluation: Evaluation) -> None:
        """Write one evaluation."""
        if config.id not in self._writers:
            folder = self.out / config.id / "tensorboard"
            make_folder(folder)
            self._writers[config.id] = self._make(folder)
        writer = self._writers[config.id]
        for name, value in scalars(evaluation).items():
            writer.add_scalar(name, value, evaluation.step)
        writer.flush()

    def close(self) -> None:
        """Close all files."""
        for writer in self._writers.values():
            writer.close()


class CSV(Logger):
    """One row per evaluation in ``out/ID/evaluations.csv``, with the columns of :func:`scalars`.

    A run that is resumed or started again replaces the rows from its first evaluation on.
    """

    def __call__(self, config: RunConfig, evaluation: Evaluation) -> None:
        """Write one evaluation."""
        path = self.out / config.id / "evaluations.csv"
        import pandas as pd

        refuse_link(path)
        row = pd.DataFrame([{"step": evaluation.step, **scalars(evaluation)}])
        if path.exists():
            before = pd.read_csv(BytesIO(read_file(path)), dtype=str)
            row = pd.concat([before[before["step"].astype(int) < evaluation.step], row])
        write_whole(path, row.to_csv(index=False).encode())  # whole: a new term adds a column


class MLflow(Logger):
    """A run of MLflow per run, in the experiment ``riskmatch``.

    It goes to the tracking server that ``MLFLOW_TRACKING_URI`` names, or else to the database
    ``out/mlflow.db``. Parameters are the configuration of the run, metrics :func:`scalars`. A run
    that is resumed continues its run of MLflow.

    Raises:
        ImportError: the package mlflow is not installed.
    """

    def __init__(self, out: Path) -> None:
        super().__init__(out)
        with from_extra("mlflow", "Logging to MLflow"):
            from mlflow import MlflowClient
        store = os.environ.get("MLFLOW_TRACKING_URI")
        if not store:
            make_folder(out)
            store = f"sqlite:///{(out / 'mlflow.db').absolute()}"
        self._client = MlflowClient(store)
        self._runs: dict[str, str] = {}

    def __call__(self, config: RunConfig, evaluation: Evaluation) -> None:
        """Write one evaluation."""
        if config.id not in self._runs:
            self._runs[config.id] = self._start(config)
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [
            # MLflow refuses other characters, which names of domains may have.
            Metric(re.sub(r"[^\w\-. /]", "_", name), value, now, evaluation.step)
            for name, value in scalars(evaluation).items()
        ]
        self._client.log_batch(self._runs[config.id], metrics)

    def _start(self, config: RunConfig) -> str:
        """Id of the run of MLflow, that of an earlier process where there is one."""
        client = self._client
        experiment = client.get_experiment_by_name("riskmatch")
        place = experiment.experiment_id if experiment else client.create_experiment("riskmatch")
        for run in client.search_runs([place], f"attributes.run_name = '{config.id}'"):
            client.update_run(run.info.run_id, status="RUNNING")
            return str(run.info.run_id)
        made: str = client.create_run(place, run_name=config.id).info.run_id
        values = config.to_json()
        for name, value in {**values, **values.pop("hparams")}.items():
            client.log_param(made, name, value)
        return made

    def close(self) -> None:
        """Mark the runs as finished, or as failed if an error is being handled."""
        status = "FINISHED" if sys.exc_info()[0] is None else "FAILED"
        for run in self._runs.values():
            self._client.set_terminated(run, status)


LOGGERS = {"csv": CSV, "mlflow": MLflow, "tensorboard": TensorBoard}
"""The built-in loggers by name."""


def make_loggers(names: Sequence[str], out: Path) -> list[Logger]:
    """Loggers of these names, built in or your own.

    Example:
        >>> [type(logger).__name__ for logger in make_loggers(["csv"], Path("runs"))]
        ['CSV']

    Raises:
        ValueError: a name is unknown, or what it names is no logger.
        ImportError: a logger needs a package that is not installed.
    """
    loggers = []
    for name in dict.fromkeys(names):
        logger = registry.find("logger", name).value(out)
        if not callable(logger) or not callable(getattr(logger, "close", None)):
            raise PartError(
                f"The logger '{name}' must have the methods __call__(config, evaluation) and "
                f"close(), got {logger!r}; see riskmatch.engine.loggers.Logger."
            )
        loggers.append(logger)
    return loggers
