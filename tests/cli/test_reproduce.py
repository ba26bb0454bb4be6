import csv
import json
import shutil
import subprocess
import sys

import pytest
from digits import real
from rich.cells import cell_len

from riskmatch.experiments import EXPERIMENTS

SMOKE = ("--budget", "smoke", "--jobs", "1")


def test_list_has_every_experiment(riskmatch, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = riskmatch("reproduce", "--list").out.splitlines()
    assert max(map(cell_len, lines[:-1])) <= 80
    monkeypatch.setenv("COLUMNS", "300")
    rows = {
        line.split()[0]: line for line in riskmatch("reproduce", "--list").out.splitlines() if line
    }
    assert all(one.summary in rows[name] for name, one in EXPERIMENTS.items())
    assert rows["table1"].split()[-3:] == ["22", "66", "990"]
    assert set(json.loads(riskmatch("reproduce", "--list", "--json").out)) == set(EXPERIMENTS)


def test_table1_trains_once_and_writes_its_files(riskmatch, mnist, tmp_path):
    words = ["reproduce", "table1", *SMOKE, "--methods", "rdm,erm", "--init", "erm"]
    words += ["--data-dir", mnist]
    done = riskmatch(*words)
    assert done.code == 0
    assert done.err.startswith("3 runs (0 done")
    assert "RDM, two moments from ERM, λ = 5000, seed 0" in done.err
    assert "| RDM, two moments |            ERM | 72.4 ± 1.0 |" in done.out
    out = tmp_path / "reproduce-smoke"
    assert {path.name for path in out.iterdir()} == {
        *("runs", "table1.md", "table1.tex", "table1.csv", "table1.png")
    }
    assert len(list((out / "runs").iterdir())) == 3  # with the shared ERM phase
    text = (out / "table1.md").read_text()
    assert "All 2 planned runs are done." in text
    assert "`riskmatch reproduce table1 --budget smoke --methods rdm,erm --init erm`" in text
    assert "The budget smoke" in text
    again = riskmatch(*words, "--json")
    assert again.err.startswith("3 runs (3 done")
    rows = json.loads(again.out)["result"]
    assert rows == list(csv.DictReader((out / "table1.csv").read_text().splitlines()))
    assert {(row["method"], row["selection"]) for row in rows} == {
        (method, f"colored-mnist-{rule}") for method in ("erm", "rdm") for rule in ("best", "last")
    }


@pytest.mark.parametrize(
    ("name", "words"), [("table1", ("--methods", "oracle", "--init", "random")), ("fig2", ())]
)
def test_coloured_digits_of_scikit_learn_replace_mnist(
    name, words, riskmatch, tmp_path, monkeypatch
):
    monkeypatch.delenv("RISKMATCH_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for _ in ("train", "as is"):
        done = riskmatch("reproduce", name, *SMOKE, *words, "--out", "out")
        assert done.code == 0
        words = (*words, "--as-is")
    stem = tmp_path / "out" / f"{name}-on-colored-digits"
    assert stem.with_suffix(".png").exists()
    note = "scikit-learn's handwritten digits) instead of ColoredMNIST"
    text = stem.with_suffix(".md" if name == "table1" else ".json").read_text()
    assert note in text.replace("\\u2019", "'")


def test_same_seed_gives_identical_files(riskmatch, mnist, tmp_path):
    words = ["reproduce", "table1", *SMOKE, "--methods", "rdm,rdm-mmd", "--data-dir", mnist]
    for out in ("once", "twice"):
        assert riskmatch(*words, "--out", out).code == 0
    for name in ("table1.md", "table1.tex", "table1.csv", "table1.png"):
        assert (tmp_path / "once" / name).read_bytes() == (tmp_path / "twice" / name).read_bytes()


def test_search_seeds(riskmatch, mnist, tmp_path):
    words = ["reproduce", "table1", *SMOKE, "--methods", "rdm", "--init", "random"]
    words += ["--seeds", "0,1", "--search-seeds", "1", "--data-dir", mnist]
    assert riskmatch(*words).code == 0
    text = (tmp_path / "reproduce-smoke" / "table1.md").read_text()
    assert "All 2 planned runs are done." in text
    assert "--seeds 0,1 --search-seeds 1 --init random`" in text


def test_as_is_trains_nothing(riskmatch, mnist, tmp_path):
    words = ["reproduce", "table1", *SMOKE, "--init", "random", "--data-dir", mnist]
    done = riskmatch(*words, "--methods", "rdm", "--as-is")
    assert (done.code, done.out) == (2, "")
    assert "No run of table1 is finished in reproduce-smoke" in done.err
    assert riskmatch(*words, "--methods", "rdm").code == 0
    done = riskmatch(*words, "--methods", "rdm,vrex", "--as-is")
    assert (done.code, done.err) == (0, "")
    text = (tmp_path / "reproduce-smoke" / "table1.md").read_text()
    assert "1 of 2 planned runs are missing" in text


def test_interrupt_writes_finished_runs_and_says_how_to_continue(
    riskmatch, mnist, tmp_path, monkeypatch
):
    from riskmatch.cli.progress import SweepDisplay

    def interrupt(self, board):
        if len(board.done) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(SweepDisplay, "change", interrupt)
    words = ["reproduce", "table1", *SMOKE, "--methods", "erm,oracle", "--init", "random"]
    words += ["--data-dir", mnist]
    done = riskmatch(*words, "--quiet")
    assert (done.code, done.out) == (3, "")
    assert "1 of 2 runs are done" in done.err
    assert "To continue: riskmatch reproduce table1 " in done.err
    text = (tmp_path / "reproduce-smoke" / "table1.md").read_text()
    assert "1 of 2 planned runs are missing" in text
    assert "- Oracle from random weights, steps = 600, seed 0 (`" in text


def test_fig2_can_be_drawn_again_from_its_json(riskmatch, mnist, tmp_path):
    done = riskmatch("reproduce", "fig2", *SMOKE, "--data-dir", mnist, "--out", "here", "--json")
    assert done.code == 0
    assert set(json.loads(done.out)["result"]) == {"ERM", "RDM, two moments"}
    record = json.loads((tmp_path / "here" / "fig2.json").read_text())
    labels = {f"p = {p}" for p in (0.1, 0.2, 0.5, 0.9)}
    assert all(set(panel) == labels for panel in record["panels"].values())
    riskmatch("figure", "here/fig2.json", "-o", "again.png", "--width", "page")
    assert (tmp_path / "again.png").read_bytes() == (tmp_path / "here/fig2.png").read_bytes()
    for folder in (tmp_path / "here/runs").glob("*/checkpoints"):
        shutil.rmtree(folder)
    done = riskmatch("reproduce", "fig2", *SMOKE, "--data-dir", mnist, "--out", "here", "--as-is")
    assert done.code == 2
    assert "no checkpoint of step" in done.err
    assert "keep='all'" in done.err


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        ("tabel1 --budget smoke", ["'tabel1'", "'table1'"]),
        ("--budget smoke", ["NAME", "--list"]),
        ("table1", ["--budget smoke, laptop or paper"]),
        ("table1 fig2 --budget smoke", ["table1 fig2"]),
        ("table1 --budget smoke --methods rmd", ["'rmd'", "Table 1"]),
        ("table1 --budget smoke --seeds 0,x", ["--seeds", "integer", "'x'"]),
        ("table1 --budget smoke --jobs 0", ["jobs", "at least 1"]),
        ("table1 --budget smoke --device gpu", ["gpu", "cpu"]),
        ("fig2 --budget smoke --methods rdm", ["methods", "fig2", "table1, table2, domainnet, "]),
    ],
)
def test_bad_input(riskmatch, mnist, words, facts):
    done = riskmatch("reproduce", *words.split(), "--data-dir", mnist)
    assert done.code == 2
    assert all(fact in done.err for fact in facts)


def test_without_mnist_the_command_that_gets_it_is_named(riskmatch, mnist):
    done = riskmatch("reproduce", "table1", "--budget", "laptop")
    assert done.code == 2
    assert "colored-mnist (riskmatch data get mnist)" in done.err


@pytest.mark.needs_data
def test_all_of_table1_on_mnist_at_the_budget_smoke(tmp_path):
    real()
    words = ["reproduce", "table1", *SMOKE, "--out", str(tmp_path), "--quiet"]
    done = subprocess.run([sys.executable, "-m", "riskmatch.cli", *words], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert "All 22 planned runs are done." in (tmp_path / "table1.md").read_text()
