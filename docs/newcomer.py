"""Follow pages of the site as a newcomer would: type their commands, with a clock.

Python blocks that a page asks to save as a file are saved, other Python blocks are run, and every
command of a console block is run in a shell, in one scratch folder per page. The page Start uses
the sample data of the engineer's tutorial; what it installs is installed already.

Run: python docs/newcomer.py [PAGE …]   writes results/newcomer.md
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("index", "tutorial-researcher", "tutorial-engineer")


def commands(page: str) -> Iterator[tuple[str, str | None]]:
    """Commands of a page in order, with the code to save before them where there is some."""
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    for block in re.finditer(r"```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        language, code = block.groups()
        if language == "console":
            for line in code.splitlines():
                if line.strip() and not line.startswith(("#", "pip install")):
                    yield line, None
        elif language == "python":
            paragraph = text[: block.start()].rstrip().rpartition("\n\n")[2]
            saved = re.search(r"[Ss]ave this as\s+`(\w+\.py)`", paragraph)
            yield (f"# save {saved[1]}" if saved else "python block.py"), code


def walk(page: str, folder: Path) -> Iterator[tuple[str, float]]:
    """Type everything on a page; yields each command with its seconds.

    Raises:
        RuntimeError: a command failed. An exit code of 1, faults that were found, is no failure.
    """
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": tools, "COLUMNS": "100"}
    steps = list(commands(page))
    if page == "index":
        data = next(code for _, code in commands("tutorial-engineer") if code)
        steps.insert(0, ("python block.py", data))
    for command, code in steps:
        if code is not None:
            name = command.removeprefix("# save ") if command[0] == "#" else "block.py"
            (folder / name).write_text(code, "utf-8")
        if command[0] == "#":
            continue
        start = time.perf_counter()
        done = subprocess.run(
            command, shell=True, cwd=folder, capture_output=True, text=True, env=environment
        )
        seconds = time.perf_counter() - start
        if done.returncode > 1 or "Traceback" in done.stderr:
            raise RuntimeError(f"{page}: {command}\n{done.stdout}{done.stderr}")
        yield command, seconds


def main(pages: list[str]) -> None:
    """Walk through pages and write the times."""
    parts = ["# A newcomer's path through the tutorials", "Every command as the page has it."]
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            clock = list(walk(page, Path(folder)))
        rows = [f"| `{command}` | {seconds:.0f} |" for command, seconds in clock]
        total = sum(seconds for _, seconds in clock)
        parts.append(f"## {page}\n\n| command | seconds |\n| --- | --: |\n" + "\n".join(rows))
        parts.append(f"Together {total / 60:.1f} minutes.")
    parts.append("Written by `python docs/newcomer.py` on two cores.")
    (ROOT / "results" / "newcomer.md").write_text("\n\n".join(parts) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:] or list(PAGES))
