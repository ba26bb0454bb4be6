"""The source of the parts of a run that are not built in, as a part of the run's id."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from riskmatch import registry
from riskmatch.registry import INSTANCE, Kind, Part
from riskmatch.runs.config import RunConfig, join_sources
from riskmatch.trust import is_own


class SourceChangedError(ValueError):
    """A part is not the one that a run was planned or started with."""


def with_source(config: RunConfig) -> RunConfig:
    """``config`` with the source of its parts as they are now, see :mod:`riskmatch.source`.

    Parts that were passed as objects have their source in their fingerprint.

    Raises:
        PartError: a part cannot be imported, or was edited after Python had imported it.
    """
    origins = {
        kind: part.source or f"{part.distribution} {part.version}"
        for kind, part in _parts(config)
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


def _parts(config: RunConfig) -> Iterator[tuple[str, Part]]:
    """Parts of a run that are not built in by their names."""
    from riskmatch.data.catalogue import resolve

    named: list[tuple[Kind, str]] = [("method", config.method), ("model", config.model)]
    if isinstance(divergence := config.hparams.get("divergence"), str):
        named.append(("divergence", divergence))
    for kind, name in named:
        if is_own(name) or registry.announced(kind, name):
            yield kind, registry.find(kind, name)
    if not config.data.startswith(INSTANCE) and (part := resolve(config.data).part):
        yield "data", part
