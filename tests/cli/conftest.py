"""The command line, called in this process."""

from typing import NamedTuple

import pytest

from riskmatch.cli import main


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
