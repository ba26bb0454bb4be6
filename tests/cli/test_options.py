from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import pytest

from riskmatch.cli.errors import BadInput, Ended
from riskmatch.cli.options import Positional, options_of
from riskmatch.cli.parser import Command, Parser
from riskmatch.cli.train_options import Setup, _parser
from riskmatch.objectives import methods


@dataclass
class Base:
    size: int = 3
    """How ``large``."""


@dataclass
class Something(Base, Command):
    """Does something."""

    execute = None
    name: Positional[str | None] = None
    """Name of something."""
    rate: float = 0.5
    """How fast,
    per step."""
    limit: float | None = None
    mode: Literal["a", "b"] = "a"
    on: bool = True
    quiet: bool = False
    names: tuple[str, ...] = ()
    extras: Mapping[str, Any] = None


@dataclass
class Copy(Command):
    execute = None
    source: Positional[str]
    """What to copy."""
    target: Positional[str]
    """Where to."""


@pytest.fixture
def parser():
    size, *others = options_of(Something)
    parser = Parser("riskmatch test", "Does something.", [size])
    parser.add("other", [replace(option, negatable=option.name == "on") for option in others])
    return parser


def test_every_type_of_field_is_parsed(parser):
    words = "--size=7 this --rate -2 --limit none --mode b --no-on --quiet --name x --name y"
    given = parser.parse([*words.split(), "--extra", "w=[1, 2]", "--extra=v=text"])
    assert given == {
        "name": "this",
        "size": 7,
        "rate": -2.0,
        "limit": None,
        "mode": "b",
        "on": False,
        "quiet": True,
        "names": ("x", "y"),
        "extras": {"w": [1, 2], "v": "text"},
    }


def test_options_not_given_are_absent(parser):
    assert parser.parse([]) == {}


def test_last_value_wins(parser):
    assert parser.parse(["--size", "1", "--on", "--no-on", "--size=2"]) == {"size": 2, "on": False}


def test_words_after_two_dashes_are_positional(parser):
    assert parser.parse(["--size", "1", "--", "--size"]) == {"size": 1, "name": "--size"}


def test_parse_known_ignores_other_words():
    parse_known = Parser("riskmatch test", "", options_of(Base), help=False).parse_known
    assert parse_known(["this", "--rate", "x", "--size", "7", "--help"]) == {"size": 7}


def test_dataclass_as_a_command():
    assert Something.parse("test", ["a", "--rate", "2"]) == Something(3, "a", 2.0)
    assert Copy.parse("copy", ["here", "there"]) == Copy("here", "there")
    with pytest.raises(BadInput, match=r"^riskmatch copy needs TARGET: Where to\.$"):
        Copy.parse("copy", ["here"])
    with pytest.raises(BadInput, match=r"^riskmatch copy takes SOURCE TARGET, got a b c\. See"):
        Copy.parse("copy", ["a", "b", "c"])


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_docstrings_are_the_help(parser, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(Ended):
        parser.parse(["--help"])
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "\x1b" not in shown.out  # no colours where nobody looks
    assert max(map(len, shown.out.splitlines())) <= int(columns)
    text = " ".join(shown.out.replace("│", "").split())
    for part in ("How large (default 3)", "How fast, per step (default 0.5)", "--on, --no-on"):
        assert part in text
    assert "--no-quiet" not in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--sise 3", "Unknown option '--sise'. Did you mean '--size'?"),
        ("-size 3", "Unknown option '-size'. Did you mean '--size'?"),
        ("--siz=3", "Unknown option '--siz'. Did you mean '--size'?"),  # no abbreviations
        ("--no-quiet", "Unknown option '--no-quiet'. Did you mean '--quiet'?"),
        ("--quiet=3", "--quiet takes no value. See riskmatch test --help."),
        ("--size x", "--size must be an integer, got 'x'. See riskmatch test --help."),
        ("--rate x", "--rate must be a number, got 'x'. See riskmatch test --help."),
        ("--limit x", "--limit must be a number, got 'x'. See riskmatch test --help."),
        ("--rate", "--rate needs a value. See riskmatch test --help."),
        ("--rate --on", "--rate needs a value. See riskmatch test --help."),
        ("--extra x", "--extra must be KEY=VALUE, got 'x'. See riskmatch test --help."),
        ("a b", "riskmatch test takes NAME, got a b. See riskmatch test --help."),
    ],
)
@pytest.mark.parametrize("columns", ["30", "100"])
def test_errors_are_one_line(parser, monkeypatch, words, message, columns):
    monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(BadInput) as caught:
        parser.parse(words.split())
    assert str(caught.value) == message


@pytest.mark.parametrize("method", sorted(methods()))
def test_fields_of_methods_differ_from_options_of_runs(method):
    flags = {option.label for option in _parser(Setup(method)).options}
    for field in fields(methods()[method]):
        assert "--" + field.name.replace("_", "-") in flags


def test_two_options_of_one_name_are_rejected(parser):
    with pytest.raises(ValueError, match="riskmatch test has two options --size"):
        parser.add("more", options_of(Base))


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        ("--lr inf", "--lr must be finite, got 'inf'"),
        ("--lr-after nan", "--lr-after must be finite"),
        ("--warmup -5", "warmup of RDM must be at least 0, got -5"),
        ("--data-option samples=Infinity", "samples of colored-digits must be finite"),
    ],
)
def test_numbers_without_meaning_are_refused(riskmatch, words, fact):
    result = riskmatch(
        *["train", "colored-digits", "--method", "rdm", "--test-domain", "0.1"], *words.split()
    )
    assert (result.code, result.out) == (2, "")
    assert fact in result.err


@pytest.mark.parametrize(
    ("line", "fact"), [("lr = [1, 2]", "--lr takes one value"), ("lr = inf", "--lr must be finite")]
)
def test_toml_file_gives_one_finite_number(riskmatch, tmp_path, line, fact):
    (tmp_path / "c.toml").write_text(f'method = "erm"\ntest-domain = ["0.1"]\n{line}\n')
    result = riskmatch("train", "colored-digits", "--config", "c.toml")
    assert result.code == 2
    assert fact in result.err
