"""Short runs, and comparison of two runs."""

import json
from dataclasses import replace
from pathlib import Path

from safetensors.torch import load_file

from riskmatch.defaults import with_source
from riskmatch.objectives import methods
from riskmatch.runs.config import RunConfig
from riskmatch.runs.records import FILE

CHANGED = {
    "rdm": {"lr_after": 1e-3},
    "eqrm": {"lr_after": 1e-3},
    "erm-switch": {"lr_after": 1e-3},
    "groupdro": {"eta": 0.1},
    "fishr": {"weight": 1.0},
    "sandmask": {"tau": 0.0},
    "ib-erm": {"weight": 1.0},
    "ib-irm": {"weight": 1.0, "variance_warmup": 40, "variance_weight": 1.0},
    "miro": {"weight": 1.0},
    "erm-plus-plus": {"warmup": 10, "linear_lr": 1e-3, "average_from": 12},
    "dann": {"gradient_penalty": 0.5},
    "cdann": {"critic_dropout": 0.3},
    "adrmx": {"critic_depth": 3},
}
HPARAMS = {
    **{
        name: {**({"warmup": 20} if hasattr(method, "warmup") else {}), **CHANGED.get(name, {})}
        for name, method in methods().items()
    },
    "corrected:Corrected": {},
}
"""Every built-in method, with warm-ups that end in a tiny run, and one of the user's own that has
networks, turns and a prediction."""

TINY = RunConfig(
    data="colored-digits",
    test_domains=("0.1",),
    method="erm",
    model_options={"widths": [16]},
    lr=1e-3,
    dropout=0.2,
    batch_size=24,
    steps=60,
    eval_every=20,
    data_options={"samples": 200},
)


def tiny(method="erm", **changes):
    config = replace(TINY, method=method, hparams=HPARAMS.get(method, {}), **changes)
    return with_source(config)


def lines(folder: Path):
    """Lines of the record without times and memory."""
    entries = [json.loads(line) for line in (folder / FILE).read_text().splitlines()]
    for entry in entries:
        for name in ("seconds", "seconds_per_step", "peak_memory"):
            entry.pop(name, None)
    return entries


def last_checkpoint(folder: Path) -> Path:
    return max((folder / "checkpoints").glob("*.safetensors"))


def final_state(folder: Path):
    """Shape and bytes of every tensor of the last checkpoint."""
    tensors = load_file(last_checkpoint(folder))
    return {name: (value.shape, value.numpy().tobytes()) for name, value in tensors.items()}


def assert_same_run(one: Path, other: Path):
    assert lines(one) == lines(other)
    assert last_checkpoint(one).name == last_checkpoint(other).name
    assert final_state(one) == final_state(other)
