"""What is known about the method of a run without importing it.

The class of the method states it in its own file, see :class:`riskmatch.contract.Objective`. The
first line of a record and the headers of a plan repeat it, so that ids, selection and reports need
no class and are right for a method of the user's own. Of built-in methods without a run, reports
read the literals of the file.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, replace
from functools import cache, lru_cache
from pathlib import Path
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
        >>> facts_of("Sideways").title
        'Sideways'
    """
    if method in registry.built_in("method"):
        return _built_in(method)
    if is_own(method) or registry.announced("method", method):
        try:
            cls = registry.find("method", method).value
            return _facts(method, vars(cls), declared(cls))
        except (registry.PartError, TypeError):  # or no dataclass
            pass
    return MethodFacts(method, part_title(method))


_OBJECTIVES = Path(__file__).parents[1] / "objectives"
"""The files of the built-in methods, which import torch."""


@cache
def stated(method: str) -> dict[str, Any]:
    """The literals in the class of a built-in method by name, without importing it; else empty.

    ``domainbed_fields`` are the names that ``tuned(…, domainbed=NAME)`` gives to fields.

    Example:
        >>> stated("causirl")["variant_titles"], stated("causirl")["distance"], stated("Sideways")
        ({'mmd': 'CausIRL (MMD)'}, 'coral', {})
    """
    path, values = _OBJECTIVES / f"{method.replace('-', '_')}.py", dict[str, Any]()
    for cls in ast.parse(path.read_text("utf-8")).body if method in built_in_names() else ():
        for node in cls.body if isinstance(cls, ast.ClassDef) else ():
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                (target,) = node.targets if isinstance(node, ast.Assign) else (node.target,)
                with suppress(ValueError):  # of a value that is computed
                    values[ast.unparse(target)] = ast.literal_eval(node.value)
                names = {entry.arg: entry.value for entry in getattr(node.value, "keywords", ())}
                if "domainbed" in names:
                    by_field = values.setdefault("domainbed_fields", {})
                    by_field[ast.unparse(target)] = ast.literal_eval(names["domainbed"])
    return values


@cache
def built_in_names() -> list[str]:
    """Names of the files in which built-in methods are defined, with hyphens for underscores."""
    return [path.stem.replace("_", "-") for path in sorted(_OBJECTIVES.glob("[!_]*.py"))]


def stated_facts(method: str) -> MethodFacts:
    """The facts about a method but for defaults, from :func:`stated`; of others the name alone.

    Example:
        >>> stated_facts("rdm").title, stated_facts("Sideways").title
        ('RDM', 'Sideways')
    """
    return replace(_facts(method, stated(method), stated(method)), defaults={})


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
    cls = registry.built_in("method")[method]
    return _facts(method, vars(cls), declared(cls))


def _facts(method: str, stated: Mapping[str, Any], defaults: Mapping[str, Any]) -> MethodFacts:
    """The facts, from what a class itself states: a derived class is another method."""
    return MethodFacts(
        method,
        stated.get("title", part_title(method)),
        stated.get("plain", False),
        variants={name: defaults.get(name) for name in stated.get("variants", ())},
        titles=dict(stated.get("variant_titles", {})),
        defaults=defaults,
    )
