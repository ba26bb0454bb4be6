import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from riskmatch.engine import run as engine
from riskmatch.engine import train
from riskmatch.engine.memory import forget_peak, peak_memory
from riskmatch.runs.config import RunConfig

CPU = torch.device("cpu")
MANY = 200 * 2**20


def touch(size):
    np.ones(size, np.uint8)


def test_the_peak_is_what_was_held_at_once():
    forget_peak(CPU)
    before = peak_memory(CPU)
    touch(MANY)
    assert peak_memory(CPU) - before == pytest.approx(MANY, rel=0.1)


linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="other systems never lower the mark"
)


@linux_only
def test_a_run_does_not_count_what_others_took_before_it(tmp_path):
    tiny = RunConfig("colored-digits", ("0.1",), "erm", steps=2, data_options={"samples": 60})
    first = train(tiny, tmp_path).evaluations[-1].peak_memory
    touch(2 * MANY)
    assert peak_memory(CPU) > first + MANY
    second = train(replace(tiny, seed=1), tmp_path).evaluations[-1].peak_memory
    assert second < first + MANY / 2


@linux_only
def test_a_run_does_not_count_its_evaluations(tmp_path, monkeypatch):
    predict = engine.predict

    def heavy(*given):
        touch(MANY)
        return predict(*given)

    monkeypatch.setattr(engine, "predict", heavy)
    forget_peak(CPU)
    before = peak_memory(CPU)
    tiny = RunConfig(
        "colored-digits", ("0.1",), "erm", steps=4, eval_every=2, data_options={"samples": 60}
    )
    run = train(tiny, tmp_path)
    assert len(run.evaluations) == 2
    assert max(told.peak_memory for told in run.evaluations) < before + MANY / 2
    assert peak_memory(CPU) < before + MANY / 2
