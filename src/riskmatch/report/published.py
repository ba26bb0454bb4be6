"""The numbers that the paper prints, to show beside ours, and titles; see ``published.txt``.

Table 2 and the tables by test domain hold the accuracy on the image benchmarks in per cent, with
models chosen by the validation sets of the training domains. The rows of other methods are those of
Eastwood et al., Probable Domain Generalization via Quantile Risk Minimization, NeurIPS 2022, and of
Shi et al., Gradient Matching for Domain Generalization, ICLR 2022 (Fish).
"""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

PAPER = "Nguyen et al., Domain Generalisation via Risk Distribution Matching, WACV 2024"
TABLE1_CITATION = (
    f"{PAPER}, Table 1; all rows but RDM's are those of Eastwood et al., Probable Domain "
    "Generalization via Quantile Risk Minimization, NeurIPS 2022"
)


class Published(NamedTuple):
    """A mean, and the number printed after ±."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.error:.1f}"


class PublishedRow(NamedTuple):
    """A method in a table."""

    columns: dict[str, Published]
    """By domain, or by data set; empty where only the average is printed."""
    average: float


class PublishedCost(NamedTuple):
    """What training a method on a data set costs; all methods on one GPU with equal settings."""

    seconds: int
    """Training time."""
    memory: float
    """GiB per step."""
    accuracy: float
    """Accuracy in per cent."""


def _read() -> dict[str, dict[str, dict[str, str]]]:
    """Texts of the cells, by table, method and column."""
    text = files(__package__ or "").joinpath("published.txt").read_text("utf-8")
    tables = {}
    for block in text.split("\n# ")[1:]:
        title, header, *lines = block.strip().splitlines()
        names, *rows = ([w.replace("~", " ") for w in line.split()] for line in (header, *lines))
        tables[title] = {
            row[0]: {name: cell for name, cell in zip(names, row, strict=True) if cell != "-"}
            for row in rows
        }
    return tables


def _published(cell: str) -> Published:
    return Published(*map(float, cell.split("±")))


def _rows(title: str) -> dict[str, PublishedRow]:
    return {
        method: PublishedRow(
            {name: _published(cell) for name, cell in cells.items() if "±" in cell},
            float(cells["average"]),
        )
        for method, cells in _TABLES[title].items()
    }


_TABLES = _read()
METHODS = tuple(_TABLES["methods"])
"""Methods in the order of the paper's tables, ours between them."""

TABLE2 = _rows("Table 2")
"""Table 2: accuracy by method and data set."""

PER_DOMAIN = {data: _rows(data) for data in TABLE2["erm"].columns}
"""Tables 6 to 10: by data set, method and test domain; Fish is printed without its domains."""

WRONG_AVERAGES = {
    method: float(cells["average"]) for method, cells in _TABLES["averages of Table 2"].items()
}
"""The averages of the columns of Table 2, where the printed ones differ by more than rounding."""

TABLE1 = {
    (method, init): _published(cell)
    for method, cells in _TABLES["Table 1"].items()
    for init, cell in cells.items()
    if init != "method"
}
"""Table 1: accuracy on the test domain of ColoredMNIST, mean and standard deviation over ten seeds,
by method and initialisation."""
TABLE1_OPTIMUM = 75.0
"""Accuracy of a model that reads the shape perfectly and ignores the colour."""

EFFICIENCY = {
    data: {
        method: PublishedCost(
            int(cells["seconds"]), float(cells["memory"]), float(cells["accuracy"])
        )
        for method, cells in _TABLES[f"costs of {data}"].items()
    }
    for data in ("pacs", "vlcs", "officehome", "terraincognita", "domainnet")
}
"""Tables 3 and 5, by data set and method: ``rdm`` matches the worst domain (L̂), ``rdm variance``
every domain (L)."""
