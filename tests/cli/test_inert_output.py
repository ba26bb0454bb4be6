"""Names with control characters reach no terminal as they are, and no spreadsheet as formulas."""

import io
import json
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest
from made_records import evaluation, run
from tiny import train

from riskmatch.cli.app import inert_output
from riskmatch.data.images.index import normalised_name
from riskmatch.deployment.prediction import write_table
from riskmatch.report.tables import Table
from riskmatch.runs import records

EVIL = "evil\n\x1b]0;title\x07\x9b2J\u202e\u2028[/x]"


def unsafe(text):
    """Control characters in the output, and line ends inside names."""
    return [c for c in text if not c.isprintable() and c != "\n"] + re.findall("evil\n", text)


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
    run = ["--method", "erm", "--test-domain", "a"]
    for words in (["train", EVIL, *run], ["train", "a", f"--{EVIL}"], ["show", EVIL], [EVIL]):
        result = riskmatch(*words)
        assert result.code == 2
        assert "evil" in result.err
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


def test_classes_that_look_like_formulas_are_quoted_in_predictions(tmp_path):
    table = pd.DataFrame({"row": [1, 2, 3], "class": ["=1+1", "-1", "cat"]})
    write_table(table, tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text() == "row,class\n1,'=1+1\n2,-1\n3,cat\n"


def test_headers_and_paths_in_predictions_hold_no_control_characters(tmp_path):
    table = pd.DataFrame({"path": [EVIL], "class": [EVIL], f"p_{EVIL}": [1.0], "p_=1": [0.0]})
    write_table(table, tmp_path / "p.csv")
    text = (tmp_path / "p.csv").read_text()
    assert text.count("evil\\n\\x1b]0;title") == 3
    assert unsafe(text) == []
    assert text.count("\n") == 2
    assert list(pd.read_csv(tmp_path / "p.csv"))[-1] == "p_=1"


def test_output_folder_may_have_any_name(riskmatch):
    name = EVIL.replace("/", "")
    plan = shlex.split("--data colored-digits --methods erm --test-domain 0.1 --draws 1 --trials 1")
    for words in (
        *(train("erm", "--out", name), ["show", name], ["sweep", "table", name]),
        *(["report", name, "-o", f"{name}.html"], ["figure", "curves", name, "-o", f"{name}.png"]),
        *(["sweep", "plan", name, *plan], ["sweep", "status", name]),
    ):
        result = riskmatch(*words)
        assert (result.code, unsafe(result.out + result.err)) == (0, [])
    assert Path(name).is_dir()
