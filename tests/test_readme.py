"""The figures of the README are those on file."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("name", ["core", "colored_mnist", "methods"])
def test_a_benchmark_s_table_is_the_one_its_run_wrote(name):
    assert (ROOT / "results" / "bench" / f"{name}.md").read_text().strip() in README


def test_the_demo_s_accuracies_are_those_of_its_record():
    record = json.loads((ROOT / "results" / "demo" / "colored_digits.json").read_text())
    for method, accuracies in record["accuracy"].items():
        cells = " | ".join(f"{accuracy:.3f}" for accuracy in accuracies.values())
        assert f"| {method} | {cells} |" in README


def test_every_picture_and_file_it_links_to_is_there():
    for target in README.split("](")[1:]:
        path = target.split(")")[0]
        assert path.startswith("http") or (ROOT / path).exists(), path
