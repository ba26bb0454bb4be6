"""Follow pages of the site as a newcomer would: type their commands, with a clock.

Makes a virtual environment and a scratch folder per page. Python blocks that a page asks to save as
a file are saved, other Python blocks are run, every command of a console block is run in a shell,
and what the page installs is installed from this clone. The page Start uses the sample data of the
engineer's tutorial.

Run: python docs/newcomer.py [PAGE …]   writes results/newcomer.md; times of other pages stay
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    "index",
    "tutorial-researcher",
    "tutorial-engineer",
    "tutorial-regression",
    "tutorial-tags",
)
INSTALL = "pip install"
INTRODUCTION = """# A newcomer's path through the tutorials

Every command as the page has it, in a fresh virtual environment, on two cores without a GPU. \
Packages were on the disk: add the time to download them."""
CLOSING = "Written by `python docs/newcomer.py`."


def commands(page: str) -> Iterator[tuple[str, str | None]]:
    """Commands of a page in order, with the code to save before them where there is some."""
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    for block in re.finditer(r"```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        language, code = block.groups()
        if language == "console":
            for line in code.splitlines():
                command = line.partition("  #")[0].rstrip()
                if command:
                    yield command, None
        elif language == "python":
            paragraph = text[: block.start()].rstrip().rpartition("\n\n")[2]
            saved = re.search(r"[Ss]ave this as\s+`(\w+\.py)`", paragraph)
            yield (f"# save {saved[1]}" if saved else "python block.py"), code


def walk(page: str, folder: Path, programs: Path | None = None) -> Iterator[tuple[str, float]]:
    """Type everything on a page; yields each command with its seconds.

    Args:
        page: Name of the page, without ``.md``.
        folder: Where the commands run.
        programs: The folder ``bin`` of a virtual environment to install into and to run in. By
            default nothing is installed, and commands run in the current environment.

    Raises:
        RuntimeError: a command failed. An exit code of 1, faults that were found, is no failure.
    """
    path = os.pathsep.join([str(programs or Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "COLUMNS": "100"}
    steps = list(commands(page))
    if page == "index":
        data = next(code for _, code in commands("tutorial-engineer") if code)
        steps.insert(0, ("# save sample_data.py", data))
        first = next(i for i, (command, _) in enumerate(steps) if "photos/" in command)
        steps.insert(first, ("python sample_data.py", None))
    for command, code in steps:
        if code is not None:
            name = command.removeprefix("# save ") if command[0] == "#" else "block.py"
            (folder / name).write_text(code, "utf-8")
        installs = command.startswith(INSTALL)
        if command[0] == "#" or (installs and programs is None):
            continue
        start = time.perf_counter()
        done = subprocess.run(
            command,
            shell=True,
            cwd=ROOT if installs else folder,
            capture_output=True,
            text=True,
            env=environment,
        )
        seconds = time.perf_counter() - start
        if done.returncode > 1 or "Traceback" in done.stderr:
            raise RuntimeError(f"{page}: {command}\n{done.stdout}{done.stderr}")
        yield command, seconds


def main(pages: list[str]) -> None:
    """Walk through pages in a fresh virtual environment and write the times."""
    file = ROOT / "results" / "newcomer.md"
    stored = re.findall(r"^## (\S+)\n\n(.*?minutes\.)$", file.read_text("utf-8"), re.M | re.S)
    sections = dict.fromkeys(PAGES, "") | dict(stored)
    with tempfile.TemporaryDirectory() as root:
        environment = Path(root, "venv")
        venv.create(environment, with_pip=True)
        os.environ["XDG_CACHE_HOME"] = str(Path(root, "cache"))
        os.environ.pop("PYTHONPATH", None)
        for page in pages:
            folder = Path(root, page)
            folder.mkdir()
            rows, total = [], 0.0
            for command, seconds in walk(page, folder, environment / "bin"):
                print(f"{seconds:6.1f} s  {command}", flush=True)
                rows.append(f"| `{command}` | {seconds:.0f} |")
                total += seconds
            rows = ["| command | seconds |", "| --- | --: |", *rows]
            sections[page] = "\n".join(rows) + f"\n\nTogether {total / 60:.1f} minutes."
            parts = [
                INTRODUCTION,
                *(f"## {name}\n\n{text}" for name, text in sections.items() if text),
            ]
            file.write_text("\n\n".join([*parts, CLOSING]) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:] or list(PAGES))
