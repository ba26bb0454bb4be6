"""The hash of a part's source changes with what the part computes, and with nothing else."""

import importlib
import linecache
import os
import sys
import textwrap

import pytest

from riskmatch.source import EditedError, source_hash

FILES = {
    "parts/__init__.py": "",
    "parts/method.py": '''
        """Module docstring."""
        from dataclasses import dataclass
        from functools import cached_property, partial

        import torch

        from . import constants
        from .constants import TABLE as LOOKUP
        from .helpers import scaled, twice
        import sibling

        LIMIT = 3
        UNUSED = 4
        WEIGHTS = {"a": 1.0}

        def unused(x):
            return x

        class Base:
            def shift(self, x):
                return x + 1

        @dataclass(frozen=True)
        class Part(Base):
            """Docstring."""

            weight: float = 1.0
            """Docstring of a field."""

            def __call__(self, x):  # comment
                return scaled(self.shift(x), self.weight) * LIMIT + constants.OFFSET + self.extra

            @property
            def extra(self):
                return WEIGHTS["a"] + LOOKUP["b"] + sibling.value(2)

            @cached_property
            def twice(self):
                return twice(self.weight)

            def later(self):
                from .lazy import late

                return late()

        half = partial(scaled, weight=0.5)
    ''',
    "parts/helpers.py": """
        def inner(x):
            return x

        def scaled(x, weight):
            return inner(x) * weight

        def twice(x):
            return 2 * x
    """,
    "parts/constants.py": "OFFSET = 7.0\nTABLE = {'b': 2}\nOTHER = 9\n",
    "parts/lazy.py": "def late():\n    return 1\n",
    "sibling.py": "def value(x):\n    return x\n",
}
CHANGES = {
    "a method": ("parts/method.py", "* LIMIT", "/ LIMIT"),
    "a default": ("parts/method.py", "weight: float = 1.0", "weight: float = 2.0"),
    "a base": ("parts/method.py", "x + 1", "x + 2"),
    "a constant": ("parts/method.py", "LIMIT = 3", "LIMIT = 5"),
    "a table": ("parts/method.py", '"a": 1.0', '"a": 1.5'),
    "a function of another module": ("parts/helpers.py", "* weight", "+ weight"),
    "a function that it calls": (
        "parts/helpers.py",
        "return x\n\ndef scaled",
        "return -x\n\ndef scaled",
    ),
    "a constant of another module": ("parts/constants.py", "7.0", "8.0"),
    "a table of another module": ("parts/constants.py", "'b': 2", "'b': 3"),
    "a cached property": ("parts/helpers.py", "2 * x", "3 * x"),
    "a module that it imports when called": ("parts/lazy.py", "return 1", "return 2"),
    "a module beside it": ("sibling.py", "return x", "return 2 * x"),
}
UNCHANGED = {
    "a comment": ("parts/method.py", "# comment", "# another comment"),
    "a docstring": ("parts/method.py", "Docstring.", "Other words."),
    "the docstring of a field": ("parts/method.py", "Docstring of a field", "A field"),
    "the layout": ("parts/method.py", "return x + 1", "return (x\n                        + 1)"),
    "a function that it does not use": ("parts/method.py", "def unused(x):", "def unused(y, x):"),
    "a constant that it does not use": ("parts/method.py", "UNUSED = 4", "UNUSED = 5"),
    "one of another module": ("parts/constants.py", "OTHER = 9", "OTHER = 10"),
    "lines above it": ("parts/method.py", "LIMIT = 3", "\n\n\nLIMIT = 3"),
}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write the files with a change, and import their method anew."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def imported(file="", before="", after=""):
        for name, text in FILES.items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            text = textwrap.dedent(text)
            if name == file:
                assert before in text
                text = text.replace(before, after)
            path.write_text(text)
        for name in [n for n in sys.modules if n.split(".")[0] in ("parts", "sibling")]:
            monkeypatch.delitem(sys.modules, name)
        importlib.invalidate_caches()
        return importlib.import_module("parts.method")

    return imported


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_hash_changes_with(write, change):
    before = source_hash(write().Part)
    after = source_hash(write(*change).Part)
    assert before != after
    assert source_hash(write().Part) == before


@pytest.mark.parametrize("change", UNCHANGED.values(), ids=UNCHANGED)
def test_hash_does_not_change_with(write, change):
    assert source_hash(write().Part) == source_hash(write(*change).Part)


MADE = """
    from functools import wraps
    from parts.constants import *

    def make(table):
        def scale(x):
            return x * table["w"]
        return scale

    def logged(function):
        @wraps(function)
        def call(x):
            return function(x) + 1
        return call

    scale = make({"w": 1.0})
    first, second = (lambda x: x + 1), (lambda x: x + 2)
    if True:
        LIMITS = {"low": 1}
    REGISTRY = []
    REGISTRY.append(5)

    def base(x):
        return x

    wrapped = logged(base)

    class Part:
        def __call__(self, x):
            return scale(x) + first(x) + second(x) + LIMITS["low"] + REGISTRY[0] + TABLE["b"]

        def other(self, x):
            return wrapped(x)

    Part.k = 1
    setattr(Part, "j", 2)
"""
MADE_CHANGES = [
    ('"w": 1.0', '"w": 5.0'),
    ("x * table", "x + table"),
    ("x + 2", "x + 3"),
    ('"low": 1', '"low": 2'),
    ("append(5)", "append(6)"),
    ("function(x) + 1", "function(x) + 2"),
    ("Part.k = 1", "Part.k = 3"),
    ('"j", 2', '"j", 4'),
]


