"""Records made by hand, with accuracies in per cent."""

from riskmatch import selection
from riskmatch.runs.config import RunConfig
from riskmatch.runs.frame import frame_of
from riskmatch.runs.lines import LEVELS, Evaluation, Score
from riskmatch.runs.records import RunRecord

NOT_KNOWN = (float("nan"),) * len(LEVELS)


def score(accuracy):
    return Score({"accuracy": accuracy / 100}, float("nan"), NOT_KNOWN)


def evaluation(step, seconds_per_step=0.1, peak_memory=2**30, **domains):
    """``a=(80, 70)`` is 80 % on the training split of the domain a, 70 % on its validation."""
    scores = {
        name: {"train": score(train), "val": score(val)} for name, (train, val) in domains.items()
    }
    return Evaluation(
        step, scores, 1.0, {}, {}, "", seconds_per_step * step, seconds_per_step, peak_memory
    )


def run(test, *evaluations, data="toy", method="erm", trial=0, draw=0, status="done", **others):
    """``test`` names the test domains, one letter each; ``draw`` is what tells draws apart."""
    config = RunConfig(data, tuple(test), method, {"draw": draw}, trial=trial, **others)
    return RunRecord(config, tuple(evaluations), status)


def choose(runs, rule):
    """The choices of a rule, one tuple of named values for each case."""
    return list(selection.choose(frame_of(runs), rule).itertuples(index=False))
