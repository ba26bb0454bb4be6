"""Command line that repeats a run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from riskmatch.registry import INSTANCE
from riskmatch.runs.config import RunConfig


def train_command(config: RunConfig) -> str:
    """``riskmatch train`` with the options in which the run differs from the defaults.

    Empty for runs imported from DomainBed, for runs with objects passed in Python, and where a part
    of the run is unknown.

    Example:
        >>> train_command(RunConfig("colored-digits", ("0.1",), "groupdro", {"eta": 0.1}))
        'riskmatch train colored-digits --method groupdro --test-domain 0.1 --eta 0.1 ...'
    """
    from riskmatch.defaults import given_for
    from riskmatch.registry import PartError

    parts = (config.data, config.method, config.model)
    if "hparams_seed" in config.hparams or any(part.startswith(INSTANCE) for part in parts):
        return ""
    try:
        given = given_for(config)
    except PartError:
        return ""
    frozen = given.get("model_options", {}).pop("frozen", False)
    words = ["riskmatch", "train", config.data, "--method", config.method]
    for domain in config.test_domains:
        words += ["--test-domain", domain]
    words += ["--frozen"] * frozen
    for name, value in given.items():
        words += _option(name, value)
    return shlex.join(words)


def _option(name: str, value: Any) -> Iterator[str]:
    """Words of one option; parsing them gives the same value."""
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        yield f"--{flag}" if value else f"--no-{flag}"
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from (f"--{flag.removesuffix('s')}", f"{key}={_entry(entry)}")
    elif value is None:
        yield from (f"--{flag}", "none")
    else:
        yield from (f"--{flag}", str(value))


def _entry(value: Any) -> str:
    """Text unquoted, unless it would be parsed as JSON."""
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return value
    return json.dumps(value)
