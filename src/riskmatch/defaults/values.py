"""Values that differ from the declared defaults: by data set, by preset, for frozen backbones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PATH = "images"
"""Key of :data:`ON_DATA` for any folder of images or manifest."""
IMAGES = ("pacs", "vlcs", "officehome", "terraincognita", "domainnet", PATH)

ON_DATA: dict[str, dict[str | None, dict[str, Any]]] = {
    "colored-digits": {
        None: {
            "lr": 1e-3,
            "batch_size": 0,
            "dropout": 0.5,
            "steps": 350,
            "eval_every": 50,
            "model_options": {"init": "xavier", "single_logit": True},
        },
        "rdm": {
            "divergence": "moments",
            "weight": 1000.0,
            "rescale": True,
            "variance_weight": 0.0,
            "warmup": 150,
            "lr_after": 5e-4,
        },
        "vrex": {"weight": 1e4, "warmup": 150},
        "irm": {"weight": 1e4, "warmup": 150},
        "eqrm": {"warmup": 150, "lr_after": 5e-4},
        "fishr": {"warmup": 150},
    },
    "colored-mnist": {
        None: {
            "lr": 1e-4,
            "batch_size": 0,
            "micro_batch": 1000,
            "dropout": 0.2,
            "steps": 600,
            "eval_every": 50,
            "model_options": {"widths": [390, 390, 390], "init": "xavier", "single_logit": True},
        },
        "rdm": {
            "divergence": "moments",
            "weight": 1e4,
            "rescale": True,
            "variance_weight": 0.0,
            "warmup": 400,
            "lr_after": 1e-4,
        },
        "vrex": {"weight": 1e4, "warmup": 400},
        "irm": {"weight": 1e4, "warmup": 400},
        "eqrm": {"warmup": 400, "lr_after": 1e-4, "log_tail": -1000.0},
        "fishr": {"warmup": 400},
    },
    "rotated-mnist": {None: {"model": "cnn"}, "rdm": {"lr": 1e-3, "lr_after": 3e-4}},
    **{name: {None: {"model": "lite0"}} for name in IMAGES},
    "domainnet": {None: {"model": "lite0", "eval_every": 1000}},
}
"""Values by data set, then by method; None stands for every method."""

FROZEN = {"lr": 20, "lr_after": 20, "warmup": 0.2}
"""Factors for a frozen backbone: a head alone takes larger steps and a shorter warm-up."""


@dataclass(frozen=True)
class Preset:
    """A named, complete set of choices for one method."""

    summary: str
    choices: Mapping[str, Any]
    by_data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Further choices by data set."""

    def on(self, data: str | None) -> dict[str, Any]:
        """Choices on a data set."""
        return {**self.choices, **self.by_data.get(data_key(data), {})}


_COLORED_PAPER = {
    "divergence": "moments",
    "rescale": False,
    "weight": 5000.0,
    "variance_weight": 0.0,
    "lr": 1e-4,
    "lr_after": 1e-4,
    "warmup": 400,
    "dropout": 0.2,
    "batch_size": 0,
    "steps": 600,
    "model": "mlp",
    "model_options": {"widths": [390, 390], "init": "xavier", "single_logit": True},
}
_COLORED_CODE = {
    **_COLORED_PAPER,
    "rescale": True,
    "weight": 1e4,
    "model_options": {"widths": [390, 390, 390], "init": "xavier", "single_logit": True},
}


def _on_colours(choices: dict[str, Any], preset: str) -> dict[str, dict[str, Any]]:
    """Choices for coloured digits, and for ColoredMNIST with the splits of the preset."""
    mnist = {**choices, "data_options": {"preset": preset}}
    return {"colored-digits": choices, "colored-mnist": mnist}


_ON_IMAGES = {name: {"model": "timm:resnet50.tv_in1k"} for name in IMAGES}


PRESETS: dict[str, dict[str, Preset]] = {
    "rdm": {
        "paper": Preset(
            "as the paper describes it",
            {"match": "worst", "divergence": "mmd", "kernel": "paper", "schedule": "cosine"},
            {**_on_colours(_COLORED_PAPER, "paper"), **_ON_IMAGES},
        ),
        "authors-code": Preset(
            "as the paper's released code does it",
            {
                "match": "worst",
                "divergence": "mmd",
                "kernel": "authors-code",
                "schedule": "cosine-after-warmup",
            },
            {**_on_colours(_COLORED_CODE, "authors-code"), **_ON_IMAGES},
        ),
    },
}
"""Presets by method, then by name."""


def data_key(data: str | None) -> str:
    """Key of a data set in :data:`ON_DATA`."""
    if data is None or data in ON_DATA:
        return data or ""
    from riskmatch.data.catalogue import is_path

    return PATH if is_path(data) else data
