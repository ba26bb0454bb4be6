"""Values that differ from the declared defaults: by data set, by preset, for frozen backbones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from riskmatch.registry import INSTANCE
from riskmatch.space import TRAINING, Choice, LogUniform, Tuned, Uniform

PATH = "images"
"""Key of :data:`ON_DATA` for any folder of images or manifest."""
FEATURES = "features-file"
"""Key of :data:`ON_DATA` for any file of features."""
TABLE = "table-file"
"""Key of :data:`ON_DATA` for any table, in a file or a data frame."""
TITLES = {PATH: "images", FEATURES: "a file of features", TABLE: "a table"}
"""Titles of the keys that stand for many data sets."""
_DATA_FRAME = f"{INSTANCE}riskmatch.data.table.TableDomains"
IMAGES = ("pacs", "vlcs", "officehome", "terraincognita", "domainnet", PATH)

ByMethod = Mapping[str | None, Mapping[str, Any]]
"""Values by method; None stands for every method."""


def _on_digits(
    lr: float, weight: float, warmup: int, lr_after: float
) -> dict[str | None, dict[str, Any]]:
    """Values of methods on digits: their learning rate, the weight of RDM, and the warm-up."""
    switch = {"warmup": warmup, "lr_after": lr_after}
    moments = {"divergence": "moments", "weight": weight, "rescale": True, "variance_weight": 0.0}
    return {
        "rdm": {**moments, **switch},
        **dict.fromkeys(("erm-switch", "eqrm"), switch),
        **{name: {"weight": 1e4, "warmup": warmup} for name in ("vrex", "irm")},
        **{name: {"warmup": warmup} for name in ("fishr", "ib-erm", "trm", "lp-ft")},
        "ib-irm": {"warmup": warmup, "variance_warmup": warmup},
        **{name: {"critic_lr": lr} for name in ("dann", "cdann", "urm")},
        # Smaller batches where a step compares all pairs of samples.
        **{name: {"batch_size": 256} for name in ("cad", "cond-cad", "adrmx")},
    }


ON_DATA: dict[str, ByMethod] = {
    "colored-digits": {
        None: {
            "lr": 1e-3,
            "batch_size": 0,
            "dropout": 0.5,
            "steps": 350,
            "eval_every": 50,
            "model_options": {"init": "xavier", "single_logit": True},
        },
        **_on_digits(lr=1e-3, weight=1000.0, warmup=150, lr_after=5e-4),
        "erm-plus-plus": {"warmup": 35, "average_from": 42},
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
        **_on_digits(lr=1e-4, weight=1e4, warmup=400, lr_after=1e-4),
        "eqrm": {"warmup": 400, "lr_after": 1e-4, "log_tail": -1000.0},
        "erm-plus-plus": {"warmup": 60, "average_from": 72},
    },
    "rotated-mnist": {
        None: {"model": "cnn"},
        "rdm": {"lr": 1e-3, "lr_after": 3e-4},
        "erm-switch": {"lr": 1e-3, "lr_after": 3e-4},
    },
    **{name: {None: {"model": "lite0"}} for name in IMAGES},
    "domainnet": {None: {"model": "lite0", "eval_every": 1000}},
    FEATURES: {None: {"model": "linear"}},
    TABLE: {None: {"model": "table", "dropout": 0.2, "steps": 2000, "eval_every": 200}},
}
"""Values by data set, then by method."""

ON_EVERY: Mapping[str, Mapping[str, Any]] = {
    "erm-plus-plus": {"schedule": "plateau", "retrain": True},
}
"""Values of fields of a run by method, on every data set."""

FROZEN = {
    **{"lr": 20, "lr_after": 20, "critic_lr": 20, "linear_lr": 20},
    **{"warmup": 0.2, "variance_warmup": 0.2, "average_from": 0.2},
}
"""Factors for a frozen backbone or a file of features: a head alone takes larger steps and a
shorter warm-up."""
FACTORS: dict[str, Mapping[str, float]] = {FEATURES: FROZEN, TABLE: {**FROZEN, "batch_size": 4}}
"""Factors by key of a data set; rows of a table are small, so that batches can be large."""

PATIENCE = 5
"""Evaluations without a lower validation risk after which a single run of a head alone stops."""


@dataclass(frozen=True)
class Preset:
    """A named set of choices for all methods, with what differs by method and by data set.

    A choice is a value, which a sweep keeps, or a :class:`~riskmatch.space.Tuned`: a default, and
    the range that a sweep draws from.
    """

    summary: str
    choices: ByMethod
    by_data: Mapping[str, ByMethod] = field(default_factory=dict)
    """Further choices by data set; they win over ``choices``."""
    declared: bool = False
    """Whether defaults and ranges that a method declares win over :data:`ON_DATA`."""

    def on(self, method: str | None, data: str | None) -> dict[str, Any]:
        """Choices for a method on a data set."""
        return {**choices_for(method, self.choices), **self.differences(method, data)}

    def differences(self, method: str | None, data: str | None) -> dict[str, Any]:
        """Choices for a method that are particular to a data set."""
        key, choices = data_key(data), choices_for(method, self.choices)
        tuned = {name: value for name, value in choices.items() if isinstance(value, Tuned)}
        return {
            **{name: value.by_data[key] for name, value in tuned.items() if key in value.by_data},
            **choices_for(method, self.by_data.get(key, {})),
        }

    @property
    def methods(self) -> set[str]:
        """Methods with choices of their own."""
        layers = (self.choices, *self.by_data.values())
        return {method for layer in layers for method in layer if method is not None}


def choices_for(method: str | None, choices: ByMethod) -> dict[str, Any]:
    """Values for every method, with those of ``method`` over them."""
    return {**choices.get(None, {}), **(choices.get(method, {}) if method else {})}


def _colored(preset: str, widths: list[int], schedule: str, **rdm: Any) -> dict[str, ByMethod]:
    """Choices for ColoredMNIST, and for the digits that stand in for it."""
    every = {
        "lr": 1e-4,
        "dropout": 0.2,
        "batch_size": 0,
        "steps": 600,
        "model": "mlp",
        "model_options": {"widths": widths, "init": "xavier", "single_logit": True},
    }
    switch = {"schedule": schedule, "warmup": 400, "lr_after": 1e-4}
    methods: dict[str | None, dict[str, Any]] = {
        "rdm": {"divergence": "moments", "variance_weight": 0.0, **switch, **rdm},
        "erm-switch": switch,
    }
    return {
        "colored-digits": {None: every, **methods},
        "colored-mnist": {None: {**every, "data_options": {"preset": preset}}, **methods},
    }


_RESNET50: dict[str, ByMethod] = {
    name: {None: {"model": "timm:resnet50.tv_in1k"}} for name in IMAGES
}
_DROPOUT = {"dropout": Tuned(0.0, Choice((0.0, 0.003)))}
_WEIGHT = {"weight": Tuned(5.0, Uniform(1.0, 10.0))}
_RDM = {"match": "worst", "divergence": "mmd", "schedule": "constant"}


def _or_digits(images: Tuned, digits: Tuned) -> Tuned:
    """DomainBed's default and range on images, and those on digits."""
    both = dict.fromkeys(("colored-mnist", "rotated-mnist"), digits)
    return Tuned(images.default, images.range, {**images.by_data, **both})


