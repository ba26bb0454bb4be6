"""Decide which value each field of a run and of its method has.

:func:`resolve` lays these over each other; a later one wins:

1. the default that :class:`~riskmatch.runs.config.RunConfig` or the method's dataclass declares;
2. the method's tuned default (:func:`riskmatch.space.tuned`), on the data set where it differs;
3. the data set, then the method on the data set (:data:`ON_DATA`);
4. the preset (:data:`PRESETS`);
5. for a frozen backbone, learning rates and warm-up of the above times :data:`FROZEN`;
6. the values given: from a TOML file, then from the command line or the caller.

``data_options`` and ``model_options`` are merged key by key; the options of a network are dropped
where a later layer names another network.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from riskmatch import registry
from riskmatch.registry import PartError
from riskmatch.runs.config import RunConfig
from riskmatch.space import TRAINING, Tuned, defaults, ranges, times, with_later, without_later
from riskmatch.validation import check_option, check_options, check_values, type_hints

if TYPE_CHECKING:
    from riskmatch.contract import Objective

    Method = str | type[Objective]
    """The name of a method, or its class."""

__all__ = [
    "FROZEN",
    "ON_DATA",
    "PRESETS",
    "Preset",
    "factory",
    "field_names",
    "given_for",
    "method_class",
    "on_data",
    "resolve",
    "run_config",
    "search_space",
]

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

_OPTIONS = ("data_options", "model_options")
_ARGUMENTS = ("data", "test_domains", "method", "hparams")
"""Fields of a run that :func:`run_config` takes as arguments or derives."""


@dataclass(frozen=True)
class Preset:
    """A named, complete set of choices for one method."""

    summary: str
    choices: Mapping[str, Any]
    by_data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Further choices by data set."""

    def on(self, data: str | None) -> dict[str, Any]:
        """Choices on a data set."""
        return {**self.choices, **self.by_data.get(_key(data), {})}


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


