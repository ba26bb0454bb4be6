"""The tables and links of the README agree with the files in results/."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    "name",
    [
        "bench/core",
        "bench/colored_mnist",
        "bench/methods",
        "bench/images",
        "demo/demo",
        "pacs/fine-tuned/table",
        "pacs/fine-tuned/costs",
    ],
)
def test_table_equals_the_committed_file(name):
    assert (ROOT / "results" / f"{name}.md").read_text().strip() in README


def test_table1_equals_the_committed_file():
    written = (ROOT / "results" / "colored-mnist" / "table1.md").read_text()
    first = written.split("# Table 1\n\n")[1].split("\n\nAccuracy at every p")[0]
    assert first in README


def test_pacs_table_equals_the_committed_file():
    written = (ROOT / "results" / "pacs" / "frozen" / "pacs.md").read_text()
    assert written.split("\n\nThe budget")[0].removeprefix("# Table 7\n\n") in README


def test_linked_files_exist():
    for target in README.split("](")[1:]:
        path = target.split(")")[0]
        assert path.startswith("http") or (ROOT / path).exists(), path
