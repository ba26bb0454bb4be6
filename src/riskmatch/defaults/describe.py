"""Describe methods as plain values: text, citation, hyper-parameters, defaults, search ranges."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, fields
from importlib import resources
from typing import Any, get_args

from riskmatch import registry
from riskmatch.defaults.resolution import Setting, method_class, on_data
from riskmatch.defaults.values import ON_DATA, PRESETS
from riskmatch.registry import PartError
from riskmatch.runs.config import RunConfig
from riskmatch.space import Choice, Tuned, ranges
from riskmatch.validation import format_value

STEP_COSTS = "step_costs.json"
"""The cost of a step of every built-in method, as ``benchmarks/methods.py`` measured it."""


def describe_methods() -> list[dict[str, Any]]:
    """Description of every method, built in or announced by an installed package, by idea and name.

    A method that cannot be imported has the error under ``error`` in place of everything else.

    Example:
        >>> [method["name"] for method in describe_methods()][:3]
        ['eqrm', 'erm', 'erm-switch']
    """
    from riskmatch.contract.objective import Idea  # imports torch

    described = [_try_describe(name) for name in sorted(registry.names("method"))]
    ideas = [*get_args(Idea), None]  # None where a method cannot be imported
    return sorted(described, key=lambda method: ideas.index(method.get("idea")))


def describe_method(name: str) -> dict[str, Any]:
    """Description of a method as plain JSON values.

    Raises:
        PartError: there is no such method, or it cannot be imported.

    Example:
        >>> describe_method("groupdro")["hparams"]["eta"]["range"]
        '10^U(-3, -1)'
    """
    cls, part = method_class(name), registry.find("method", name)
    by_data = {data: on_data(name, data) for data in ON_DATA}

    def entry(key: str, tuned: Tuned | None, default: Any, docs: Mapping[str, str]) -> Any:
        differs = {
            data: {"default": there.default, "range": range_of(there) or None}
            for data, there in (tuned.by_data if tuned else {}).items()
        } | {
            data: {"default": values[key], "range": None}
            for data, values in by_data.items()
            if key in values
        }
        return {
            "default": None if default is MISSING else default,
            "range": range_of(tuned) if tuned else None,
            "help": docs.get(key, ""),
            "by_data": differs,
        }

    space, own_docs, run_docs = ranges(cls), field_docs(cls), field_docs(RunConfig)
    return {
        "name": name,
        "package": "riskmatch" if part.built_in else part.distribution,
        "title": cls.title or cls.__name__,
        "idea": cls.idea,
        "text": inspect.cleandoc(cls.__doc__ or ""),
        "needs": cls.needs,
        "citation": getattr(cls, "citation", ""),
        "step_cost": step_cost(name),
        "hparams": {
            field.name: entry(field.name, space.get(field.name), field.default, own_docs)
            for field in fields(cls)
        },
        "training": {
            key: entry(key, tuned, tuned.default, run_docs) for key, tuned in cls.training.items()
        },
        "presets": {
            key: {
                "summary": preset.summary,
                "choices": _plain(preset.on(name, None)),
                "by_data": {d: _plain(preset.differences(name, d)) for d in preset.by_data},
            }
            for key, preset in PRESETS.items()
        },
    }


def step_cost(method: str) -> dict[str, Any] | None:
    """The time of a step of a built-in method relative to ERM's; None where it is not measured.

    Example:
        >>> step_cost("erm")["value"]
        1.0
    """
    text = resources.files("riskmatch.defaults").joinpath(STEP_COSTS).read_text("utf-8")
    record = json.loads(text)
    value = record["relative_to_erm"].get(method)
    return None if value is None else {"value": value, "measured_on": record["measured_on"]}


def setting_lines(settings: Mapping[str, Setting]) -> list[str]:
    """A line per field of a run with its value and where that comes from.

    Example:
        >>> from riskmatch.defaults import resolve
        >>> setting_lines(resolve("rdm", "pacs", frozen=True))[1]
        "lr 0.001: frozen features, 20 × rdm's 5e-5"
    """
    return [
        f"{name} {format_value(value)}: {source}"
        for name, (value, source) in settings.items()
        if value != {}
    ]


def range_of(tuned: Tuned) -> str:
    """Search range in words; empty where it is a single value.

    Example:
        >>> from riskmatch.space import Uniform
        >>> range_of(Tuned(5, Uniform(1, 10))), range_of(Tuned("mmd", Choice(("mmd",))))
        ('U(1, 10)', '')
    """
    single = isinstance(tuned.range, Choice) and len(tuned.range.options) == 1
    return "" if single else str(tuned.range)


def field_docs(cls: type) -> dict[str, str]:
    """Docstrings under the fields of a class, on one line each; empty where the source is missing.

    Example:
        >>> field_docs(RunConfig)["lr"]
        'Learning rate.'
    """
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        try:
            body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        except (OSError, TypeError):
            continue
        assert isinstance(body, ast.ClassDef)
        for statement, following in zip(body.body, body.body[1:], strict=False):
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                text = following.value if isinstance(following, ast.Expr) else None
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    docs[statement.target.id] = " ".join(text.value.replace("``", "").split())
    return docs


def _plain(choices: Mapping[str, Any]) -> dict[str, Any]:
    """Choices of a preset, with default and range where a sweep draws them."""
    return {
        name: {"default": value.default, "range": range_of(value)}
        if isinstance(value, Tuned)
        else value
        for name, value in choices.items()
    }


def _try_describe(name: str) -> dict[str, Any]:
    try:
        return describe_method(name)
    except PartError as error:
        return {"name": name, "error": str(error)}


def without_markup(text: str) -> str:
    """Text without the markup of reStructuredText.

    Example:
        >>> without_markup("see :func:`~riskmatch.data.load` and ``size``")
        'see load and size'
    """
    text = re.sub(r":\w+:`~(?:\w+\.)*(\w+)`", r"\1", text)
    return re.sub(r":\w+:`([^`]*)`", r"\1", text).replace("``", "")


def argument_docs(function: Any) -> dict[str, str]:
    """Texts of the section ``Args:`` of a docstring, by parameter."""
    function = getattr(function, "func", function)
    doc = inspect.getdoc(function) or ""
    if isinstance(function, type) and "Args:" not in doc:
        doc = inspect.getdoc(function.__init__) or ""  # type: ignore[misc]
    section = re.search(r"^Args:\n((?:[ ]+.*\n?|\n)*)", doc, re.MULTILINE)
    if section is None:
        return {}
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", section[1], re.MULTILINE)
    return {name: without_markup(" ".join(text.split())) for name, text in entries}
