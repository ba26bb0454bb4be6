"""Jobs of Slurm find parts in the current folder, and search it after all others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("submitit")
METHOD = """
from dataclasses import dataclass
from riskmatch.contract import Objective, Terms

@dataclass(frozen=True)
class Spread(Objective):
    def __call__(self, ev, memory):
        return Terms({"risk": ev.risk, "spread": ev.domain_risks.var()})
"""


def test_modules_in_the_current_folder_do_not_take_the_place_of_others(tmp_path):
    (tmp_path / "mine.py").write_text(METHOD)
    (tmp_path / "select.py").write_text("open('trace', 'w')")
    source = str(Path(__file__).parents[2] / "src")
    env = {**os.environ, "PYTHONPATH": source, "XDG_STATE_HOME": str(tmp_path / "state")}

    script = tmp_path / "bin" / "riskmatch"
    script.parent.mkdir()
    script.write_text("import sys; from riskmatch.cli import main; sys.exit(main())")

    def riskmatch(*words):
        command = [sys.executable, script, *words]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    options = ["--draws", "1", "--trials", "1", "--test-domain", "0.1", "--steps", "4"]
    options += ["--eval-every", "4", "--data-option", "samples=40", "--quiet"]
    riskmatch(
        "sweep", "plan", "s", "--data", "colored-digits", "--methods", "mine:Spread", *options
    )
    riskmatch("sweep", "run", "s", "--launcher", "slurm", "--cluster", "local", "--quiet")
    assert not (tmp_path / "trace").exists()
