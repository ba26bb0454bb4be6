"""A run of a second."""

import shlex

DATA = ("colored-digits", "--data-option", "samples=100")
TINY = shlex.split("--test-domain 0.1 --steps 20 --eval-every 10 --model-option widths=[8]")


def train(method, *words):
    return ["train", *DATA, "--method", method, *TINY, *words]
