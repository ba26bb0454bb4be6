"""The figures of the README are those on file."""

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
def test_a_table_is_the_one_its_run_wrote(name):
    assert (ROOT / "results" / f"{name}.md").read_text().strip() in README


def test_table_1_is_the_one_its_runs_gave():
    written = (ROOT / "results" / "colored-mnist" / "table1.md").read_text()
    first = written.split("# Table 1\n\n")[1].split("\n\nAccuracy at every p")[0]
    assert first in README


def test_the_table_of_pacs_is_the_one_its_runs_gave():
    written = (ROOT / "results" / "pacs" / "frozen" / "pacs.md").read_text()
    assert written.split("\n\nThe budget")[0].removeprefix("# Table 7\n\n") in README


def test_every_picture_and_file_it_links_to_is_there():
    for target in README.split("](")[1:]:
        path = target.split(")")[0]
        assert path.startswith("http") or (ROOT / path).exists(), path
