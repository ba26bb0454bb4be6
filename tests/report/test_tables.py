import csv
import io

import pytest

from riskmatch.report.tables import Spread, Table

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
