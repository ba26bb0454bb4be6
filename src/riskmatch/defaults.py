"""What a run takes where nothing is said: by method, by data set, by preset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, get_type_hints

from riskmatch.runs.config import RunConfig
from riskmatch.space import TRAINING, Tuned, defaults, ranges, times
from riskmatch.validation import check_values

PATH = "images"
"""What stands below for any folder of images, or manifest."""
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
"""What is chosen where the usual defaults do not fit the data set: by any method, and by one."""

FROZEN = {"lr": 20, "lr_after": 20, "warmup": 0.2}
"""By what the usual choices are multiplied where the backbone is frozen: a head alone takes larger
steps, and needs fewer of them to warm up."""


@dataclass(frozen=True)
class Preset:
    """A named, complete set of choices of one method."""

    summary: str
    choices: Mapping[str, Any]
    by_data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What it chooses besides, on a data set."""

    def on(self, data: str | None) -> dict[str, Any]:
        """Every choice, on the data set of this name."""
        return {**self.choices, **self.by_data.get(_known_as(data), {})}


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
    """The same on coloured digits and on ColoredMNIST, which has splits of the preset's own."""
    mnist = {**choices, "data_options": {"preset": preset}}
    return {"colored-digits": choices, "colored-mnist": mnist}


_ON_IMAGES = {name: {"model": "timm:resnet50.tv_in1k"} for name in IMAGES}


PRESETS: dict[str, dict[str, Preset]] = {
    "rdm": {
        "paper": Preset(
            "what the paper says",
            {"match": "worst", "divergence": "mmd", "kernel": "paper", "schedule": "cosine"},
            {**_on_colours(_COLORED_PAPER, "paper"), **_ON_IMAGES},
        ),
        "authors-code": Preset(
            "what the paper's released code does",
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
"""By method, then by name."""


def chosen(method: str | None, data: str | None) -> dict[str, Any]:
    """What is chosen for a method on a data set; empty where the usual defaults hold."""
    here = ON_DATA.get(_known_as(data), {})
    return {**here.get(None, {}), **here.get(method, {})}


def space_of(method: str | None, data: str | None = None, frozen: bool = False) -> dict[str, Tuned]:
    """Default and range of all that is tuned for a method, training included.

    What is chosen on the data set is not tuned there. Where the backbone is ``frozen``, learning
    rates and warm-ups are scaled to a head, see ``FROZEN``.
    """
    if method is None:
        space = TRAINING
    else:
        space = {**_objective(method).training, **ranges(_objective(method))}
    fixed, factors = chosen(method, data), FROZEN if frozen else {}
    return {
        name: entry.scaled(factors[name]) if name in factors else entry
        for name, entry in space.items()
        if name not in fixed
    }


def recipe(
    method: str | None = None,
    data: str | None = None,
    preset: str | None = None,
    frozen: bool = False,
) -> dict[str, Any]:
    """Every field of the method and of its run, by name; without a method, of the run alone.

    What is said of the data set wins over what is said of the method in general, and the preset
    over both. Where the backbone is ``frozen``, the same is scaled to a head, see ``FROZEN``.

    Example:
        >>> recipe("rdm")["warmup"], recipe("rdm", "domainnet")["warmup"]
        (1500, 2400)
        >>> recipe("rdm", preset="paper")["kernel"]
        'paper'
        >>> recipe("rdm", "pacs", frozen=True)["warmup"]
        300
    """
    values = {
        **_declared(RunConfig),
        **(_declared(_objective(method)) if method else {}),
        **defaults(space_of(method, data), data),
        **chosen(method, data),
        **(PRESETS[method][preset].on(data) if method and preset else {}),
    }
    if frozen:
        values |= {name: times(values[name], FROZEN[name]) for name in FROZEN if name in values}
    return values


def configure(
    method: str, data: str, test_domains: tuple[str, ...], values: Mapping[str, Any]
) -> RunConfig:
    """A run of ``method`` on ``data``; ``values`` are fields of the method or of the run."""
    objective = _objective(method)
    own = {item.name for item in fields(objective)}
    hparams = {name: value for name, value in values.items() if name in own}
    check_values(method, hparams, get_type_hints(objective))
    return RunConfig(
        data=data,
        test_domains=test_domains,
        method=method,
        hparams=hparams,
        **{name: value for name, value in values.items() if name not in own},
    )


def _known_as(data: str | None) -> str:
    """The name under which choices for the data set are found."""
    if data is None or data in ON_DATA:
        return data or ""
    from riskmatch.data.catalogue import is_path  # torch with it

    return PATH if is_path(data) else data


def _objective(method: str) -> Any:
    from riskmatch.objectives import methods  # torch with it, which a look at presets spares

    return methods()[method]


def _declared(cls: type) -> dict[str, Any]:
    """The defaults that a dataclass declares, but for a run's table of hyper-parameters."""
    found: dict[str, Any] = {}
    for item in fields(cls):
        if item.default is not MISSING:
            found[item.name] = item.default
        elif item.default_factory is not MISSING and item.name != "hparams":
            found[item.name] = item.default_factory()
    return found
