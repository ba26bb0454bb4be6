"""The command line, called in this process."""

from typing import NamedTuple

import pytest
from digits import accept, place, random_mnist

from riskmatch.cli import main
from riskmatch.data.images import cache


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def riskmatch(capsys, monkeypatch, tmp_path):
    """A function from the words of a command to its result; it works in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*words):
        code = main(list(words))
        return Result(code, *capsys.readouterr())

    return run


@pytest.fixture
def settled(monkeypatch):
    """Treat recently written images as settled, so that they are not read again."""
    monkeypatch.setattr(cache, "SETTLED", -1)


@pytest.fixture
def mnist(monkeypatch, tmp_path):
    """A machine without data, and the folder of a few digits that pass for MNIST there."""
    files = random_mnist(train=240, test=40)
    accept(monkeypatch, files)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return str(place(files, tmp_path / "mnist"))
