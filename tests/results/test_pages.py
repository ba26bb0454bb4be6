"""The numbers on the pages of docs/ are those of the results that they link to."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = {path.name: path.read_text("utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
MEASURED = [  # pages that quote results
    *("choosing.md", "findings.md", "index.md", "reproducing.md", "risk-distributions.md"),
    *("selection.md", "tutorial-engineer.md", "tutorial-researcher.md", "when-it-helps.md"),
]
NOT_MEASURED = {"index.md": {"2.4"}}  # the version of torch
TYPED = ("index.md", "tutorial-engineer.md", "tutorial-researcher.md")
"""Pages whose commands tests/integration/test_newcomer.py runs as they stand."""


@pytest.mark.parametrize("page", MEASURED)
def test_numbers_are_in_the_results_that_the_page_links_to(page):
    links = re.findall(r"\]\(\.\./(results/[^)#\s]+\.md)", PAGES[page])
    results = "".join((ROOT / link).read_text("utf-8") for link in links)
    text = re.sub("```.*?```|`[^`]*`|[λp] = [0-9.]+", "", PAGES[page], flags=re.DOTALL)
    numbers = set(re.findall(r"(?<![\w.,])\d+\.\d+(?![\w.])", text))
    known = set(re.findall(r"(?<![\w.])\d+\.\d+", results)) | NOT_MEASURED.get(page, set())
    assert numbers
    assert numbers - known == set()


def typed(page):
    """Command lines in the console blocks of a page."""
    blocks = re.findall(r"^```console\n(.*?)^```", PAGES[page], re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


@pytest.mark.parametrize("page", TYPED)
def test_every_command_that_is_typed_has_its_time(page):
    record = (ROOT / "results" / "newcomer.md").read_text("utf-8")
    rows = record.partition(f"## {page.removesuffix('.md')}\n")[2].partition("Together")[0]
    seconds = dict(re.findall(r"^\| `(.*)` \| (\d+) \|$", rows, re.MULTILINE))
    for line in typed(page):
        command, _, time = line.partition("  # ")
        assert command in seconds
        assert time in ("", f"{seconds[command]} s"), line


def test_the_audit_of_the_authors_logs_is_that_of_the_findings():
    audit = (ROOT / "results" / "authors-logs" / "audit.md").read_text("utf-8")
    lines = audit.partition("## PACS\n")[2].partition("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    found = {row[0]: row[1:] for row in rows}
    names = ("test domains", "trials", "draws in a trial")
    tests, trials, draws = (found[name][0] for name in names)
    counts = f"{tests} test domains × {trials} trials × {draws} draws"
    assert f"{found['runs'][0]} runs: {counts}" in PAGES["findings.md"]
    assert f"batch sizes from {found['batch_size'][1]}" in PAGES["findings.md"]
    acting, equal = found["train-val"][-2:]
    assert f"All {acting[0]} chosen steps" in PAGES["findings.md"]
    assert (acting, equal) == ("8 of 8", "10 of 10")