@pytest.mark.parametrize("change", MADE_CHANGES, ids=[before for before, _ in MADE_CHANGES])
def test_hash_changes_with_values_that_are_made_by_calls(write, tmp_path, monkeypatch, change):
    def hashed(text):
        write()
        (tmp_path / "made.py").write_text(textwrap.dedent(text))
        sys.modules.pop("made", None)
        importlib.invalidate_caches()
        module = importlib.import_module("made")
        return source_hash(module.Part, "made", "Part"), source_hash(module.Part())

    before, after = hashed(MADE), hashed(MADE.replace(*change))
    sys.modules.pop("made")
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_number_that_the_part_changes_itself_is_no_change(write, tmp_path):
    text = "COUNT = 0\nclass Part:\n    def __call__(self):\n        return COUNT\n"
    (tmp_path / "counted.py").write_text(text)
    write()
    module = importlib.import_module("counted")
    before = source_hash(module.Part)
    module.COUNT += 1
    assert source_hash(module.Part) == before
    sys.modules.pop("counted")


def test_instance_partial_and_class_have_the_source_of_their_definition(write):
    module = write()
    assert source_hash(module.Part(2.0)) == source_hash(module.Part)
    assert source_hash(module.half) == source_hash(module.scaled)


def test_value_has_the_source_of_its_assignment(write):
    before = write()
    first = source_hash(before.WEIGHTS, "parts.method", "WEIGHTS")
    after = write("parts/method.py", '"a": 1.0', '"a": 1.5')
    assert source_hash(after.WEIGHTS, "parts.method", "WEIGHTS") != first


def test_installed_and_built_in_definitions_have_no_hash():
    from riskmatch.objectives import ERM

    assert source_hash(ERM) is None
    assert source_hash(ERM, "riskmatch.objectives", "ERM") is None
    assert source_hash(pytest.fixture) is None
    assert source_hash(textwrap.dedent) is None


def test_file_edited_after_its_import_raises(write, tmp_path):
    module = write()
    path = tmp_path / "parts" / "method.py"
    path.write_text(path.read_text().replace("x + 1", "x + 2"))
    with pytest.raises(EditedError, match=r"method\.py.*importlib\.reload"):
        source_hash(module.Part)
    module = importlib.reload(module)
    assert source_hash(module.Part)


@pytest.mark.parametrize(
    "change", [("weight: float = 1.0", "weight: float = 2.0"), ("LIMIT = 3", "LIMIT = 5")]
)
def test_value_edited_between_import_and_first_hash_raises(write, tmp_path, monkeypatch, change):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    module = write()
    path = tmp_path / "parts" / "method.py"
    path.write_text(path.read_text().replace(*change))
    os.utime(path, (0, 0))  # Python takes a file of the same size and second for the same
    with pytest.raises(EditedError, match=r"method\.py.*importlib\.reload"):
        source_hash(module.Part)
    assert source_hash(importlib.reload(module).Part)


def cell(number, text, namespace):
    """Run a cell of a notebook, whose source Python finds in the cache of lines."""
    name = f"<ipython-input-{number}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    exec(compile(text, name, "exec"), namespace)


def test_cell_of_a_notebook_that_is_run_again(monkeypatch):
    module = type(sys)("notebook")
    monkeypatch.setitem(sys.modules, "notebook", module)
    text = "class Part:\n    def __call__(self, x):\n        return SCALE * x\n"
    cell(1, "SCALE = 2.0\n", vars(module))
    cell(2, text, vars(module))
    first = source_hash(module.Part)
    cell(3, text, vars(module))
    assert source_hash(module.Part) == first
    cell(4, "SCALE = 3.0\n", vars(module))
    changed = source_hash(module.Part)
    cell(5, text.replace("* x", "+ x"), vars(module))
    assert len({first, changed, source_hash(module.Part)}) == 3


def test_source_that_cannot_be_read_is_said_once(monkeypatch, recwarn):
    module = type(sys)("console")
    monkeypatch.setitem(sys.modules, "console", module)
    exec("class Typed:\n    def __call__(self, x):\n        return x\n", vars(module))
    with pytest.warns(UserWarning, match=r"console\.Typed"):
        source_hash(module.Typed)
    source_hash(module.Typed)
    assert not [warning for warning in recwarn if "console.Typed" in str(warning.message)]


def test_lambdas_on_one_line_differ():
    first, second = (lambda x: x + 1), (lambda x: x + 2)
    assert source_hash(first) != source_hash(second)
