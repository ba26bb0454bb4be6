import csv
import io

import pytest

from riskmatch.report.facts import lines
from riskmatch.report.tables import Column, Spread, Table, Trials

TABLE = Table(
    "Accuracy, in % of all",
    ("method", "paper", "ours", "seeds"),
    (
        ("RDM, λ = 5", "72.4 ± 1.0", Spread((70.0, 71.0, 75.0)), 3),
        ("a|b_c", None, Spread(()), 0),
    ),
)


def test_markdown_is_aligned():
    assert TABLE.markdown().splitlines() == [
        "Accuracy, in % of all",
        "",
        "| method     |      paper |       ours | seeds |",
        "| :--------- | ---------: | ---------: | ----: |",
        "| RDM, λ = 5 | 72.4 ± 1.0 | 72.0 ± 2.6 |     3 |",
        r"| a\|b_c     |          — |          — |     0 |",
    ]


def test_latex():
    assert TABLE.latex().splitlines() == [
        r"\begin{table}",
        r"\centering",
        r"\caption{Accuracy, in \% of all}",
        r"\begin{tabular}{lrrr}",
        r"\toprule",
        r"method & paper & ours & seeds \\",
        r"\midrule",
        r"RDM, $\lambda$ = 5 & 72.4 $\pm$ 1.0 & 72.0 $\pm$ 2.6 & 3 \\",
        r"a|b\_c & --- & --- & 0 \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


def test_csv_is_not_rounded_to_one_decimal():
    rows = list(csv.reader(io.StringIO(TABLE.csv())))
    assert rows == [
        ["method", "paper", "ours mean", "ours sd", "ours n", "seeds"],
        ["RDM, λ = 5", "72.4 ± 1.0", "72.0", "2.645751", "3", "3"],
        ["a|b_c", "", "", "", "0", "0"],
    ]


def test_a_row_of_another_length_raises():
    with pytest.raises(ValueError, match="A row has 1 cells, not 2"):
        Table("", ("a", "b"), (("x",),))


COLUMNS = [
    Column("method", lambda row: row[0]),
    Column("accuracy", lambda row: row[1], "on the test domain"),
    Column("note", lambda row: row[2], "what is missing", optional=True),
]


def test_columns_give_the_caption_and_all_formats():
    table = Table.of("Runs.", COLUMNS, [("erm", Trials((70.0, 72.0)), None), ("rdm", None, None)])
    assert table.caption == "Runs. Accuracy: on the test domain."  # no row has a note
    assert table.columns == ("method", "accuracy")
    assert table.to_json()["rows"][0]["accuracy mean"] == 71.0
    assert "| erm    | 71.0 ± 0.7 |" in table.markdown()
    noted = Table.of("Runs.", COLUMNS, [("erm", None, "one trial")])
    assert noted.caption.endswith("Note: what is missing.")
    assert noted.rows == (("erm", None, "one trial"),)


def test_terminal_sets_numbers_to_the_right_and_escapes_names():
    rows = [("a\x1b[2J", "+2.0 ± 0.1", "x"), ("b", None, "")]
    shown = Table.of("", COLUMNS, rows).terminal()
    assert [column.justify for column in shown.columns] == ["left", "right", "left"]
    cells = [[str(cell) for cell in column.cells] for column in shown.columns]
    assert cells == [["a\\x1b[2J", "b"], ["+2.0 ± 0.1", "—"], ["x", ""]]


def test_facts_are_lines_without_the_empty_ones():
    facts = {"missing": "ERM on a 1 of 2 runs", "network": "", "visits.csv, draws": "2."}
    assert lines(facts) == ["Missing: ERM on a 1 of 2 runs.", "visits.csv, draws: 2."]
