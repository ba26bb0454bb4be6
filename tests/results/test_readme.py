"""The numbers and links of README.md and results/README.md agree with the files in results/."""

import csv
import json
from pathlib import Path
from statistics import fmean

import pytest

from riskmatch.runs.frame import results

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
FIGURE_TEXTS = ("README.md", "figures/README.md")
"""Files in results/ that say what the figures show."""
ROWS = {  # label: (method, initialisation)
    "ERM, 1,000 steps": ("erm", "erm"),
    "IRM": ("irm", "erm"),
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


def figure(name: str) -> dict:
    return json.loads((ROOT / "results" / "figures" / f"{name}.json").read_text("utf-8"))["panels"]


def test_statements_on_the_papers_figures_agree_with_the_files():
    texts = [(ROOT / "results" / path).read_text("utf-8") for path in FIGURE_TEXTS]
    means = {name: values["mean"] for name, values in figure("fig1")["ERM"].items()}
    assert (round(means["photo"], 2), round(means["art_painting"], 2)) == (0.05, 0.3)
    shares = {
        title: fmean(w >= v for w, v in zip(worst["y"], variance["y"], strict=True))
        for title, (worst, variance) in figure("fig3a").items()
    }
    assert {title: f"{share:.0%}" for title, share in shares.items()} == {
        "RDM with L̂": "25%",
        "RDM with L": "100%",
    }
    (by_weight,), (by_size,) = figure("fig4a")["PACS"], figure("fig4b")["PACS"]
    weights = dict(zip(by_weight["x"], by_weight["y"], strict=True))
    sizes = dict(zip(by_size["x"], by_size["y"], strict=True))
    others = [accuracy for size, accuracy in sizes.items() if size > 10]
    stated = [weights[0.1], weights[10], sizes[10], min(others), max(others)]
    assert sizes[10] == max(sizes.values())
    for text in texts:
        assert all(f"{number:.1f}" in text for number in stated)
        assert "0.05" in text
        assert "25 %" in text
    assert f"{weights[5]:.1f} at 5" in texts[0]


def test_changes_of_training_domains_agree_with_the_records():
    frame = results(ROOT / "results" / "pacs" / "frozen")
    steps = frame[frame["method"] == "rdm"].sort_values("step")
    last = steps.groupby("run").last()
    before = steps[steps["step"] <= steps["acts_from"]].groupby("run").last()
    texts = [
        (ROOT / page).read_text("utf-8") for page in ("results/README.md", "docs/when-it-helps.md")
    ]
    for domain, sign in {"photo": "−", "art_painting": "−", "cartoon": "−", "sketch": "+"}.items():
        column, tested = f"accuracy/val/{domain}", last["test_domains"] == (domain,)
        change = float(100 * (last[column] - before[column])[~tested].mean())
        assert (change > 0) == (sign == "+")
        assert all(f"{abs(change):.1f} ±" in text for text in texts)
        held_out = [
            100 * float(part[f"accuracy/train/{domain}"][tested].mean()) for part in (before, last)
        ]
        assert all(f"{value:.1f}" in texts[0] for value in held_out)


@pytest.mark.parametrize(
    "path", ["README.md", "CONTRIBUTING.md", "results/README.md", "examples/plugin/README.md"]
)
def test_linked_files_exist(path):
    folder = (ROOT / path).parent
    for target in (ROOT / path).read_text("utf-8").split("](")[1:]:
        link = target.split(")")[0]
        assert link.startswith("http") or (folder / link).exists(), link
