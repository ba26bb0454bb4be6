from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import pytest

from riskmatch.cli.errors import BadInput
from riskmatch.cli.options import options_of
from riskmatch.cli.parser import Parser
from riskmatch.cli.request import _parser
from riskmatch.objectives import methods


@dataclass
class Base:
    size: int = 3
    """How ``large``."""


@dataclass
class Things(Base):
    rate: float = 0.5
    """How fast,
    per step."""
    limit: float | None = None
    kind: Literal["a", "b"] = "a"
    on: bool = True
    names: tuple[str, ...] = ()
    extras: Mapping[str, Any] = None


@pytest.fixture
def parser():
    parser = Parser("test", "", "")
    parser.add("all", options_of(Things, {"on": True, "rate": 0.5}, {}))
    return parser


def test_every_kind_of_field_is_read(parser):
    words = "--size=7 thing --rate -2 --limit none --kind b --no-on --name x --name y"
    things, given = parser.parse([*words.split(), "--extra", "w=[1, 2]", "--extra", "v=text"])
    assert things == ["thing"]
    assert given == {
        "size": 7,
        "rate": -2.0,
        "limit": None,
        "kind": "b",
        "on": False,
        "names": ("x", "y"),
        "extras": {"w": [1, 2], "v": "text"},
    }


def test_what_is_not_given_is_absent(parser):
    assert parser.parse([]) == ([], {})


def test_docstrings_are_the_help_inherited_ones_too(parser):
    text = parser.format_help()
    assert "How large" in text
    assert "How fast, per step (default 0.5)" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--sise 3", "Unknown option '--sise'. Did you mean '--size'?"),
        ("-size 3", "Unknown option '-size'. Did you mean '--size'?"),
        ("--siz=3", "Unknown option '--siz'. Did you mean '--size'?"),  # no abbreviations
        ("--size x", "--size: 'x' is not a whole number. See riskmatch test --help."),
        ("--rate x", "--rate: 'x' is not a number. See riskmatch test --help."),
        ("--rate", "--rate: expected one argument. See riskmatch test --help."),
        ("--extra x", "--extra: 'x' is not of the form KEY=VALUE. See riskmatch test --help."),
    ],
)
def test_mistakes_are_named_in_one_line(parser, words, message):
    with pytest.raises(BadInput) as caught:
        parser.parse(words.split())
    assert str(caught.value) == message


@pytest.mark.parametrize("method", sorted(methods()))
def test_no_field_of_a_method_collides_with_an_option_of_the_run(method):
    text = _parser(method).format_help()
    for field in fields(methods()[method]):
        assert "--" + field.name.replace("_", "-") in text


def test_two_options_of_one_name_are_refused(parser):
    with pytest.raises(ValueError, match="Two options of riskmatch test are called --size"):
        parser.add("more", options_of(Base, {}, {}))
