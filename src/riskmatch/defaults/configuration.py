"""Configure runs: from names and resolved values, with the source of the user's own parts."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from riskmatch import registry
from riskmatch.defaults.resolution import (
    ARGUMENTS,
    OPTIONS,
    fields_of,
    method_class,
    name_of,
    resolve,
    values_of,
)
from riskmatch.defaults.values import FEATURES, TABLE, data_key
from riskmatch.files import read_file
from riskmatch.registry import INSTANCE, Kind, Part
from riskmatch.runs.config import RunConfig, join_sources
from riskmatch.runs.domainbed_hparams import translate
from riskmatch.runs.findings import RunWarning
from riskmatch.trust import is_own, may_import
from riskmatch.validation import check_options, shown

if TYPE_CHECKING:
    from riskmatch.defaults.resolution import Method


class SourceChangedError(ValueError):
    """A part is not the one that a run was planned or started with."""


def run_config(
    method: Method,
    data: str,
    test_domains: Iterable[str],
    *,
    preset: str | None = None,
    frozen: bool = False,
    single: bool = False,
    given: Mapping[str, Any] | None = None,
) -> RunConfig:
    """Configuration of a run; arguments as of :func:`resolve`.

    A path is made absolute, so that the same run has the same id from any folder.

    Raises:
        ValueError: a name is unknown, or a value has the wrong type or is out of range.

    Example:
        >>> config = run_config("rdm", "pacs", ["sketch"], given={"weight": 1.0})
        >>> config.model, config.hparams["weight"], config.hparams["warmup"]
        ('lite0', 1.0, 1500)
    """
    from riskmatch.data.catalogue import check_table_options, is_path
    from riskmatch.data.images.index import normalised_name

    values = values_of(
        resolve(method, data, preset=preset, frozen=frozen, single=single, given=given)
    )
    if values["model_options"].get("frozen") and data_key(data) in (FEATURES, TABLE):
        contents = "features already" if data_key(data) == FEATURES else "a table, not images"
        raise ValueError(f"{data} holds {contents}; leave out frozen.")
    cls = method_class(method)
    hparams = {name: values.pop(name) for name in fields_of(cls) if name in values}
    if missing := [name for name in fields_of(cls) if name not in hparams]:
        raise ValueError(f"Give {missing[0]}: {name_of(method)} has no default for it.")
    cls(**hparams)  # refuses values that the method checks itself
    for kind, name, options in (
        ("data", data, values["data_options"]),
        ("model", values["model"], values["model_options"]),
    ):
        if options:
            try:
                make = factory(kind, name)  # type: ignore[arg-type]
                if kind == "data":
                    check_table_options(name, options)
                elif options.get("frozen") and "frozen" not in inspect.signature(make).parameters:
                    raise ValueError(
                        f"frozen needs a backbone, such as lite0, and the network is {name}."
                    )
                check_options(name, options, make)
            except ValueError:
                if not data.startswith(INSTANCE):
                    factory("data", data)  # a misspelt name has the defaults of no data set
                if is_path(data) and not Path(data).exists():
                    raise FileNotFoundError(f"There is no {data}.") from None
                raise
    return with_source(
        RunConfig(
            data=_absolute(data),
            test_domains=tuple(map(normalised_name, test_domains)),
            method=name_of(method),
            hparams=hparams,
            **values,
        )
    )


def domainbed_options(method: Method, hparams: Mapping[str, Any] | Path | str) -> dict[str, Any]:
    """Options of :func:`riskmatch.train` from DomainBed's hyper-parameters of a method.

    Those without such an option are listed in a warning, with the reason.

    Args:
        method: name or class of the method.
        hparams: values by DomainBed's names, or a JSON file of them.

    Raises:
        ValueError: the file is not a JSON object.

    Example:
        >>> domainbed_options("vrex", {"vrex_lambda": 3.0, "resnet_dropout": 0.1})
        {'weight': 3.0, 'dropout': 0.1}
    """
    place = ""
    if isinstance(hparams, str | Path):
        place = f"{hparams}: "
        try:
            hparams = json.loads(read_file(Path(hparams)))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{place}not JSON ({error}).") from error
    if not isinstance(hparams, Mapping):
        cure = '{"lr": 5e-05, …}, as DomainBed logs them'
        raise ValueError(f"{place}give hyper-parameters by name, {cure}, got {shown(hparams)}.")
    options, left_out = translate(method_class(method), hparams)
    names_by_reason: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        names_by_reason.setdefault(reason, []).append(name)
    if left_out:
        parts = [f"{', '.join(names)} ({reason})" for reason, names in names_by_reason.items()]
        message = f"{place}no options of {name_of(method)}: {'; '.join(parts)}."
        warnings.warn(message, RunWarning, stacklevel=2)
    return options


def given_for(config: RunConfig) -> dict[str, Any]:
    """Values to give to :func:`run_config` so that it returns a run like ``config``.

    Every value is given where the method may not be imported, see :mod:`riskmatch.trust`.

    Example:
        >>> given_for(run_config("rdm", "pacs", ["sketch"], given={"weight": 1.0}))
        {'weight': 1.0}
    """
    frozen = bool(config.model_options.get("frozen"))
    stored = config.to_json()
    hparams = {**config.about.defaults, **stored.pop("hparams")}
    usual: dict[str, Any] = {name: {} for name in OPTIONS}
    if not is_own(config.method) or may_import(config.method):
        network = {"model": config.model}
        usual = values_of(resolve(config.method, config.data, frozen=frozen, given=network))
        usual["model"] = resolve(config.method, config.data)["model"].value
    values = {**hparams, **{name: stored[name] for name in stored if name not in ARGUMENTS}}
    usual = {k: list(v) if isinstance(v, tuple) else v for k, v in usual.items()}
    different = {name: value for name, value in values.items() if value != usual.get(name)}
    for name in OPTIONS:
        if name in different:
            mine, theirs = values[name], usual[name]
            keys = (key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key))
            different[name] = {key: mine.get(key) for key in keys}
    if frozen:
        different["model_options"] = {**different.get("model_options", {}), "frozen": True}
    return different


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


def with_source(config: RunConfig) -> RunConfig:
    """``config`` with the source of its parts as they are now, see :mod:`riskmatch.source`.

    Parts that were passed as objects have their source in their fingerprint.

    Raises:
        PartError: a part cannot be imported, or was edited after Python had imported it.
    """
    origins = {
        kind: part.source or f"{part.distribution} {part.version}"
        for kind, part in user_parts(config)
        if part.source or part.distribution  # neither for parts of riskmatch and of Python
    }
    return replace(config, source=join_sources(origins))


def check_source(config: RunConfig) -> None:
    """Raise unless the parts of a run have the source that its configuration states.

    Raises:
        SourceChangedError: a part was edited, or installed in another version.
    """
    if changes := source_changes(config, with_source(config)):
        raise SourceChangedError(
            f"The source or version of {changes} is not the one that this run was planned with. "
            "Plan it again (riskmatch.defaults.with_source); its id changes with the source."
        )


def source_changes(before: RunConfig, now: RunConfig) -> str:
    """Name the parts of a run whose source differs; empty without any.

    Example:
        >>> run = RunConfig("pacs", ("photo",), "mine:Spread", source="method 0a1b")
        >>> source_changes(run, replace(run, source="method 2c3d"))
        'the method mine:Spread'
    """
    kinds = [k for k, v in now.sources.items() if before.sources.get(k) != v]
    kinds += [k for k in before.sources if k not in now.sources]
    names = {kind: getattr(now, kind, "") for kind in kinds}
    return " and ".join(f"the {kind} {name}".rstrip() for kind, name in names.items())


def user_parts(config: RunConfig) -> Iterator[tuple[str, Part]]:
    """Parts of a run that are not built in by their names, by kind, where they are named."""
    from riskmatch.data.catalogue import resolve

    named: list[tuple[Kind, str]] = [("method", config.method), ("model", config.model)]
    if isinstance(divergence := config.hparams.get("divergence"), str):
        named.append(("divergence", divergence))
    if config.task != "auto":
        named.append(("task", config.task))
    named += (("metric", name) for name in config.metric_names)
    for kind, name in named:
        if is_own(name) or registry.announced(kind, name):
            yield f"{kind}:{name}" if kind == "metric" else kind, registry.find(kind, name)
        elif kind in ("task", "metric"):
            registry.find(kind, name)  # refuses unknown names before any data are read
    if not config.data.startswith(INSTANCE) and (part := resolve(config.data).part):
        yield "data", part
