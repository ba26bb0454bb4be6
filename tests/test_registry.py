"""Parts by name: built in, announced, and the user's own."""

import subprocess
import sys
import textwrap

import pytest

from riskmatch import registry


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """A module file in an importable folder; returns a function that writes it."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name, text):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text), "utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)

    return write


@pytest.mark.parametrize(
    ("kind", "name"),
    [("method", "rdm"), ("data", "pacs"), ("model", "mlp"), ("divergence", "energy")],
)
def test_built_in_names_are_found_and_listed(kind, name):
    part = registry.find(kind, name)
    assert part.built_in
    assert part.value is registry.built_in(kind)[name]
    assert name in registry.names(kind)


def test_own_part_is_imported_and_names_its_origin(own_module):
    own_module("my_parts", "class Robust: pass")
    part = registry.find("method", "my_parts:Robust")
    assert part.value.__name__ == "Robust"
    assert not part.built_in
    assert part.to_json()["name"] == "my_parts:Robust"
    assert part.distribution is None
    assert len(part.source) == 16


def test_modules_beside_the_script_are_found(tmp_path):
    (tmp_path / "parts_beside.py").write_text("class Robust: pass")
    (tmp_path / "scripts_main.py").write_text(
        "from riskmatch import registry\n"
        "import os, sys\n"
        "sys.path.remove(os.path.dirname(__file__))\n"
        "print(registry.find('method', 'parts_beside:Robust').value.__name__)"
    )
    command = [sys.executable, str(tmp_path / "scripts_main.py")]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert done.stdout == "Robust\n"


def test_part_of_an_installed_package_has_its_version():
    part = registry.find("model", "rich.table:Table")
    assert part.distribution == "rich"
    assert part.version
    assert part.source is None


def test_the_hash_changes_with_the_source(own_module):
    own_module("my_parts", "class Robust: pass")
    before = registry.find("method", "my_parts:Robust").source
    own_module("my_parts", "class Robust: weight = 2")
    assert registry.find("method", "my_parts:Robust").source != before


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("no_such_module:Robust", ["no_such_module", "current folder"]),
        ("my_parts:Robsut", ["my_parts:Robsut", "Did you mean 'Robust'"]),
        ("broken:Robust", ["broken:Robust", "ZeroDivisionError"]),
        ("needs_more:Robust", ["needs_more:Robust", "absent_dependency"]),
        ("rmd", ["method 'rmd'", "Did you mean 'rdm'", "package.module:Name"]),
    ],
)
def test_a_part_that_cannot_be_had_is_one_clear_line(own_module, name, facts):
    own_module("my_parts", "class Robust: pass")
    own_module("broken", "1 / 0")
    own_module("needs_more", "import absent_dependency")
    with pytest.raises(registry.PartError) as error:
        registry.find("method", name)
    message = str(error.value)
    assert "\n" not in message
    for fact in facts:
        assert fact in message


def test_built_in_names_win(own_module):
    own_module("rdm", "class RDM: pass")
    assert registry.find("method", "rdm").built_in


@pytest.mark.parametrize(
    "name", ["rdm", "timm:resnet50.tv_in1k", "./photos", "C:\\photos", "a b:C", ":C", "a:", "a:b:C"]
)
def test_names_that_are_no_module_and_attribute(name):
    assert not registry.is_own(name)
