"""A method is one short file that says what it is."""

import ast
import dataclasses
import inspect
import itertools
from pathlib import Path

import pytest

from riskmatch import objectives
from riskmatch.objectives import methods

METHODS = {
    "adrmx", "andmask", "arm", "cad", "causirl", "cdann", "cond-cad", "coral", "dann", "eqrm",
    "erm", "erm-plus-plus", "erm-switch", "fish", "fishr", "groupdro", "ib-erm", "ib-irm", "iga",
    "irm", "lp-ft", "miro", "mixup", "mldg", "mmd", "mtl", "rdm", "rsc", "sagnet", "sandmask",
    "sd", "selfreg", "transfer", "trm", "urm", "vrex",
}  # fmt: skip


def code_lines(source):
    """The numbers of the lines that hold code: no docstrings, comments or blank lines."""
    tree = ast.parse(source)
    prose = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            prose.update(range(node.lineno, node.end_lineno + 1))
    lines = enumerate(source.splitlines(), start=1)
    return [n for n, line in lines if n not in prose and line.split("#")[0].strip()]


def test_every_method_is_there():
    assert set(methods()) == METHODS


@pytest.mark.parametrize("method", methods().values(), ids=methods().keys())
def test_method_fits_on_a_screen(method):
    assert len(code_lines(inspect.getsource(inspect.getmodule(method)))) <= 90


@pytest.mark.parametrize("method", methods().values(), ids=methods().keys())
def test_method_describes_itself(method):
    assert ".. math::" in method.__doc__
    assert method.citation[-4:].isdigit(), "a citation ends with the year"


@pytest.mark.parametrize("method", methods().values(), ids=methods().keys())
def test_every_hyper_parameter_has_a_description(method):
    names = {item.name for item in dataclasses.fields(method)}
    (body,) = (node.body for node in ast.parse(inspect.getsource(method)).body)
    for node, following in itertools.pairwise(body):
        if isinstance(node, ast.AnnAssign) and node.target.id in names:
            assert isinstance(following, ast.Expr), f"{node.target.id} has no docstring"


def test_type_checkers_know_every_method():
    source = Path(objectives.__file__).read_text("utf-8")
    for name, method in methods().items():
        module = name.replace("-", "_")
        assert f"from riskmatch.objectives.{module} import {method.__name__} as " in source
