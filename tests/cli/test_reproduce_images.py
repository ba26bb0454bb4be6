"""Tables and figures of image benchmarks, and ``reproduce all``."""

import csv
import json
from pathlib import Path

import pytest
from made_records import evaluation

from riskmatch.experiments import EXPERIMENTS, Scope
from riskmatch.runs import records
from riskmatch.runs.records import RunRecord

SMOKE = ("--budget", "smoke")
FORMATS = ("md", "tex", "csv")


def test_all_experiments_write_their_files(riskmatch, mnist, tmp_path):
    done = riskmatch("reproduce", "all", *SMOKE, "--data-dir", mnist, "--json")
    assert done.code == 0
    results = json.loads(done.out)
    assert list(results) == list(EXPERIMENTS)
    for name, one in results.items():
        assert all(one[part] for part in ("files", "result"))
        assert all(Path(file).name.startswith(name) for file in one["files"])
        assert all((tmp_path / file).stat().st_size for file in one["files"])
    shared = done.err.split("] vlcs\n")[1].splitlines()
    assert "colored-digits" in shared[0]
    assert "VLCS" in shared[0]
    assert shared[1].startswith("12 runs (12 ")


def test_a_failing_experiment_does_not_stop_the_others(riskmatch, mnist):
    riskmatch("reproduce", "pacs", *SMOKE)
    done = riskmatch("reproduce", "all", *SMOKE, "--as-is")
    assert done.code == 3
    total = len(EXPERIMENTS)
    assert all(f"[{k}/{total}] {name}\n" in done.err for k, name in enumerate(EXPERIMENTS, 1))
    assert "riskmatch: table1: " in done.err
    assert "Trained on colored-digits" in done.err
    last = done.err.splitlines()[-1]
    assert "table1, " in last
    assert last.endswith(": riskmatch reproduce all --budget smoke --as-is")
    files = [str(Path("reproduce-smoke", f"terraincognita-on-colored-digits.{s}")) for s in FORMATS]
    assert set(files) <= set(done.out.splitlines())


def test_table_on_stand_in_data_says_so(riskmatch, mnist, tmp_path):
    words = ["reproduce", "table8", *SMOKE, "--methods", "erm,irm", "--out", "here"]
    done = riskmatch(*words)
    assert done.code == 0
    note, runs, *_ = done.err.splitlines()
    assert "colored-digits" in note
    assert "VLCS" in note
    assert runs.startswith("6 runs (0 ")
    assert done.out.startswith(note)
    text = (tmp_path / "here/vlcs-on-colored-digits.md").read_text()
    assert text.startswith(f"# Table 8\n\n{note}")
    assert "The budget smoke" in text
    assert "`riskmatch reproduce vlcs --budget smoke --methods erm,irm`" in text
    assert note in (tmp_path / "here/vlcs-on-colored-digits.tex").read_text()
    lines = (tmp_path / "here/vlcs-on-colored-digits.csv").read_text().splitlines()
    assert [row["method"] for row in csv.DictReader(lines)] == ["ERM", "IRM"]
    assert riskmatch(*words, "--as-is").out == done.out
    words[words.index("erm,irm")] = "erm,mldg"
    assert "MLDG 3 of 3 runs" in riskmatch(*words, "--as-is").out


def test_tables_from_the_records_of_a_sweep_without_the_data(riskmatch, mnist, tmp_path):
    first, *_ = EXPERIMENTS["pacs"].plan(Scope("laptop", ("pacs",), methods=("rdm",)))
    folder = tmp_path / "sweep" / "runs" / first.config.id
    at_the_end = evaluation(1000, art_painting=(80, 80), photo=(90, 90))
    records.write(folder, RunRecord(first.config, (at_the_end,), "done"))
    words = ["--budget", "laptop", "--out", "sweep", "--as-is"]
    done = riskmatch("reproduce", "table2", *words, "--methods", "rdm")
    assert done.code == 0
    assert "| RDM              |          — |       — |" in done.out
    assert "PACS" in done.out
    assert "VLCS (no finished run), OfficeHome (no finished run)," in done.out
    done = riskmatch("reproduce", "pacs", *words, "--methods", "rdm")
    assert "RDM 59 of 60 runs" in done.out
    assert "heads on frozen features" in (tmp_path / "sweep/pacs.md").read_text()


