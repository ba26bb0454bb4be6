"""What is known about a method stands in its file, and travels with its runs."""

import ast
import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import riskmatch
from riskmatch.contract import Objective, Terms
from riskmatch.objectives import methods
from riskmatch.registry import names
from riskmatch.report.comparison import tables_of
from riskmatch.report.published import METHODS
from riskmatch.report.titles import method_title
from riskmatch.runs import records
from riskmatch.runs.config import RunConfig, title
from riskmatch.runs.domainbed_hparams import field_by_name
from riskmatch.runs.domainbed_line import _name_by_field, method_of
from riskmatch.runs.method import decode_facts, facts_of, stated, stated_facts

SOURCE = Path(riskmatch.__file__).parent
BASELINE = "erm"
"""Every comparison has it, and it is the phase before a method."""


@dataclass(frozen=True)
class Tilted(Objective):
    weight: float = 1.0
    sides: tuple[int, ...] = (1, 2)

    title = "Tilted risks"
    citation = "None"

    def __call__(self, ev, memory):
        return Terms({"risk": ev.risk})


def texts(path):
    """The string literals of a module but for docstrings."""
    tree = ast.parse(path.read_text())
    expressions = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if text and id(node) not in expressions:
            yield node.value


@pytest.mark.parametrize("package", ["runs", "report", "defaults"])
def test_packages_below_methods_name_none(package):
    known = methods().keys() - {BASELINE, *names("divergence"), "sd"}  # also standard deviation
    for path in {*(SOURCE / package).rglob("*.py")} - {SOURCE / "defaults/values.py"}:
        named = {text for text in texts(path) if text.partition(" ")[0] in known}
        assert not named, path


def test_titles_are_those_of_the_classes_without_importing_them():
    for name, cls in methods().items():
        assert method_title(name) == cls.title == facts_of(name).title
        assert stated_facts(name) == replace(facts_of(name), defaults={})
        for values, expected in cls.variant_titles.items():
            assert method_title(f"{name} {values}") == expected
        for algorithm, fixed in (cls.domainbed or {cls.title: {}}).items():
            assert method_of(algorithm) == (name, fixed)
        by_field = {field: key for key, field in field_by_name(cls).items()}
        for field in ("lr", "weight_decay", "dropout", *stated(name).get("domainbed_fields", ())):
            assert _name_by_field(name)[field] == by_field[field]


def test_the_published_tables_repeat_no_title():
    table = SOURCE.joinpath("report/published.txt").read_text().split("# methods\n")[1]
    words = table.split("\n\n")[0].split()[1:]
    assert tuple(word.replace("~", " ") for word in words) == METHODS
    titles = {cls.title for cls in methods().values()} | {
        title for cls in methods().values() for title in cls.variant_titles.values()
    }
    for path in {*(SOURCE / "report").rglob("*.py"), *(SOURCE / "advice").rglob("*.py")}:
        assert not {*texts(path)} & titles - {"ERM", "MMD"}, path


def test_facts_round_trip():
    for name in methods():
        assert decode_facts(json.dumps(facts_of(name).to_json()).encode()) == facts_of(name)


def test_tuples_are_compared_as_they_are_written():
    config = RunConfig("d", ("a",), f"{__name__}:Tilted", {"sides": (1, 2)})
    again = RunConfig.from_json(config.to_json())
    assert config.id == again.id == RunConfig("d", ("a",), config.method).id


def test_the_title_of_a_method_of_the_users_own_is_in_tables(tmp_path, monkeypatch):
    config = RunConfig("d", ("a",), f"{__name__}:Tilted")
    assert title(config) == "Tilted risks"
    records.write(tmp_path / config.id, records.RunRecord(config))
    monkeypatch.delattr(f"{__name__}.Tilted")  # reading needs no class
    run = records.read(tmp_path / config.id)
    assert (title(run.config), run.config.id) == ("Tilted risks", config.id)
    (table,) = tables_of(tmp_path)
    assert table.rows[0][0] == "Tilted risks"
