"""Tables, ``show`` and the report print the same numbers for a sweep with ties and missing runs."""

import csv
import io
import json
import random
import re
from html.parser import HTMLParser

import pytest
from made_records import evaluation

import riskmatch
from riskmatch.report import summarise
from riskmatch.report.comparison import tables_of
from riskmatch.report.render import write_report
from riskmatch.report.tables import format_cell
from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.records import RunRecord

METHODS = {"erm": {}, "rdm": {"weight": 1.0, "warmup": 15}, "eqrm": {"warmup": 5}, "coral": {}}
DOMAINS, DRAWS, TRIALS = "abcd", range(3), range(3)


def scores(rng, test):
    """Few values, so that validation accuracies are equal; test accuracies end in 5 hundredths."""
    return {
        d: (rng.choice([70.25, 70.35, 9.65, 81.05, 64.95]), rng.choice([50.0, 60.0])) if d == test
        else (90.0, rng.choice([50.0, 60.0]))
        for d in DOMAINS
    }  # fmt: skip


@pytest.fixture(scope="module", params=[False, True], ids=["whole", "ragged"])
def sweep(request, tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("sweep"), random.Random(7)
    planned = [
        RunConfig("toy", (test,), method, {**hparams, "draw": draw}, steps=20, trial=trial)
        for draw in DRAWS
        for trial in TRIALS
        for method, hparams in METHODS.items()
        for test in DOMAINS
    ]  # fmt: skip
    lines = [json.dumps({"draw": c.hparams["draw"], "config": c.to_json()}) for c in planned]
    (folder / records.PLAN).write_text("\n".join(lines) + "\n")
    for config in planned:
        if request.param and config.trial == 2 and config.test_domains == ("d",):
            continue
        steps = [evaluation(s, **scores(rng, config.test_domains[0])) for s in (10, 20)]
        records.write(folder / "runs" / config.id, RunRecord(config, tuple(steps), "done"))
    return folder


class Tables(HTMLParser):
    """The cells of every table of a page, by caption."""

    def __init__(self):
        super().__init__()
        self.tables, self._cell = [], None

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        elif tag in ("td", "th") and self.tables:
            self.tables[-1][-1].append("")
            self._cell = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._cell = None

    def handle_data(self, data):
        if self._cell:
            self.tables[-1][-1][-1] += data.strip()


def rows_of(table):
    """Rows of a table by method, as mappings from column to text."""
    header, *rows = table
    return {row[0]: dict(zip(header, row, strict=True)) for row in rows}


def test_all_tables_of_a_sweep_agree_to_the_digit(sweep, tmp_path):
    (table,) = tables_of(sweep)
    markdown = [
        re.split(r"\s*\|\s*", line.strip("| ")) for line in table.markdown().splitlines()[2:]
    ]
    text = rows_of([markdown[0], *markdown[2:]])
    (oracle,) = tables_of(sweep, "test-val")
    shown = summarise(sweep)
    page = Tables()
    page.feed(write_report(sweep, tmp_path / "report.html").read_text())
    in_show, headlines = (
        {row[0]: dict(zip(table.columns, map(format_cell, row), strict=True)) for row in table.rows}
        for table in (shown["comparison"], shown["headline"])
    )
    html_headline, html_comparison = (rows_of(part) for part in page.tables[:2])
    numbers = {row["method"]: row for row in csv.DictReader(io.StringIO(table.csv()))}
    values = {row["method"]: row for row in table.to_json()["rows"]}
    oracle_average = {row["method"]: row["average"] for row in oracle.to_json()["rows"]}
    for method, headline in headlines.items():
        average = text[method]["average"]
        assert html_comparison[method]["average"] == average
        assert in_show[method]["average"] == average
        assert float(numbers[method]["average"]) == pytest.approx(values[method]["average"])
        assert f"{values[method]['average']:.1f}" == average
        for domain in DOMAINS:
            assert (
                in_show[method][domain] == html_comparison[method][domain] == text[method][domain]
            )
            assert f"{values[method][f'{domain} mean']:.1f}" == text[method][domain].split()[0]
        assert headline["train-val"] == html_headline[method]["train-val"]
        assert headline["train-val"].split()[0] == average
        assert headline["test-val"].split()[0] == format_cell(oracle_average[method])
        gain = headline["gain over ERM"]
        if gain is not None:
            assert gain == html_headline[method]["gain over ERM"] == text[method]["gain over ERM"]


def test_ties_do_not_depend_on_the_plan_ids_or_paths(tmp_path):
    equal = evaluation(10, **dict.fromkeys("abc", (50, 50)))
    chosen = []
    for data in ("toy", "elsewhere/toy", "other"):
        folder = tmp_path / data.replace("/", "-")
        draws = [(0.1, 2.0), (0.01, 3.0), (0.01, 2.0), (0.1, 1.0)]
        configs = [
            RunConfig(data, ("a",), "rdm", {"weight": weight}, lr=lr, steps=10)
            for lr, weight in draws
        ]
        for config in configs:
            records.write(folder / "runs" / config.id, RunRecord(config, (equal,), "done"))
        plan = "".join(json.dumps({"draw": 0, "config": c.to_json()}) + "\n" for c in configs)
        (folder / records.PLAN).write_text(plan)
        frame = riskmatch.results(folder)
        for runs in (folder, folder / "runs", frame, frame.iloc[::-1].reset_index(drop=True)):
            (id,) = riskmatch.choose(runs)["run"]
            chosen += [draws[k] for k, config in enumerate(configs) if config.id == id]
    assert chosen == [(0.01, 2.0)] * 12


def test_of_equal_runs_of_different_lengths_the_shortest_is_chosen(tmp_path):
    equal = evaluation(10, **dict.fromkeys("abc", (50, 50)))
    for data in "stuvwx":  # other ids
        folder = tmp_path / data
        for steps in (30, 20, 40):
            config = RunConfig(data, ("a",), "erm", {}, steps=steps)
            records.write(folder / config.id, RunRecord(config, (equal,), "done"))
        frame = riskmatch.results(folder).drop_duplicates("run").set_index("run")
        (id,) = riskmatch.choose(folder)["run"]
        assert frame["steps"][id] == 20
