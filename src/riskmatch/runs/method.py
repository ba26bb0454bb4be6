"""What is known about the method of a run without importing it.

The class of the method states it in its own file, see :class:`riskmatch.contract.Objective`. The
first line of a record and the headers of a plan repeat it, so that ids, selection and reports need
no class and are right for a method of the user's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from functools import cache, lru_cache
from typing import Any

import msgspec

from riskmatch import registry
from riskmatch.trust import is_own


@dataclass(frozen=True)
class MethodFacts:
    """What is known about a method."""

    name: str
    """Name of the method in the configuration."""
    title: str
    """Its name in tables."""
    plain: bool = False
    """Whether it is ERM at every step."""
    warmup: str = "warmup"
    """The hyper-parameter with the number of steps before the method acts, if it has one."""
    variants: Mapping[str, Any] = field(default_factory=dict)
    """Default of each field of which another value makes a method with a name of its own."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Titles of such methods, by these values."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Declared defaults of the hyper-parameters."""

    def to_json(self) -> dict[str, Any]:
        """The facts as plain JSON values."""
        return asdict(self)


@lru_cache(maxsize=1024)
def decode_facts(text: bytes) -> MethodFacts:
    """The facts from JSON; the same object for the same text.

    Raises:
        ValueError: a value is missing or wrong.
    """
    return msgspec.json.decode(text, type=MethodFacts)


def facts_of(method: str) -> MethodFacts:
    """The facts about a method, from its class; about one that is not imported, its name alone.

    Example:
        >>> facts = facts_of("rdm")
        >>> facts.title, dict(facts.variants), facts.defaults["weight"]
        ('RDM', {'match': 'worst', 'divergence': 'mmd'}, 5.0)
        >>> facts_of("SagNet").title
        'SagNet'
    """
    if method in registry.built_in("method"):
        return _built_in(method)
    if is_own(method) or registry.announced("method", method):
        try:
            return _facts(method, registry.find("method", method).value)
        except (registry.PartError, TypeError):  # or no dataclass
            pass
    return MethodFacts(method, part_title(method))


def part_title(name: str) -> str:
    """``Name`` of a part called ``package.module:Name``; other names unchanged.

    The class of an object that was passed to :func:`riskmatch.train`, too.

    Example:
        >>> part_title("my_methods:Robust"), part_title("instance:my_nets.Tiny"), part_title("mlp")
        ('Robust', 'Tiny', 'mlp')
    """
    prefix, space, part = name.rpartition(" ")  # as in "ERM-initialised my_nets:Tiny"
    if part.startswith(registry.INSTANCE):
        part = part.rpartition(".")[2]
    return prefix + space + (part.rpartition(":")[2] if is_own(part) else part)


def declared(cls: type) -> dict[str, Any]:
    """Defaults that a dataclass declares, as JSON values; fields without such a one are left out.

    Example:
        >>> from riskmatch.objectives import GroupDRO
        >>> declared(GroupDRO)
        {'eta': 0.01}
    """
    return {item.name: value for item in fields(cls) if (value := _default(item)) is not MISSING}


def _default(item: Field[Any]) -> Any:
    value = item.default
    if item.default_factory is not MISSING:
        value = item.default_factory()
    try:
        return MISSING if value is MISSING else json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):  # an object
        return MISSING


@cache
def _built_in(method: str) -> MethodFacts:
    return _facts(method, registry.built_in("method")[method])


def _facts(method: str, cls: type) -> MethodFacts:
    defaults, stated = declared(cls), vars(cls)  # a derived class is another method
    return MethodFacts(
        method,
        stated.get("title", part_title(method)),
        stated.get("plain", False),
        variants={name: defaults.get(name) for name in stated.get("variants", ())},
        titles=dict(stated.get("variant_titles", {})),
        defaults=defaults,
    )
