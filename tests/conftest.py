"""Settings for every test: one thread, the same examples, and a state folder of their own."""

import os
import tempfile

import torch
from hypothesis import settings

torch.set_num_threads(1)
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp()
settings.register_profile("riskmatch", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("riskmatch")
