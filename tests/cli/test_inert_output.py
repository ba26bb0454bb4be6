"""Names with control characters reach no terminal as they are, and no spreadsheet as formulas."""

import io
import json
from pathlib import Path

import pytest
from made_records import evaluation, run
from tiny import train

from riskmatch.cli.app import inert_output
from riskmatch.data.images.index import normalised_name
from riskmatch.report.tables import Table
from riskmatch.runs import records

EVIL = "evil\x1b]0;title\x07\x9b2J\u202e"


def unsafe(text):
    return [c for c in text if not c.isprintable() and c != "\n"]


@pytest.fixture
def hostile(tmp_path):
    """A folder of runs of another origin, whose domains, method and error hold terminal codes."""
    domains = {f"{EVIL}{letter}": (50.0, 50.0) for letter in "ab"}
    made = run("x", evaluation(10, **domains), method=EVIL, status="failed")
    config = made.config
    object.__setattr__(config, "test_domains", (f"{EVIL}a",))
    records.write(tmp_path / "runs" / config.id, made)
    return tmp_path / "runs"


@pytest.mark.parametrize("command", ["show", "sweep table"])
def test_names_in_records_are_escaped(riskmatch, hostile, command):
    result = riskmatch(*command.split(), str(hostile))
    assert "evil" in result.out
    assert unsafe(result.out + result.err) == []


def test_names_in_errors_are_escaped_and_json_stays_valid(riskmatch):
    result = riskmatch("train", EVIL, "--method", "erm", "--test-domain", "a")
    assert result.code == 2
    assert unsafe(result.err) == []
    done = riskmatch(*train("erm", "--json"))
    assert json.loads(done.out)["status"] == "done"


def test_colours_pass_on_a_terminal_only(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for stream, expected in ((Terminal(), "\x1b[1mx\x1b[0m"), (io.StringIO(), "\\u001b[1mx")):
        monkeypatch.setattr("sys.stdout", stream)
        with inert_output():
            print("\x1b[1mx\x1b[0m \x1b[2J")
        assert stream.getvalue().startswith(expected)
        assert "\\u001b[2J" in stream.getvalue()


def test_control_characters_in_names_of_folders_are_escaped():
    assert normalised_name("a\x1b[2J\n") == "a\\x1b[2J\\x0a"


def test_text_that_looks_like_a_formula_is_quoted_in_csv():
    table = Table("t", ("method", "x"), [("=1+1", -2.5), ("@a", 1.0), ("-x", None), ("erm", 2.0)])
    first = [line.split(",")[0] for line in table.csv().splitlines()]
    assert first == ["method", "'=1+1", "'@a", "'-x", "erm"]
    assert "-2.5" in table.csv()
    assert "'-2.5" not in table.csv()


def test_output_folder_may_have_any_name(riskmatch):
    assert riskmatch(*train("erm", "--quiet", "--out", "a\x1bb")).code == 0
    shown = riskmatch("show", "--out", "a\x1bb")
    assert shown.code == 0
    assert unsafe(shown.out) == []
    assert Path("a\x1bb").is_dir()
