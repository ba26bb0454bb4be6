"""Resolve the value of every field of a run."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from riskmatch import registry
from riskmatch.defaults.values import (
    FACTORS,
    FEATURES,
    FROZEN,
    ON_DATA,
    ON_EVERY,
    PATIENCE,
    PRESETS,
    TITLES,
    choices_for,
    data_key,
)
from riskmatch.registry import PartError
from riskmatch.runs.config import RunConfig
from riskmatch.space import TRAINING, Tuned, defaults, ranges, times
from riskmatch.validation import (
    check_option,
    check_values,
    format_value,
    plain,
    shown,
    type_hints,
)

if TYPE_CHECKING:
    from riskmatch.contract import Objective

    Method = str | type[Objective]
    """The name of a method, or its class."""

OPTIONS = ("data_options", "model_options")
"""Fields of a run that are merged key by key."""
ARGUMENTS = ("data", "test_domains", "method", "hparams", "source")
"""Fields of a run that :func:`run_config` takes as arguments or derives."""


class Setting(NamedTuple):
    """Value of a field of a run, and where it comes from."""

    value: Any
    source: str


def resolve(
    method: Method | None = None,
    data: str | None = None,
    *,
    preset: str | None = None,
    frozen: bool = False,
    single: bool = False,
    given: Mapping[str, Any] | None = None,
) -> dict[str, Setting]:
    """Value and source of every field of a run and of its method, by name; reads no data.

    Args:
        method: name or class of the method; None resolves the fields of the run alone.
        data: name or path of the data set.
        preset: name of a preset (:data:`~riskmatch.defaults.values.PRESETS`).
        frozen: train the head alone on features of a frozen backbone; also set by
            ``given["model_options"]["frozen"]``.
        single: the run is not one of a sweep, whose runs have equal steps: unless ``steps`` or
            ``patience`` are given, a head alone stops when the validation risk is flat.
        given: values that win over every default. In ``data_options`` and ``model_options``, None
            removes a default.

    Raises:
        ValueError: a name is unknown, or a value of the method has the wrong type.

    Example:
        >>> resolve("rdm", "domainnet")["warmup"]
        Setting(value=2400, source="rdm's default on domainnet")
        >>> resolve("rdm", "pacs", frozen=True)["lr"]
        Setting(value=0.001, source="frozen features, 20 × rdm's 5e-5")
        >>> resolve("rdm", preset="paper", given={"weight": 3})["weight"]
        Setting(value=3.0, source='given')
    """
    given = given or {}
    check_mappings(given)
    frozen = frozen or bool(given.get("model_options", {}).get("frozen"))
    settings: dict[str, Setting] = {}
    for source, layer in _layers(method, data, preset):
        settings = _overlay(settings, layer, source)
    key = data_key(data)
    cause = "frozen features" if frozen else TITLES.get(key, "")
    for name, factor in _factors(data, frozen).items():
        if name in settings:
            value, source = settings[name]
            origin = source.replace("default", format_value(value), 1)
            scaled = f"{cause}, {factor:g} × {origin}"
            settings[name] = Setting(times(value, factor), scaled)
    if single and (frozen or key == FEATURES) and not given.keys() & {"steps", "patience"}:
        settings["patience"] = Setting(PATIENCE, f"a single run on {cause}")
    settings = _overlay(settings, _checked(method, given), "given")
    if frozen:
        settings = _overlay(settings, {"model_options": {"frozen": True}}, "given")
    return settings


def _layers(
    method: Method | None, data: str | None, preset: str | None
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Defaults with their source; later ones win."""
    key = data_key(data)
    default = f"{name_of(method)}'s default" if method else "default"
    yield "default", _declared(RunConfig)
    yield default, _declared(method_class(method)) if method else {}
    space, place = _space(method, data), f" on {TITLES.get(key, key)}"
    yield default, defaults(space)
    yield default + place, defaults({n: t for n, t in space.items() if data in t.by_data}, data)
    yield default, ON_EVERY.get(name_of(method), {}) if method else {}
    yield "default" + place, ON_DATA.get(key, {}).get(None, {})
    yield default + place, ON_DATA.get(key, {}).get(name_of(method), {}) if method else {}
    choices = _preset(method, preset, data)
    yield (
        f"default of preset {preset}",
        {
            name: value.on(data).default if isinstance(value, Tuned) else value
            for name, value in choices.items()
        },
    )


def values_of(settings: Mapping[str, Setting]) -> dict[str, Any]:
    """The values of settings, without their sources."""
    return {name: setting.value for name, setting in settings.items()}


