"""The numbers and links of README.md and results/README.md agree with the files in results/."""

import csv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
ROWS = {  # label: (method, initialisation)
    "ERM, 1,000 steps": ("erm", "erm"),
    "VREx": ("vrex", "erm"),
    "EQRM": ("eqrm", "erm"),
    "RDM, two moments": ("rdm", "erm"),
    "RDM, kernel": ("rdm-mmd", "erm"),
    "Oracle": ("oracle", "random"),
}


def cell(mean: str, deviation: str) -> str:
    """A number as tables print it, with its standard deviation where there is one."""
    if not mean:
        return "—"
    return f"{float(mean):.1f}" + (f" ± {float(deviation):.1f}" if deviation else "")


def test_colored_mnist_table_equals_the_committed_file():
    with open(ROOT / "results" / "colored-mnist" / "table1.csv", encoding="utf-8") as file:
        best = {(r["method"], r["initialisation"]): r for r in reversed(list(csv.DictReader(file)))}
    table = README.split("<!-- colored-mnist -->")[1].split("<!-- end -->")[0].strip()
    shown = {
        name.strip(): [entry.strip() for entry in entries]
        for name, *entries in (line.strip("|").split("|") for line in table.splitlines()[2:])
    }
    assert list(shown) == list(ROWS)
    for name, key in ROWS.items():
        row = best[key]
        assert shown[name] == [
            cell(row["paper"], row["paper sd"]),
            cell(row["p = 0.9 mean"], row["p = 0.9 sd"]),
            f"{float(row['worst p mean']):.1f}",
            row["p = 0.9 n"],
        ], name


@pytest.mark.parametrize(
    "path", ["README.md", "CONTRIBUTING.md", "results/README.md", "examples/plugin/README.md"]
)
def test_linked_files_exist(path):
    folder = (ROOT / path).parent
    for target in (ROOT / path).read_text("utf-8").split("](")[1:]:
        link = target.split(")")[0]
        assert link.startswith("http") or (folder / link).exists(), link
