"""Data sets by name: built-in, paths and the user's own."""

import sys

import pytest
from PIL import Image

from riskmatch import registry
from riskmatch.data import load
from riskmatch.data.catalogue import describe_data, find_images, is_path, known_domains, resolve
from riskmatch.registry import PartError

MODULE = '''
from pathlib import Path
import torch
from riskmatch.data import DataSource, Domain, DomainSet

def waves(*, samples: int = 4, noise: float = 0.0) -> DomainSet:
    """Two domains of zeros."""
    x, y = torch.full((samples, 3), noise), torch.arange(samples) % 2
    return DomainSet("waves", (Domain("slow", x, y), Domain("fast", x, y)), classes=2)

def in_folder(data_dir: Path | None = None, *, samples: int = 4) -> DomainSet:
    return DomainSet(str(data_dir), waves(samples=samples).domains, classes=2)

def with_progress(data_dir, on_progress, *, samples: int = 4):
    on_progress("loading", 1, 1)
    return waves(samples=samples)

def positional(samples=4):
    return waves(samples=samples)

def swapped(on_progress, data_dir):
    return waves()

def nothing():
    return [1, 2]

described = DataSource(waves, domains=("slow", "fast"), classes=2, licence="MIT")
number = 3
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of the user's own and an installed package that announces a data set."""
    (tmp_path / "my_waves.py").write_text(MODULE)
    info = tmp_path / "waves-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: waves\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(
        "[riskmatch.data]\nwaves = my_waves:described\nbroken = no_such_module:waves\n"
        "pacs = my_waves:described\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    registry._entry_points.cache_clear()
    yield tmp_path
    registry._entry_points.cache_clear()
    sys.modules.pop("my_waves", None)


@pytest.mark.parametrize("name", ["my_waves:waves", "my_waves:described", "waves"])
def test_own_data_set_loads_with_its_options(own, name):
    data = load(name, {"samples": 6})
    assert data.names == ("slow", "fast")
    assert [len(domain) for domain in data.domains] == [6, 6]
    assert known_domains(name) is None


def test_data_dir_and_progress_reach_a_function_that_takes_them(own):
    assert load("my_waves:in_folder", data_dir=own / "files").name == str(own / "files")
    seen = []
    load("my_waves:with_progress", on_progress=lambda *args: seen.append(args))
    assert seen == [("loading", 1, 1)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample": 3}, r"option of my_waves:waves 'sample'. Did you mean 'samples'"),
        ({"samples": "many"}, r"samples of my_waves:waves .*'many'"),
    ],
)
def test_options_of_own_data_set_are_checked(own, options, message):
    with pytest.raises(ValueError, match=message):
        load("my_waves:waves", options)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("my_waves:wave", "'my_waves:wave'.*Did you mean 'waves'"),
        ("my_wave:waves", "'my_wave:waves' cannot be imported.*my_wave"),
        ("broken", "'broken' cannot be imported.*no_such_module"),
        ("my_waves:number", "my_waves:number.*function.*DataSource.*got 3"),
        ("my_waves:DomainSet", "my_waves:DomainSet.*function.*DataSource"),
        ("my_waves:positional", "my_waves:positional.*positional parameter 'samples'.*keyword"),
        ("my_waves:swapped", "my_waves:swapped.*positional parameter 'on_progress'.*keyword"),
        ("my_waves:nothing", "my_waves:nothing.*DomainSet, got list"),
    ],
)
def test_unusable_own_data_set_is_one_clear_line(own, name, message):
    with pytest.raises(PartError, match=message) as caught:
        load(name)
    assert "\n" not in str(caught.value)


def test_built_in_names_and_paths_win_over_own_parts(own):
    assert resolve("pacs").part is None
    assert resolve("pacs").benchmark is not None
    (own / "waves").mkdir()
    assert is_path("waves")
    assert resolve("waves").part is None
    (own / "my_waves:waves").mkdir()
    assert resolve("my_waves:waves").path is not None


def test_resolve_imports_nothing_until_the_source_is_asked_for(own):
    named = resolve("my_waves:waves")
    assert named.contents is None
    assert "my_waves" not in sys.modules
    assert named.part.source is not None
    assert resolve("waves").part.to_json()["version"] == "1.2"


def test_list_shows_announced_data_sets_after_the_built_in_ones(own):
    rows = {row["name"]: row for row in describe_data()}
    assert list(rows)[-2:] == ["broken", "waves"]
    assert rows["waves"]["domains"] == ("slow", "fast")
    assert (rows["waves"]["here"], rows["waves"]["licence"]) == (True, "MIT")
    assert not rows["broken"]["here"]
    assert "no_such_module" in rows["broken"]["cure"]


def test_unknown_names_and_options_suggest_the_nearest():
    with pytest.raises(ValueError, match=r"'colored-digit'. Did you mean 'colored-digits'"):
        load("colored-digit")
    with pytest.raises(ValueError, match=r"option of colored-digits 'sample'. Did you mean"):
        load("colored-digits", {"sample": 3})
    with pytest.raises(ValueError, match=r"'colored-digits'.*'pacs'"):
        find_images("colored-digits")


def test_folder_and_manifest_are_named_by_their_path(tmp_path, monkeypatch):
    for domain in "ab":
        folder = tmp_path / "pets" / domain / "cat"
        folder.mkdir(parents=True)
        Image.new("RGB", (4, 4)).save(folder / "1.jpg")
    (tmp_path / "pets.csv").write_text("path,label,domain\npets/a/cat/1.jpg,cat,a\n")
    assert len(resolve(str(tmp_path / "pets")).index()) == 2
    assert len(resolve(str(tmp_path / "pets.csv")).index()) == 1
    assert known_domains(str(tmp_path / "pets")) == ("a", "b")
    assert not is_path("pets")
    monkeypatch.chdir(tmp_path)
    assert is_path("pets")
    with pytest.raises(FileNotFoundError, match=r"pest\.csv"):
        load("pest.csv")
    with pytest.raises(FileNotFoundError, match=r"data/pest"):
        load("data/pest")
    with pytest.raises(ValueError, match=r"option of pets 'image_sise'. Did you mean 'image_size'"):
        load("pets", {"image_sise": 3})
