"""The paper's tables of images, and everything at once."""

import csv
import json
from pathlib import Path

import pytest
from made_records import evaluation

from riskmatch.experiments.catalogue import EXPERIMENTS
from riskmatch.experiments.experiment import Request
from riskmatch.runs import records
from riskmatch.runs.records import RunRecord

SMOKE = ("--budget", "smoke")
FORMATS = ("md", "tex", "csv")


def test_everything_from_end_to_end(riskmatch, mnist, tmp_path):
    done = riskmatch("reproduce", "all", *SMOKE, "--data-dir", mnist, "--json")
    assert done.code == 0
    told = json.loads(done.out)
    assert list(told) == list(EXPERIMENTS)
    for name, one in told.items():
        assert all(one[part] for part in ("files", "result"))
        assert all(Path(file).name.startswith(name) for file in one["files"])
        assert all((tmp_path / file).stat().st_size for file in one["files"])
    shared = done.err.split("] vlcs\n")[1].splitlines()
    assert shared[0] == "colored-digits, scikit-learn's handwritten digits, in place of VLCS."
    assert shared[1].startswith("12 runs, 12 of them done before;")


def test_what_fails_does_not_stop_the_rest(riskmatch, mnist):
    riskmatch("reproduce", "pacs", *SMOKE)
    done = riskmatch("reproduce", "all", *SMOKE, "--as-is")
    assert done.code == 3
    total = len(EXPERIMENTS)
    assert all(f"[{k}/{total}] {name}\n" in done.err for k, name in enumerate(EXPERIMENTS, 1))
    assert "riskmatch: table1: Not on this machine, but can be had: colored-mnist (" in done.err
    last = done.err.splitlines()[-1]
    assert last.startswith("riskmatch: Not done, as told above: table1, fig2, ")
    assert last.endswith(". To go on: riskmatch reproduce all --budget smoke --as-is")
    files = [str(Path("reproduce-smoke", f"terraincognita-on-colored-digits.{s}")) for s in FORMATS]
    assert set(files) <= set(done.out.splitlines())


def test_a_table_on_digits_says_so_and_shows_what_is_done(riskmatch, mnist, tmp_path):
    words = ["reproduce", "table8", *SMOKE, "--methods", "erm,irm", "--out", "here"]
    done = riskmatch(*words)
    assert done.code == 0
    lead = "colored-digits, scikit-learn's handwritten digits, in place of VLCS."
    assert done.err.startswith(f"{lead}\n6 runs, 0 of them done before; about 0:0")
    assert done.out.startswith(lead)
    text = (tmp_path / "here/vlcs-on-colored-digits.md").read_text()
    assert text.startswith(f"# Table 8\n\n{lead}")
    assert "are not to be compared with the paper's" in text
    assert "Written by `riskmatch reproduce vlcs --budget smoke --methods erm,irm`." in text
    assert lead in (tmp_path / "here/vlcs-on-colored-digits.tex").read_text()
    lines = (tmp_path / "here/vlcs-on-colored-digits.csv").read_text().splitlines()
    rows = list(csv.DictReader(lines))
    assert [row["method"] for row in rows] == ["ERM", "IRM"]
    assert riskmatch(*words, "--as-is").out == done.out
    words[words.index("erm,irm")] = "erm,mldg"
    assert "Missing: MLDG: all 3 runs." in riskmatch(*words, "--as-is").out


def test_the_records_of_a_sweep_give_tables_where_the_data_is_not(riskmatch, mnist, tmp_path):
    first, *_ = EXPERIMENTS["pacs"].plan(Request("laptop", ("pacs",), methods=("rdm",)))
    folder = tmp_path / "sweep" / "runs" / first.config.id
    at_the_end = evaluation(1000, art_painting=(80, 80), photo=(90, 90))
    records.write(folder, RunRecord(first.config, (at_the_end,), "done"))
    words = ["--budget", "laptop", "--out", "sweep", "--as-is"]
    done = riskmatch("reproduce", "table2", *words, "--methods", "rdm")
    assert done.code == 0
    assert "| RDM              |          — |       — |" in done.out
    assert "PACS" in done.out
    assert "Left out: VLCS (no run is done), OfficeHome (no run is done)," in done.out
    done = riskmatch("reproduce", "pacs", *words, "--methods", "rdm")
    assert "RDM on art_painting, trial 0: 4 of 5 runs" in done.out
    assert "trains heads on the frozen features" in (tmp_path / "sweep/pacs.md").read_text()


def test_an_interrupt_stops_everything(riskmatch, mnist, monkeypatch):
    from riskmatch.cli.board import Shown

    def strike(self, board):
        raise KeyboardInterrupt

    monkeypatch.setattr(Shown, "__call__", strike)
    done = riskmatch("reproduce", "all", *SMOKE, "--data-dir", mnist)
    assert done.code == 3
    assert done.err.splitlines()[:2] == [
        f"[1/{len(EXPERIMENTS)}] table1",
        "riskmatch: table1: Interrupted; 0 of 23 runs are done.",
    ]
    assert done.err.splitlines()[2].startswith("riskmatch: Not done, as told above: table1.")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("pacs --init erm", "--init does not apply to pacs; it does to table1."),
        ("all --seeds 1", "--seeds does not apply to all; it does to table1, fig2."),
        ("table1 --data pacs", "--data does not apply to table1; it does to table2, efficiency"),
        ("table3 --methods rdm", "--methods does not apply to table3; it does to table1, table2, "),
        ("fig2 --search-seeds 0", "--search-seeds does not apply to fig2; it does to table1."),
        ("table2 --data pacs,vcls", "Unknown data set of Table 2 'vcls'. Did you mean 'vlcs'?"),
        ("vlcs --methods rmd", "Unknown method 'rmd'. Did you mean 'rdm'?"),
        ("pacs --budget laptop", "Not on this machine, but can be had: pacs (riskmatch data get "),
        ("pacs --as-is", "None of these runs is done in reproduce-smoke. Without --as-is they"),
    ],
)
def test_what_makes_no_sense_for_a_table_is_refused(riskmatch, mnist, words, message):
    budget = () if "--budget" in words else SMOKE
    done = riskmatch("reproduce", *words.split(), *budget)
    assert done.code == 2
    assert message in done.err


def test_the_list_says_what_is_here_and_how_many_runs_it_takes(riskmatch, mnist):
    told = json.loads(riskmatch("reproduce", "--list", "--data-dir", mnist, "--json").out)
    assert told["table1"]["data"] == {"colored-mnist": None}
    assert told["pacs"] == {
        "paper": "Table 7",
        "summary": "accuracy by test domain on PACS",
        "data": {"pacs": "riskmatch data get pacs"},
        "options": ["methods"],
        "runs": {"smoke": 4 * 3, "laptop": 14 * 4 * 5 * 3, "paper": 14 * 4 * 20 * 10},
    }
    text = riskmatch("reproduce", "--list", "--data-dir", mnist).out
    assert "data: colored-mnist (yes)\n" in text
    assert "data: pacs (riskmatch data get pacs)\n" in text
    assert "runs: smoke 12, laptop 840, paper 11,200\n" in text
