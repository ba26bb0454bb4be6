import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from riskmatch.device import peak_memory, reset_peak_memory
from riskmatch.engine import loop
from riskmatch.engine.run import train
from riskmatch.runs.config import RunConfig

CPU = torch.device("cpu")
MANY = 200 * 2**20


def touch(size):
    np.ones(size, np.uint8)


def test_peak_counts_memory_held_at_once():
    reset_peak_memory(CPU)
    before = peak_memory(CPU)
    touch(MANY)
    assert peak_memory(CPU) - before == pytest.approx(MANY, rel=0.1)


linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux resets the high-water mark"
)


@linux_only
def test_peak_excludes_memory_of_earlier_runs(tmp_path):
    tiny = RunConfig("colored-digits", ("0.1",), "erm", steps=2, data_options={"samples": 60})
    first = train(tiny, tmp_path).evaluations[-1].peak_memory
    touch(2 * MANY)
    assert peak_memory(CPU) > first + MANY
    second = train(replace(tiny, seed=1), tmp_path).evaluations[-1].peak_memory
    assert second < first + MANY / 2


@linux_only
def test_peak_excludes_evaluations(tmp_path, monkeypatch):
    predict = loop.predict

    def heavy(*arguments, **options):
        touch(MANY)
        return predict(*arguments, **options)

    monkeypatch.setattr(loop, "predict", heavy)
    reset_peak_memory(CPU)
    before = peak_memory(CPU)
    tiny = RunConfig(
        "colored-digits", ("0.1",), "erm", steps=4, eval_every=2, data_options={"samples": 60}
    )
    run = train(tiny, tmp_path)
    assert len(run.evaluations) == 2
    assert max(entry.peak_memory for entry in run.evaluations) < before + MANY / 2
    assert peak_memory(CPU) < before + MANY / 2