def resolve(
    method: Method | None = None,
    data: str | None = None,
    *,
    preset: str | None = None,
    frozen: bool = False,
    given: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Value of every field of a run and of its method, by name.

    Args:
        method: name or class of the method; None resolves the fields of the run alone.
        data: name or path of the data set.
        preset: name of a preset of the method.
        frozen: train the head alone on features of a frozen backbone; also set by
            ``given["model_options"]["frozen"]``.
        given: values that win over every default. In ``data_options`` and ``model_options``, None
            removes a default.

    Raises:
        ValueError: a name is unknown, or a value of the method has the wrong type.

    Example:
        >>> resolve("rdm")["warmup"], resolve("rdm", "domainnet")["warmup"]
        (1500, 2400)
        >>> resolve("rdm", "pacs", frozen=True)["warmup"]
        300
        >>> resolve("rdm", preset="paper", given={"weight": 3})["weight"]
        3.0
    """
    given = given or {}
    frozen = frozen or bool(given.get("model_options", {}).get("frozen"))
    values = _declared(RunConfig) | (_declared(method_class(method)) if method else {})
    values |= defaults(search_space(method, data), data)
    values = _overlay(values, on_data(method, data))
    values = _overlay(values, _preset(method, preset, data))
    if frozen:
        values |= {name: times(values[name], FROZEN[name]) for name in FROZEN if name in values}
    values = _overlay(values, _checked(method, given))
    if frozen:
        values["model_options"] = {**values["model_options"], "frozen": True}
    return values


def run_config(
    method: Method,
    data: str,
    test_domains: Iterable[str],
    *,
    preset: str | None = None,
    frozen: bool = False,
    given: Mapping[str, Any] | None = None,
) -> RunConfig:
    """Configuration of a run; arguments as of :func:`resolve`.

    A path is made absolute, so that the same run has the same id from any folder. Fields of the
    method declared with :func:`~riskmatch.space.later` are left out where they equal what their
    absence means.

    Raises:
        ValueError: a name is unknown, or a value has the wrong type or is out of range.

    Example:
        >>> config = run_config("rdm", "pacs", ["sketch"], given={"weight": 1.0})
        >>> config.model, config.hparams["weight"], config.hparams["warmup"]
        ('lite0', 1.0, 1500)
    """
    from riskmatch.data.images.index import normalised_name

    values = resolve(method, data, preset=preset, frozen=frozen, given=given)
    cls = method_class(method)
    hparams = {name: values.pop(name) for name in _fields(cls) if name in values}
    if missing := [name for name in _fields(cls) if name not in hparams]:
        raise ValueError(f"Give {missing[0]}: the method '{_name(method)}' has no default for it.")
    cls(**hparams)  # refuses values that the method checks itself
    for kind, name, options in (
        ("data", data, values["data_options"]),
        ("model", values["model"], values["model_options"]),
    ):
        if options:
            check_options(name, options, factory(kind, name))  # type: ignore[arg-type]
    return RunConfig(
        data=_absolute(data),
        test_domains=tuple(map(normalised_name, test_domains)),
        method=_name(method),
        hparams=without_later(cls, hparams),
        **values,
    )


def given_for(config: RunConfig) -> dict[str, Any]:
    """Values to give to :func:`run_config` so that it returns a run like ``config``.

    Example:
        >>> given_for(run_config("rdm", "pacs", ["sketch"], given={"weight": 1.0}))
        {'weight': 1.0}
    """
    frozen = bool(config.model_options.get("frozen"))
    usual = resolve(config.method, config.data, frozen=frozen, given={"model": config.model})
    usual["model"] = resolve(config.method, config.data)["model"]
    cls = method_class(config.method)
    own = config.to_json()
    hparams = _declared(cls) | with_later(cls, own.pop("hparams"))
    values = {**hparams, **{name: own[name] for name in own if name not in _ARGUMENTS}}
    different = {name: value for name, value in values.items() if value != usual.get(name)}
    for name in _OPTIONS:
        keys = {**values[name], **usual[name]}
        changed = {key for key in keys if values[name].get(key) != usual[name].get(key)}
        if name in different:
            different[name] = {key: values[name].get(key) for key in keys if key in changed}
    if frozen:
        different["model_options"] = {**different.get("model_options", {}), "frozen": True}
    return different


def search_space(
    method: Method | None,
    data: str | None = None,
    *,
    preset: str | None = None,
    frozen: bool = False,
) -> dict[str, Tuned]:
    """Defaults and ranges of everything that a sweep draws for a method, by name.

    Values set by the data set or the preset are not drawn.
    """
    if method is None:
        space = TRAINING
    else:
        cls = method_class(method)
        space = {**cls.training, **ranges(cls)}
    fixed = {**on_data(method, data), **_preset(method, preset, data)}
    factors = FROZEN if frozen else {}
    return {
        name: tuned.scaled(factors[name]) if name in factors else tuned
        for name, tuned in space.items()
        if name not in fixed
    }


def on_data(method: Method | None, data: str | None) -> dict[str, Any]:
    """Values of :data:`ON_DATA` for a method on a data set."""
    by_method = ON_DATA.get(_key(data), {})
    own = by_method.get(_name(method), {}) if method else {}
    return _overlay({**by_method.get(None, {})}, own)


def field_names(method: Method | None = None) -> list[str]:
    """Names of the fields that :func:`resolve` accepts in ``given``.

    Example:
        >>> set(field_names("groupdro")) - set(field_names())
        {'eta'}
    """
    run = [name for name in _fields(RunConfig) if name not in _ARGUMENTS]
    return [*(_fields(method_class(method)) if method else []), *run]


def method_class(method: Method) -> type[Objective]:
    """Class of the method of this name; a class is returned as it is.

    Raises:
        PartError: there is no such method, or it is not a dataclass derived from ``Objective``.
    """
    if not isinstance(method, str):
        return method
    part = registry.find("method", method)
    cls: type[Objective] = part.value
    if part.built_in:
        return cls
    from riskmatch.contract import Objective

    if not (isinstance(cls, type) and issubclass(cls, Objective)):
        raise PartError(
            f"The method '{method}' must be a frozen dataclass derived from "
            "riskmatch.contract.Objective."
        )
    if inspect.get_annotations(cls) and "__dataclass_fields__" not in vars(cls):
        raise PartError(f"The method '{method}' lacks @dataclass(frozen=True).")
    return cls


def factory(kind: Literal["data", "model"], name: str) -> Callable[..., Any]:
    """Function that makes a data set or network; its keyword-only parameters are the options.

    Example:
        >>> "widths" in inspect.signature(factory("model", "mlp")).parameters
        True
    """
    if kind == "data":
        from riskmatch.data import catalogue

        return catalogue.resolve(name).source.load
    from riskmatch.models import find_network

    network: Callable[..., Any] = find_network(name).value
    return network


def _checked(method: Method | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Given values, with integers as floats where the field is a float."""
    valid = field_names(method)
    for name in given:
        check_option(f"option of {_name(method)}" if method else "option", name, valid)
    types = type_hints(RunConfig)
    if method:
        own = type_hints(method_class(method))
        check_values(_name(method), {k: v for k, v in given.items() if k in own}, own)
        types = {**types, **own}
    # The id of a run is a hash of its JSON, in which 3 and 3.0 differ.
    return {
        name: float(value) if types.get(name) is float and type(value) is int else value
        for name, value in given.items()
    }


def _overlay(values: Mapping[str, Any], layer: Mapping[str, Any]) -> dict[str, Any]:
    """``values`` with those of ``layer`` over them."""
    below = dict(values)
    if "model" in layer and layer["model"] != below.get("model"):
        below["model_options"] = {}
    merged = {**below, **layer}
    for name in _OPTIONS:
        if name in below and name in layer:
            usual, own = below[name], layer[name]
            removed = {key for key in usual if key in own and own[key] is None}
            merged[name] = {k: v for k, v in {**usual, **own}.items() if k not in removed}
    return merged


def _preset(method: Method | None, preset: str | None, data: str | None) -> dict[str, Any]:
    if preset is None or method is None:
        return {}
    presets = PRESETS.get(_name(method), {})
    check_option(f"preset of {_name(method)}", preset, presets)
    return presets[preset].on(data)


def _name(method: Method) -> str:
    return method if isinstance(method, str) else f"{method.__module__}:{method.__qualname__}"


def _key(data: str | None) -> str:
    """Key of a data set in :data:`ON_DATA`."""
    if data is None or data in ON_DATA:
        return data or ""
    from riskmatch.data.catalogue import is_path

    return PATH if is_path(data) else data


def _absolute(data: str) -> str:
    """A path made absolute; a name as it is."""
    from riskmatch.data.catalogue import is_path

    if not is_path(data):
        return data
    path = Path(data)
    # A link to a manifest stays: paths in it are relative to the folder of the link.
    absolute = str(path.resolve() if path.is_dir() else path.parent.resolve() / path.name)
    try:
        absolute.encode()
    except UnicodeEncodeError:
        raise ValueError(f"The path {absolute!r} must be UTF-8. Rename it.") from None
    return absolute


def _fields(cls: type) -> list[str]:
    return [item.name for item in fields(cls) if item.init]


def _declared(cls: type) -> dict[str, Any]:
    """Defaults that a dataclass declares, without the method's table of a run."""
    values: dict[str, Any] = {}
    for item in fields(cls):
        if item.name == "hparams" or not item.init:
            continue
        if item.default is not MISSING:
            values[item.name] = item.default
        elif item.default_factory is not MISSING:
            values[item.name] = item.default_factory()
    return values


def recipe(
    method: str | None = None,
    data: str | None = None,
    preset: str | None = None,
    frozen: bool = False,
) -> dict[str, Any]:
    """Former name of :func:`resolve`."""
    return resolve(method, data, preset=preset, frozen=frozen)


def space_of(method: str | None, data: str | None = None, frozen: bool = False) -> dict[str, Tuned]:
    """Former name of :func:`search_space`."""
    return search_space(method, data, frozen=frozen)


def configure(
    method: str, data: str, test_domains: tuple[str, ...], values: Mapping[str, Any]
) -> RunConfig:
    """Former name of :func:`run_config`."""
    return run_config(method, data, test_domains, given=values)