_DIGITS_LR = Tuned(1e-3, LogUniform(-4.5, -2.5))
_DIGITS_BATCH = TRAINING["batch_size"].on("rotated-mnist")
_SMALLER = Tuned(40, Uniform(30, 60, integer=True))
_DOMAINBED: dict[str | None, dict[str, Any]] = {
    None: {
        "replacement": True,
        "augment_validation": True,
        "steps": 5001,
        "lr": _or_digits(TRAINING["lr"], _DIGITS_LR),
        "batch_size": _or_digits(TRAINING["batch_size"], _DIGITS_BATCH),
        "weight_decay": _or_digits(TRAINING["weight_decay"], Tuned(0.0, Choice((0.0,)))),
        "dropout": TRAINING["dropout"],
    },
    "rdm": {
        "pool": "samples",
        "weight": Tuned(
            5.0,
            Uniform(0.1, 10.0),
            {
                **dict.fromkeys(("pacs", "terraincognita"), Tuned(5.0, Uniform(1.0, 10.0))),
                "domainnet": Tuned(0.5, Uniform(0.1, 1.0)),
            },
        ),
        "batch_size": _or_digits(
            Tuned(
                88,
                Uniform(70, 100, integer=True),
                {"domainnet": _SMALLER, "terraincognita": _SMALLER},
            ),
            _DIGITS_BATCH,
        ),
    },
    "arm": {"batch_size": _or_digits(Tuned(8, Choice((8,))), _DIGITS_BATCH)},
    **{
        name: {"critic_lr": _or_digits(Tuned(5e-5, LogUniform(-5, -3.5)), _DIGITS_LR)}
        for name in ("dann", "cdann")
    },
    "urm": {
        "critic_lr": _or_digits(
            Tuned(5e-5, LogUniform(-6, -4.5)), Tuned(1e-3, LogUniform(-5.5, -3.5))
        )
    },
    "adrmx": {
        "lr": _or_digits(
            Tuned(3e-5, Choice((2e-5, 3e-5, 4e-5, 5e-5))),
            Tuned(3e-3, Choice((5e-4, 1e-3, 2e-3, 3e-3))),
        )
    },
    "transfer": {"ascent_steps": Tuned(10, Choice((1, 2, 5)))},
    "sandmask": {"tau": Tuned(1.0, Uniform(0.0, 1.0))},
    "eqrm": {"warmup": Tuned(2500, LogUniform(2.5, 3.5, integer=True, up=True))},
}
NOT_OF_DOMAINBED = ("erm-switch", "lp-ft", "miro")
"""Built-in methods that DomainBed does not have."""
_CNN: ByMethod = {None: {"model": "cnn", "eval_every": 100, "micro_batch": 0}}
_RAM: ByMethod = {None: {"model": "timm:resnet50.ram_in1k", "model_options": {"freeze_bn": False}}}


