"""Count modules and lines of code (no blanks, docstrings or comments) by package.

    python benchmarks/size.py [REVISION …]

Each revision, by default the working tree alone, is a column pair.
"""

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = "src/riskmatch"
IDLE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


def code_lines(text: str) -> int:
    """Lines that hold code."""
    docstrings = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for entry in body if isinstance(body, list) else ():
            value = entry.value if isinstance(entry, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                docstrings.update(range(entry.lineno, entry.end_lineno + 1))
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in IDLE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def sources(revision: str | None) -> dict[str, str]:
    """Text of every module, by its path in the package."""
    if revision is None:
        files = (ROOT / SOURCE).rglob("*.py")
        return {str(p.relative_to(ROOT / SOURCE)): p.read_text("utf-8") for p in files}

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout

    names = git("ls-tree", "-r", "--name-only", revision, SOURCE).split()
    python = [name for name in names if name.endswith(".py")]
    return {name.removeprefix(f"{SOURCE}/"): git("show", f"{revision}:{name}") for name in python}


def main(revisions: list[str]) -> None:
    columns: dict[str, tuple[Counter[str], Counter[str]]] = {}
    for revision in [*revisions, None]:
        modules, lines = Counter[str](), Counter[str]()
        for name, text in sources(revision).items():
            package = name.split("/")[0].removesuffix(".py")
            for key in (package, "all"):
                modules[key] += 1
                lines[key] += code_lines(text)
        columns[revision or "now"] = modules, lines
    packages = sorted({key for _, lines in columns.values() for key in lines} - {"all"})
    titles = [f"{title}: modules | lines" for title in columns]
    print("| package | " + " | ".join(titles) + " |")
    print("| --- |" + " --: | --: |" * len(columns))
    for package in [*packages, "all"]:
        cells = [f"{modules[package]} | {lines[package]:,}" for modules, lines in columns.values()]
        print(f"| {package} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main(sys.argv[1:])
