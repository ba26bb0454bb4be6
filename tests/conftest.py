"""Settings for every test: one thread, and the same examples in every run."""

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("riskmatch", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("riskmatch")
