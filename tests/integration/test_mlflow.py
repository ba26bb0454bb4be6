"""Evaluations are logged to MLflow, here to its local store."""

import contextlib

import pytest
from made_records import evaluation, run

from riskmatch.engine.loggers import MLflow

mlflow = pytest.importorskip("mlflow", reason="needs the extra riskmatch[mlflow]")
pytestmark = pytest.mark.filterwarnings("ignore")  # those of MLflow and its packages


def test_a_resumed_run_continues_its_run_of_mlflow(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    out = tmp_path / "runs"
    config = run("b", lr=0.25).config
    domains = {"a: new": (80, 70), "b": (60, 50)}
    logger = MLflow(out)
    logger(config, evaluation(10, **domains))
    with pytest.raises(KeyboardInterrupt), contextlib.closing(logger):
        raise KeyboardInterrupt
    client = mlflow.MlflowClient(f"sqlite:///{out / 'mlflow.db'}")
    place = client.get_experiment_by_name("riskmatch").experiment_id
    (logged,) = client.search_runs([place])
    assert logged.info.status == "FAILED"
    with contextlib.closing(MLflow(out)) as logger:
        logger(config, evaluation(20, **domains))
    (logged,) = client.search_runs([place])
    assert (logged.info.run_name, logged.info.status) == (config.id, "FINISHED")
    assert logged.data.params["lr"] == "0.25"
    assert logged.data.params["draw"] == "0"
    history = client.get_metric_history(logged.info.run_id, "accuracy/a_ new/val")
    assert [(metric.step, metric.value) for metric in history] == [(10, 0.7), (20, 0.7)]