PRESETS: dict[str, Preset] = {
    "paper": Preset(
        "as the paper describes it",
        {"rdm": {**_RDM, "kernel": "paper", "pool": "domains"}},
        {**_colored("paper", [390, 390], "cosine", rescale=False, weight=5000.0), **_RESNET50},
    ),
    "authors-code": Preset(
        "as the paper's released code does it, a fork of DomainBed",
        {
            None: {"replacement": True, "augment_validation": True},
            "rdm": {**_RDM, "kernel": "authors-code", "pool": "samples"},
        },
        {
            **_colored(
                "authors-code", [390, 390, 390], "cosine-after-warmup", rescale=True, weight=1e4
            ),
            **_RESNET50,
            "pacs": {**_RESNET50["pacs"], "rdm": _WEIGHT | _DROPOUT, "erm-switch": _DROPOUT},
            "vlcs": {**_RESNET50["vlcs"], "rdm": _DROPOUT, "erm-switch": _DROPOUT},
            "officehome": {**_RESNET50["officehome"], "rdm": _DROPOUT, "erm-switch": _DROPOUT},
            "terraincognita": {**_RESNET50["terraincognita"], "rdm": _WEIGHT},
        },
    ),
    "domainbed": Preset(
        "as DomainBed does it, at its commit b93c22a",
        _DOMAINBED,
        {
            **dict.fromkeys(IMAGES, _RAM),
            "domainnet": {None: {**_RAM[None], "eval_every": 1000}},
            "colored-mnist": _CNN,
            "rotated-mnist": _CNN,
        },
        declared=True,
    ),
}
"""Presets by name."""


def data_key(data: str | None) -> str:
    """Key of a data set in :data:`ON_DATA`."""
    if data is None or data in ON_DATA:
        return data or ""
    if data == _DATA_FRAME:
        return TABLE
    from riskmatch.data.catalogue import is_path, path_contents

    if not is_path(data):
        return data
    keys = {"features": FEATURES, "table": TABLE, "images": PATH}
    return keys[path_contents(Path(data))]
