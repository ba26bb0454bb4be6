"""Files that a command is to write."""

from __future__ import annotations

from pathlib import Path

from riskmatch.cli.errors import BadInput, check_name


def ready(file: Path, option: str, suffixes: tuple[str, ...]) -> None:
    """Make the folder of a file that is to be written; refuse a name that ends in another way.

    To be called before any work, lest it be done in vain.
    """
    check_name(f"ending of {option}", file.suffix, suffixes)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{option} {file}: {error.strerror} ({file.parent}).") from error
