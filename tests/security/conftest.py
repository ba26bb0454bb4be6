"""A folder of the user, a module of a stranger that leaves a trace, and the command line."""

import importlib
import io
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from riskmatch import trust
from riskmatch.cli import main

SOURCE = Path(__file__).parents[2] / "src"
SCRIPT = """
import sys
from riskmatch.cli import main
if __name__ == "__main__":
    sys.exit(main())
"""
TRACE = "from pathlib import Path\nPath({file!r}).write_text('ran')\n"
PARTS = """
from dataclasses import dataclass

from torch import nn

from riskmatch.contract import Objective, Terms
from riskmatch.data import load


@dataclass(frozen=True)
class Spread(Objective):
    weight: float = 0.5

    def __call__(self, ev, memory):
        return Terms({"risk": ev.risk, "spread": self.weight * ev.domain_risks.var()})


class Net(nn.Module):
    def __init__(self, input_shape, classes, dropout):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(128, 4), nn.ReLU())
        self.head = nn.Linear(4, classes)

    def forward(self, x):
        features = self.body(x)
        return features, self.head(features)


def digits(*, samples: int = 60):
    return load("colored-digits", {"samples": samples})
"""


class Result(NamedTuple):
    code: int
    out: str
    err: str


class User:
    """A person with a folder, a state folder and the command line."""

    def __init__(self, folder: Path, state: Path) -> None:
        self.folder, self.state = folder, state
        self.trace = state / "trace"
        folder.mkdir()
        state.mkdir()
        (state / "console.py").write_text(SCRIPT)

    def write(self, name: str, text: str = PARTS) -> None:
        """Write a module that leaves a trace when it runs."""
        (self.folder / name).write_text(TRACE.format(file=str(self.trace)) + textwrap.dedent(text))

    def ran(self) -> bool:
        """Whether such a module has run since the last call."""
        existed = self.trace.exists()
        self.trace.unlink(missing_ok=True)
        return existed

    def __call__(self, *words: str) -> Result:
        """Run a command in this process, as one that has imported no module of the folder."""
        out, err = io.StringIO(), io.StringIO()
        with self._at_home(), redirect_stdout(out), redirect_stderr(err):
            code = main(list(words))
        return Result(code, out.getvalue(), err.getvalue())

    def call(self, function: Callable[[], Any]) -> Any:
        """Call a function in this process, as a program that has named no part."""
        with self._at_home():
            return function()

    def process(self, *words: str) -> Result:
        """Run a command as its console script does."""
        env = {**os.environ, "COLUMNS": "100", "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, str(self.state / "console.py"), *words],
            cwd=self.folder,
            env={**env, "XDG_STATE_HOME": str(self.state)},
            capture_output=True,
            text=True,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def _at_home(self) -> Iterator[None]:
        folder, path, modules = Path.cwd(), list(sys.path), set(sys.modules)
        state, passed = os.environ.get("XDG_STATE_HOME"), set(trust._passed)
        os.chdir(self.folder)
        os.environ["XDG_STATE_HOME"] = str(self.state)
        sys.path[:] = [entry for entry in sys.path if entry]  # as in a console script
        trust._passed.clear()
        importlib.invalidate_caches()
        try:
            yield
        finally:
            os.chdir(folder)
            sys.path[:] = path
            for name in set(sys.modules) - modules:
                if str(self.folder) in (getattr(sys.modules[name], "__file__", None) or ""):
                    del sys.modules[name]
            trust._passed.update(passed)
            os.environ.pop("XDG_STATE_HOME")
            if state is not None:
                os.environ["XDG_STATE_HOME"] = state


@pytest.fixture
def user(tmp_path):
    return User(tmp_path / "work", tmp_path / "state")


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A person who trained runs, a sweep and a model with parts of their own."""
    folder = tmp_path_factory.mktemp("made")
    author = User(folder / "work", folder / "state")
    author.write("mine.py")
    tiny = ["--steps", "10", "--eval-every", "5"]
    parts = ["mine:digits", "--method", "mine:Spread", "--model", "mine:Net"]
    train = ["train", *parts, *tiny, "--quiet"]
    assert author(*train, "--test-domain", "0.1").code == 0
    assert author(*train, "--all-domains", "--save", "model", "--out", "all").code == 0
    plan = ["sweep", "plan", "sweep", "--data", "mine:digits", "--methods", "erm,mine:Spread"]
    plan += ["--test-domain", "0.1", "--draws", "1", "--trials", "1", "--quiet"]
    assert author(*plan, "--model", "mine:Net", *tiny).code == 0
    assert author("sweep", "run", "sweep", "--jobs", "1", "--quiet").code == 0
    assert author.ran()
    return author


@pytest.fixture
def downloaded(made, user):
    """The same folders on another person's machine, beside a module of the same name."""
    for name in ("runs", "all", "model", "sweep"):
        shutil.copytree(made.folder / name, user.folder / name)
    user.write("mine.py")
    return user
