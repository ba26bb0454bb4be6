"""Models to ship: advice, the model folder, predictions, evaluation, export and monitoring."""

from typing import TYPE_CHECKING

from riskmatch.lazy import lazy_names

if TYPE_CHECKING:
    from riskmatch.deployment.advice import Advice, Expected, read_advice, write_advice
    from riskmatch.deployment.advice_report import Advised
    from riskmatch.deployment.advising import advise
    from riskmatch.deployment.evaluation import evaluate
    from riskmatch.deployment.exporting import Exported, export
    from riskmatch.deployment.folder import ModelError
    from riskmatch.deployment.model import SampleScores, TrainedModel, load_model
    from riskmatch.deployment.monitoring import Monitoring, monitor
    from riskmatch.deployment.prediction import predict
    from riskmatch.deployment.saving import save_model

__all__ = [
    "Advice",
    "Advised",
    "Expected",
    "Exported",
    "ModelError",
    "Monitoring",
    "SampleScores",
    "TrainedModel",
    "advise",
    "evaluate",
    "export",
    "load_model",
    "monitor",
    "predict",
    "read_advice",
    "save_model",
    "write_advice",
]

_HOMES = {
    "Advice": "advice",
    "Advised": "advice_report",
    "Expected": "advice",
    "Exported": "exporting",
    "ModelError": "folder",
    "Monitoring": "monitoring",
    "SampleScores": "model",
    "TrainedModel": "model",
    "advise": "advising",
    "evaluate": "evaluation",
    "export": "exporting",
    "load_model": "model",
    "monitor": "monitoring",
    "predict": "prediction",
    "read_advice": "advice",
    "save_model": "saving",
    "write_advice": "advice",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
