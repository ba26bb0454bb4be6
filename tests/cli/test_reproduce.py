import csv
import json
import subprocess
import sys

import pytest
from digits import real

from riskmatch.experiments import fig2
from riskmatch.experiments.catalogue import EXPERIMENTS

SMOKE = ("--budget", "smoke", "--jobs", "1")


def test_the_list_has_every_experiment(riskmatch):
    text = " ".join(riskmatch("reproduce", "--list").out.split())
    assert all(f"{name} " in text and one.summary in text for name, one in EXPERIMENTS.items())
    assert set(json.loads(riskmatch("reproduce", "--list", "--json").out)) == set(EXPERIMENTS)


def test_a_cut_of_the_table_from_end_to_end_and_then_nothing_is_left(riskmatch, mnist, tmp_path):
    words = ["reproduce", "table1", *SMOKE, "--methods", "rdm,erm", "--init", "erm"]
    words += ["--data-dir", mnist]
    done = riskmatch(*words)
    assert done.code == 0
    assert done.err.splitlines()[0].startswith("3 runs, 0 of them done before; about 0:")
    assert "RDM, two moments from ERM, λ = 5000, seed 0: done  (nothing left)" in done.err
    assert "| RDM, two moments |            ERM | 72.4 ± 1.0 |" in done.out
    out = tmp_path / "reproduce-smoke"
    assert {path.name for path in out.iterdir()} == {
        *("runs", "table1.md", "table1.tex", "table1.csv", "table1.png")
    }
    assert len(list((out / "runs").iterdir())) == 3  # with the ERM phase that both share
    text = (out / "table1.md").read_text()
    assert "All 2 runs of the plan are in." in text
    command = "riskmatch reproduce table1 --budget smoke --methods rdm,erm --init erm"
    assert f"Written by `{command}`." in text
    assert "are not to be compared with the paper's" in text
    again = riskmatch(*words, "--json")
    assert again.err == "3 runs, 3 of them done before; nothing left at 1 at a time\n"
    rows = json.loads(again.out)["result"]
    assert rows == list(csv.DictReader((out / "table1.csv").read_text().splitlines()))
    assert {(row["method"], row["selection"]) for row in rows} == {
        (method, selection) for method in ("erm", "rdm") for selection in ("test-val", "last")
    }


def test_the_same_seed_twice_gives_the_same_table_to_the_last_digit(riskmatch, mnist, tmp_path):
    words = ["reproduce", "table1", *SMOKE, "--methods", "rdm,rdm-mmd", "--data-dir", mnist]
    for out in ("once", "twice"):
        assert riskmatch(*words, "--out", out).code == 0
    for name in ("table1.md", "table1.tex", "table1.csv", "table1.png"):
        assert (tmp_path / "once" / name).read_bytes() == (tmp_path / "twice" / name).read_bytes()


def test_a_search_on_one_seed_runs_the_chosen_values_on_the_others(riskmatch, mnist, tmp_path):
    words = ["reproduce", "table1", *SMOKE, "--methods", "rdm", "--init", "random"]
    words += ["--seeds", "0,1", "--search-seeds", "1", "--data-dir", mnist]
    assert riskmatch(*words).code == 0
    text = (tmp_path / "reproduce-smoke" / "table1.md").read_text()
    assert "All 2 runs of the plan are in." in text
    assert "--seeds 0,1 --search-seeds 1 --init random`" in text


def test_as_is_trains_nothing(riskmatch, mnist, tmp_path):
    words = ["reproduce", "table1", *SMOKE, "--init", "random", "--data-dir", mnist]
    done = riskmatch(*words, "--methods", "rdm", "--as-is")
    assert (done.code, done.out) == (2, "")
    assert "None of these runs is done in reproduce-smoke." in done.err
    assert riskmatch(*words, "--methods", "rdm").code == 0
    done = riskmatch(*words, "--methods", "rdm,vrex", "--as-is")
    assert (done.code, done.err) == (0, "")
    text = (tmp_path / "reproduce-smoke" / "table1.md").read_text()
    assert "1 of the 2 runs of the plan are missing:" in text


def test_an_interrupt_shows_what_is_there_and_how_to_go_on(riskmatch, mnist, tmp_path, monkeypatch):
    from riskmatch.cli.board import Shown

    def strike(self, board):
        if len(board.done) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Shown, "__call__", strike)
    words = ["reproduce", "table1", *SMOKE, "--methods", "erm,oracle", "--init", "random"]
    words += ["--data-dir", mnist]
    done = riskmatch(*words, "--quiet")
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("riskmatch: Interrupted; 1 of 2 runs are done. To go on: riskmatch")
    text = (tmp_path / "reproduce-smoke" / "table1.md").read_text()
    assert "1 of the 2 runs of the plan are missing:" in text
    assert "- Oracle from random weights, steps = 600, seed 0 (`" in text


def test_figure_2_is_drawn_and_can_be_drawn_again_from_its_record(riskmatch, mnist, tmp_path):
    done = riskmatch("reproduce", "fig2", *SMOKE, "--data-dir", mnist, "--out", "here", "--json")
    assert done.code == 0
    assert set(json.loads(done.out)["result"]) == {"ERM", "RDM, two moments"}
    record = json.loads((tmp_path / "here" / "fig2.json").read_text())
    assert all(set(named) == {"0.1", "0.2", "0.5", "0.9"} for named in record.values())
    fig2.draw(record).savefig(tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes() == (tmp_path / "here/fig2.png").read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("tabel1 --budget smoke", "Unknown table or figure 'tabel1'. Did you mean 'table1'?"),
        ("--budget smoke", "What? Name one of table1, fig2, table2, table3, efficiency,"),
        ("table1", "How much? Give --budget smoke, laptop or paper."),
        ("table1 fig2 --budget smoke", "riskmatch reproduce takes NAME, not table1 fig2."),
        ("table1 --budget smoke --methods rmd", "Unknown method of the table 'rmd'"),
        ("table1 --budget smoke --seeds 0,x", "--seeds lists whole numbers, as in 0,1,2, not 0,x."),
        ("table1 --budget smoke --jobs 0", "--jobs is a number of runs, one or more, not 0."),
        (
            "fig2 --budget smoke --methods rdm",
            "--methods does not apply to fig2; it does to table1, table2, domainnet, ",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(riskmatch, mnist, words, message):
    done = riskmatch("reproduce", *words.split(), "--data-dir", mnist)
    assert done.code == 2
    assert message in done.err


def test_without_mnist_nothing_runs_and_the_cure_is_told(riskmatch, mnist):
    done = riskmatch("reproduce", "table1", *SMOKE)
    assert done.code == 2
    assert (
        "Not on this machine, but can be had: colored-mnist (riskmatch data get mnist)." in done.err
    )


@pytest.mark.needs_data
def test_the_whole_smoke_on_mnist(tmp_path):
    real()
    words = ["reproduce", "table1", *SMOKE, "--out", str(tmp_path), "--quiet"]
    done = subprocess.run([sys.executable, "-m", "riskmatch.cli", *words], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert "All 21 runs of the plan are in." in (tmp_path / "table1.md").read_text()
