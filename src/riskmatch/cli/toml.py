"""Options from a TOML file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from riskmatch.cli.errors import BadInput

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def words_of(path: Path) -> list[str]:
    """What one would type for what the file says; ``data`` is the thing, the rest are options.

    Keys are spelt as on the command line, with ``-`` or ``_``; an option that may be repeated takes
    a list, one of the form KEY=VALUE a table.
    """
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BadInput(f"--config {path}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"--config {path} is not TOML: {error}.") from error
    words = [str(values.pop("data"))] if "data" in values else []
    for key, value in values.items():
        words += _words(key.replace("_", "-"), value)
    return words


def _words(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, dict):
        return [f"--{name}={key}={json.dumps(entry)}" for key, entry in value.items()]
    return [f"--{name}={entry}" for entry in (value if isinstance(value, list) else [value])]
