"""Synthetic runs stored with predictions."""

import numpy as np

from riskmatch.runs import predictions, records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.lines import LEVELS, Evaluation, Score
from riskmatch.runs.predictions import Predictions
from riskmatch.runs.records import RunRecord, StoredRun

TRAINING, TEST = ("art", "photo"), "sketch"
STEPS = (10, 20, 30)
HOSTILE = ("$x^{$", "_hidden", "<script>alert(1)</script>", "ü" * 300, "שלום", "line\nbreak")


def risks_at(step, domain, split):
    """Risks that shrink with the steps; scale and size depend on the domain."""
    key = f"{step} {domain} {split}".encode()
    scale = {"art": 1.0, "photo": 0.5}.get(domain, 2.0) * 10 / step
    size = 25 if domain == "photo" else 40
    return (scale * np.random.default_rng(list(key)).exponential(size=size)).astype(np.float32)


def predictions_of(risks):
    n = len(risks)
    right = np.zeros(n, np.int32)
    return Predictions(np.arange(n), right, (risks > 1).astype(np.int32), np.exp(-risks), risks)


def score_of(predicted):
    accuracy, risk = (predicted.predicted == 0).mean(), predicted.risk.mean()
    return Score({"accuracy": float(accuracy)}, float(risk), (0.0,) * len(LEVELS))


def stored_run(
    out, method="rdm", domains=(*TRAINING, TEST), tests=(TEST,), kept=True, worst=TRAINING
):
    """A run of three evaluations; ``worst`` is the worst domain of the first and of the others."""
    config = RunConfig("pacs", tests, method, {"weight": 5.0, "warmup": 10}, steps=STEPS[-1])
    folder = out / config.id
    folder.mkdir(parents=True)
    evaluations = []
    for number, step in enumerate(STEPS):
        by_domain = {
            d: {split: predictions_of(risks_at(step, d, split)) for split in ("train", "val")}
            for d in domains
        }
        if kept:
            predictions.write(folder, step, by_domain)
        scores = {
            domain: {split: score_of(values) for split, values in splits.items()}
            for domain, splits in by_domain.items()
        }
        terms = {"risk": 0.5, "matching": 0.1 / step} if step > 10 else {"risk": 0.6}
        raw = {"matching": 0.02 / step} if step > 10 else {}
        loss, named = sum(terms.values()), worst[min(number, 1)]
        evaluations.append(Evaluation(step, scores, loss, terms, raw, named, 1, 1, 1))
    record = RunRecord(config, tuple(evaluations), "done")
    records.write(folder, record)
    return StoredRun(folder, record)
