from dataclasses import fields

import numpy as np
import pytest

from riskmatch.runs import predictions
from riskmatch.runs.predictions import MAX_SAMPLES, Predictions


def made(n, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, (2, n))
    return Predictions(np.arange(n), *labels, *rng.random((2, n), dtype=np.float32))


def equal(one, other):
    return all(
        np.array_equal(getattr(one, item.name), getattr(other, item.name)) for item in fields(one)
    )


def test_predictions_round_trip(tmp_path):
    names = "a", "b/../train", "<script>", "ü" * 300
    written = {name: {"train": made(5, k), "val": made(3, k + 9)} for k, name in enumerate(names)}
    predictions.write(tmp_path, 300, written)
    again = predictions.read(tmp_path, 300)
    assert list(again) == list(written)
    for name, splits in written.items():
        assert again[name].keys() == splits.keys()
        assert all(equal(again[name][split], splits[split]) for split in splits)


def test_same_samples_are_kept_at_every_step(tmp_path):
    for step in 1, 2:
        predictions.write(tmp_path, step, {"a": {"val": made(2 * MAX_SAMPLES + 1, seed=step)}})
    first, second = (predictions.read(tmp_path, step)["a"]["val"] for step in (1, 2))
    assert len(first.risk) == MAX_SAMPLES
    assert np.array_equal(first.index, second.index)
    assert first.index[0] == 0
    assert first.index[-1] > 2 * MAX_SAMPLES - 3
    assert np.array_equal(first.risk, made(2 * MAX_SAMPLES + 1, seed=1).risk[first.index])


def test_steps_and_rewind(tmp_path):
    assert predictions.steps(tmp_path) == ()
    for step in 10, 9, 100:
        predictions.write(tmp_path, step, {"a": {"val": made(2)}})
    (tmp_path / predictions.FOLDER / "1e3.npz").touch()  # of another origin
    assert predictions.steps(tmp_path) == (9, 10, 100)
    predictions.rewind(tmp_path, 10)
    assert predictions.steps(tmp_path) == (9, 10)
    with pytest.raises(FileNotFoundError, match="no predictions of step 100"):
        predictions.read(tmp_path, 100)