def test_preset_is_that_of_the_runs_and_part_of_the_command(riskmatch, mnist, tmp_path):
    words = ["--methods", "erm,rdm", "--preset", "authors-code", "--jobs", "1", "--out", "here"]
    assert riskmatch("reproduce", "vlcs", *words, *SMOKE).code == 0
    text = (tmp_path / "here/vlcs-on-colored-digits.md").read_text()
    assert "--methods erm,rdm --preset authors-code`" in text
    configs = [records.read(folder).config for folder in (tmp_path / "here/runs").iterdir()]
    assert all(config.replacement for config in configs)
    assert {c.hparams.get("pool", "samples") for c in configs if c.method == "rdm"} == {"samples"}


def test_interrupt_stops_all(riskmatch, mnist, monkeypatch):
    from riskmatch.cli.progress import SweepDisplay

    def interrupt(self, board):
        raise KeyboardInterrupt

    monkeypatch.setattr(SweepDisplay, "change", interrupt)
    done = riskmatch("reproduce", "all", *SMOKE, "--data-dir", mnist)
    assert done.code == 3
    first, error, last = done.err.splitlines()
    assert first == f"[1/{len(EXPERIMENTS)}] table1"
    assert error.startswith("riskmatch: table1: Interrupted")
    assert "table1" in last


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        ("pacs --init erm", ["pacs", "init", "table1"]),
        ("all --seeds 1", ["all", "--seeds"]),
        ("table1 --preset paper", ["table1", "preset", "table2, "]),
        ("pacs --preset papre", ["preset", "'papre'", "'paper'"]),
        ("table1 --data pacs", ["table1", "data", "table2, efficiency"]),
        ("table3 --methods rdm", ["table3", "methods", "table1, table2, "]),
        ("fig2 --search-seeds 0", ["fig2", "search_seeds", "table1"]),
        ("table2 --data pacs,vcls", ["Table 2", "'vcls'", "'vlcs'"]),
        ("vlcs --methods rmd", ["'rmd'", "'rdm'"]),
        ("vlcs --methods no_such_module:Name", ["no_such_module:Name", "cannot be imported"]),
        ("pacs --budget laptop", ["pacs (riskmatch data get "]),
        ("pacs --as-is", ["No run of pacs", "reproduce-smoke"]),
    ],
)
def test_bad_input(riskmatch, mnist, words, facts):
    budget = () if "--budget" in words else SMOKE
    done = riskmatch("reproduce", *words.split(), *budget)
    assert done.code == 2
    assert all(fact in done.err for fact in facts)


def test_list_has_data_and_number_of_runs(riskmatch, mnist):
    listed = json.loads(riskmatch("reproduce", "--list", "--data-dir", mnist, "--json").out)
    assert listed["table1"]["data"] == {"colored-mnist": None}
    assert listed["pacs"] == {
        "name": "pacs",
        "paper": "Table 7",
        "summary": "accuracy by test domain on PACS",
        "data": {"pacs": "riskmatch data get pacs"},
        "options": ["methods", "preset"],
        "runs": {"smoke": 4 * 3, "laptop": 14 * 4 * 5 * 3, "paper": 14 * 4 * 20 * 10},
    }
    text = riskmatch("reproduce", "--list", "--data-dir", mnist).out
    table, to_get = text.split("Data to get:")
    assert "12 840 11,200" in table
    assert "pacs: riskmatch data get pacs\n" in to_get
    assert "colored-mnist" not in to_get
