"""Ctrl-C while modules are still imported: one line, exit code 3, no traceback."""

import os
import subprocess
import sys

import pytest

HOOK = """
import sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            exec("raise KeyboardInterrupt")  # as inside a dataclass

sys.meta_path.insert(0, Interrupt())
"""
SCRIPT = "import sys; from riskmatch.cli import main; sys.exit(main())"


@pytest.mark.parametrize(
    "start", [("-m", "riskmatch.cli"), ("-c", SCRIPT)], ids=["module", "script"]
)
@pytest.mark.parametrize(
    "name", ["riskmatch.cli.app", "riskmatch.files", "riskmatch.cli.methods", "argparse"]
)
def test_interrupt_during_an_import_is_one_line(tmp_path, start, name):
    (tmp_path / "sitecustomize.py").write_text(HOOK.format(name=name))
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, *start, "methods"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (3, "riskmatch: Interrupted.\n")
