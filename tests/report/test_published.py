"""Consistency of the transcribed numbers of the paper."""

from statistics import fmean

import pytest

from riskmatch.data.images.benchmark import BENCHMARKS
from riskmatch.report.published import EFFICIENCY, PER_DOMAIN, TABLE2, WRONG_AVERAGES

ROWS = [
    pytest.param(table, method, row, id=f"{table}-{method}")
    for table, rows in {"table2": TABLE2, **PER_DOMAIN}.items()
    for method, row in rows.items()
    if row.columns
]


@pytest.mark.parametrize(("table", "method", "row"), ROWS)
def test_printed_averages_are_those_of_the_columns(table, method, row):
    average = fmean(cell.mean for cell in row.columns.values())
    if table == "table2" and method in WRONG_AVERAGES:
        assert average == pytest.approx(WRONG_AVERAGES[method], abs=0.051)
        assert abs(average - row.average) > 0.1
    else:  # columns and average are each rounded to one decimal
        assert average == pytest.approx(row.average, abs=0.1 + 1e-9)


@pytest.mark.parametrize("data", PER_DOMAIN)
def test_the_columns_of_table2_are_the_averages_of_the_per_domain_tables(data):
    assert PER_DOMAIN[data].keys() == TABLE2.keys()
    for method, row in PER_DOMAIN[data].items():
        assert row.average == TABLE2[method].columns[data].mean


@pytest.mark.parametrize("data", EFFICIENCY)
def test_the_efficiency_tables_repeat_the_accuracies_of_table2(data):
    for method in ("fish", "coral", "rdm"):
        assert EFFICIENCY[data][method].accuracy == TABLE2[method].columns[data].mean


def test_data_sets_and_domains_have_the_names_of_the_benchmarks():
    assert set(PER_DOMAIN) == set(TABLE2["erm"].columns) == set(EFFICIENCY) == set(BENCHMARKS)
    for data, rows in PER_DOMAIN.items():
        assert tuple(rows["erm"].columns) == BENCHMARKS[data].domains


def test_samples_of_the_transcription():
    assert str(PER_DOMAIN["pacs"]["rdm"].columns["art_painting"]) == "88.4 ± 0.2"
    assert str(PER_DOMAIN["domainnet"]["mmd"].columns["sketch"]) == "28.9 ± 11.9"
    assert PER_DOMAIN["officehome"]["coral"].columns["Real World"].mean == 78.4
    assert str(TABLE2["irm"].columns["domainnet"]) == "33.9 ± 2.8"
    assert TABLE2["rdm"].average == 64.8
    assert PER_DOMAIN["vlcs"]["fish"] == ({}, 77.8)
