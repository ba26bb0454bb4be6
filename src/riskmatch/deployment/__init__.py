"""Models to ship: the model folder, predictions, evaluation, export and monitoring."""

from typing import TYPE_CHECKING

from riskmatch.lazy import lazy_names

if TYPE_CHECKING:
    from riskmatch.deployment.evaluation import evaluate
    from riskmatch.deployment.expected import Expected
    from riskmatch.deployment.exporting import Exported, export
    from riskmatch.deployment.folder import ModelError
    from riskmatch.deployment.model import TrainedModel, load_model
    from riskmatch.deployment.monitoring import Monitoring, monitor
    from riskmatch.deployment.prediction import predict
    from riskmatch.deployment.saving import save_model

__all__ = [
    "Expected",
    "Exported",
    "ModelError",
    "Monitoring",
    "TrainedModel",
    "evaluate",
    "export",
    "load_model",
    "monitor",
    "predict",
    "save_model",
]

_HOMES = {
    "Expected": "expected",
    "Exported": "exporting",
    "ModelError": "folder",
    "Monitoring": "monitoring",
    "TrainedModel": "model",
    "evaluate": "evaluation",
    "export": "exporting",
    "load_model": "model",
    "monitor": "monitoring",
    "predict": "prediction",
    "save_model": "saving",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
