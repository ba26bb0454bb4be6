"""The tables of the runs in results/ have the numbers of the tables committed beside them."""

import csv
from pathlib import Path
from statistics import fmean, stdev

import pytest

from riskmatch.report.comparison import GAIN, tables_of
from riskmatch.runs.frame import results
from riskmatch.selection import choose

RESULTS = Path(__file__).parents[2] / "results"
RULES = {"colored-mnist-best": "test-val", "colored-mnist-last": "last"}
"""Names of the rules in table1.csv where it was written before they had their own."""


def numbers(table):
    """The rows of a table's CSV, without the names of columns, which may change."""
    return list(csv.reader(table.csv().splitlines()))[1:]


def lines(markdown):
    """The rows of a table in Markdown, without header and rule."""
    return [line for line in markdown.splitlines() if line.startswith("|")][2:]


def cells(markdown):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines(markdown)]


def test_frozen_pacs():
    (table,) = tables_of(RESULTS / "pacs/frozen")
    committed = list(csv.reader((RESULTS / "pacs/frozen/pacs.csv").read_text().splitlines()))[1:]
    assert numbers(table) == committed
    assert table.columns[-1] == GAIN == "gain over ERM"


def test_fine_tuned_pacs():
    (table,) = tables_of(RESULTS / "pacs/fine-tuned")
    assert cells(table.markdown()) == cells((RESULTS / "pacs/fine-tuned/table.md").read_text())
    (costs,) = tables_of(RESULTS / "pacs/fine-tuned", costs=True)
    assert cells(costs.markdown()) == cells((RESULTS / "pacs/fine-tuned/costs.md").read_text())


def test_costs_on_pacs():
    (costs,) = tables_of(RESULTS / "pacs/efficiency", costs=True)
    committed = (RESULTS / "pacs/efficiency/efficiency.md").read_text()
    ours = {row[0]: row[3] for row in cells(costs.markdown())}
    assert {row[0]: row[3] for row in cells(committed)} == ours


@pytest.fixture(scope="module")
def table1():
    """The rows of Table 1 at p = 0.9, by rule, method and initialisation."""
    rows = csv.DictReader((RESULTS / "colored-mnist/table1.csv").read_text().splitlines())
    return {(row["selection"], row["method"], row["initialisation"]): row for row in rows}


@pytest.fixture(scope="module")
def colored_mnist():
    return results(RESULTS / "colored-mnist")


VARIANTS = {"rdm": "rdm moments", "rdm-mmd": "rdm"}
"""Variants of the rows of Table 1 whose names differ."""


def selection_name(rule, table1):
    return rule if (rule, "erm", "erm") in table1 else RULES[rule]


@pytest.mark.parametrize("rule", RULES)
def test_table1_is_what_its_rules_choose(rule, table1, colored_mnist):
    compared = 0
    for (selection, method, init), row in table1.items():
        if selection != selection_name(rule, table1) or method == "oracle" or not row["value"]:
            continue
        own = colored_mnist[
            (colored_mnist["variant"] == VARIANTS.get(method, method))
            & ((colored_mnist["pretrain"] > 0) == (init == "erm"))
            & (colored_mnist["data_options"].str.contains('"p": [0.1, 0.2]', regex=False))
        ]
        chosen = choose(own, rule)
        for p in (k / 10 for k in range(11)):
            at = chosen[chosen["test_domain"].isin([f"{p:g}", f"test {p:g}"])]
            accuracies = [100 * accuracy for accuracy in at["accuracy"]]
            assert f"{round(fmean(accuracies), 6)}" == row[f"p = {p:g} mean"]
            if len(accuracies) > 1:
                assert f"{round(stdev(accuracies), 6)}" == row[f"p = {p:g} sd"]
            compared += 1
    assert compared == 12 * 11
