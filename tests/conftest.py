"""Settings for every test: one thread, the same examples, and a state folder of their own."""

import os
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp()
settings.register_profile("riskmatch", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("riskmatch")


@pytest.fixture(scope="session")
def plugin():
    """The parts of the example plugin, as the package ``riskmatch_shapes``."""
    sys.path.append(str(Path(__file__).parents[1] / "examples" / "plugin" / "src"))