def check_mappings(given: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` unless the options of data set and network, where given, are mappings.

    Example:
        >>> check_mappings({"model_options": 5})
        Traceback (most recent call last):
        ValueError: model_options must map names to values, as {'name': value} does, got 5.
    """
    for name in OPTIONS:
        if not isinstance(options := given.get(name, {}), Mapping):
            raise ValueError(
                f"{name} must map names to values, as {{'name': value}} does, got {shown(options)}."
            )


def search_space(
    method: Method | None,
    data: str | None = None,
    *,
    preset: str | None = None,
    frozen: bool = False,
) -> dict[str, Tuned]:
    """Defaults and ranges of everything that a sweep draws for a method, by name.

    Values set by the data set or the preset are not drawn; ranges of the preset replace others.
    """
    factors = _factors(data, frozen)
    return {
        name: tuned.scaled(factors[name]) if name in factors else tuned
        for name, tuned in _space(method, data, preset).items()
    }


def _factors(data: str | None, frozen: bool) -> Mapping[str, float]:
    """Factors of defaults and ranges for these data."""
    return FROZEN if frozen else FACTORS.get(data_key(data), {})


def _space(method: Method | None, data: str | None, preset: str | None = None) -> dict[str, Tuned]:
    """Defaults and ranges for the network as a whole, by name."""
    space: dict[str, Any] = dict(TRAINING)
    if method is not None:
        cls = method_class(method)
        space = {**cls.training, **ranges(cls)}
    space = {**space, **on_data(method, data), **_preset(method, preset, data)}
    return {name: tuned for name, tuned in space.items() if isinstance(tuned, Tuned)}


def on_data(method: Method | None, data: str | None) -> dict[str, Any]:
    """Values of :data:`ON_DATA` for a method on a data set."""
    return choices_for(name_of(method) if method else None, ON_DATA.get(data_key(data), {}))


def field_names(method: Method | None = None) -> list[str]:
    """Names of the fields that :func:`resolve` accepts in ``given``.

    Example:
        >>> set(field_names("groupdro")) - set(field_names())
        {'eta'}
    """
    run = [name for name in fields_of(RunConfig) if name not in ARGUMENTS]
    return [*(fields_of(method_class(method)) if method else []), *run]


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


def _checked(method: Method | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Given values as Python values, with integers as floats where the field is a float."""
    given = {name: plain(value) for name, value in given.items()}
    valid = field_names(method)
    for name in given:
        check_option(f"option of {name_of(method)}" if method else "option", name, valid)
    types = type_hints(RunConfig)
    if method:
        cls = method_class(method)
        types = {**types, **type_hints(cls)}
        values = {name: given[name] for name in fields_of(cls) if name in given}
        check_values(name_of(method), values, types)
        for name, value in values.items():
            try:
                json.dumps(value)
            except TypeError:
                raise ValueError(
                    f"{name} must be a plain value, with which the run is stored, got {value!r}. "
                    f"Pass an object as method={cls.__name__}({name}=…), or name its class, as in "
                    f"{name}='package.module:Name'."
                ) from None
    # The id of a run is a hash of its JSON, in which 3 and 3.0 differ.
    return {
        name: float(value) if types.get(name) is float and type(value) is int else value
        for name, value in given.items()
    }


def _overlay(
    settings: Mapping[str, Setting], layer: Mapping[str, Any], source: str
) -> dict[str, Setting]:
    """``settings`` with the values of ``layer`` over them."""
    merged = dict(settings)
    if "model" in merged and layer.get("model", merged["model"].value) != merged["model"].value:
        merged["model_options"] = Setting({}, source)
    for name, value in layer.items():
        if name not in OPTIONS or name not in merged:
            merged[name] = Setting(value, source)
        elif value:
            usual, before = merged[name]
            removed = {key for key in usual if key in value and value[key] is None}
            options = {k: v for k, v in {**usual, **value}.items() if k not in removed}
            both = options and usual and before != source
            merged[name] = Setting(options, f"{before}; {source}" if both else source)
    return merged


def _preset(method: Method | None, preset: str | None, data: str | None) -> dict[str, Any]:
    if preset is None:
        return {}
    check_option("preset", preset, PRESETS)
    choices = PRESETS[preset].on(name_of(method) if method else None, data)
    if not PRESETS[preset].declared or method is None:
        return choices
    cls = method_class(method)
    return {**_declared(cls), **ranges(cls), **choices}


def name_of(method: Method) -> str:
    """Name of a method, also if it is given as a class."""
    return method if isinstance(method, str) else f"{method.__module__}:{method.__qualname__}"


def fields_of(cls: type) -> list[str]:
    """Names of the fields of a dataclass that its constructor takes."""
    return [item.name for item in fields(cls) if item.init]


def _declared(cls: type) -> dict[str, Any]:
    """Defaults that a dataclass declares, without fields of a run that are derived."""
    values: dict[str, Any] = {}
    for item in fields(cls):
        if item.name in ("hparams", "source") or not item.init:
            continue
        if item.default is not MISSING:
            values[item.name] = item.default
        elif item.default_factory is not MISSING:
            values[item.name] = item.default_factory()
    return values
