"""``riskmatch import`` from the command line."""

import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from made_records import evaluation, run

from riskmatch.data.images.benchmark import BENCHMARKS
from riskmatch.runs import records

PACS = BENCHMARKS["pacs"]

ARGS = {"algorithm": "ERM", "dataset": "SVIRO", "test_envs": [0], "trial_seed": 0}


def write(folder, text):
    folder.mkdir(parents=True)
    (folder / "results.jsonl").write_text(text)


def line(step, **args):
    scores = {f"env{env}_{split}_acc": 0.5 for env in range(2) for split in ("in", "out")}
    return json.dumps({"args": {**ARGS, **args}, "hparams": {}, "step": step, **scores}) + "\n"


def test_import_prints_tables_and_can_be_repeated(riskmatch):
    for env in (0, 1):
        write(Path("sweep") / str(env), line(0, test_envs=[env]))
    write(Path("sweep") / "bad", "{")
    done = riskmatch("import", "domainbed", "sweep")
    assert done.code == 0
    bad = Path("sweep") / "bad" / "results.jsonl"
    assert done.err == f"riskmatch: {bad}, line 1: incomplete: the file ends within a line\n"
    assert "Read 2 runs from 3 files into runs.\n1 fault listed above.\n" in done.out
    assert "| ERM    | 50.0 | 50.0 |    50.0 |" in done.out
    assert len(records.read_all(Path("runs"))) == 2
    again = riskmatch("import", "domainbed", "sweep")
    assert "Read 2 runs from 3 files into runs, 2 of them there already." in again.out


def test_json_and_quiet(riskmatch):
    write(Path("sweep"), line(0) + line(0, test_envs=[1]))
    values = json.loads(riskmatch("import", "domainbed", "sweep", "--json").out)
    assert values["runs"] == 2
    assert values["tables"][0]["rows"][0]["env0 mean"] == 50.0
    assert riskmatch("import", "domainbed", "sweep", "--quiet").out == ""


def test_several_data_sets_have_an_overview(riskmatch):
    write(Path("sweep"), line(0) + line(0, dataset="Other"))
    done = riskmatch("import", "domainbed", "sweep", "--select", "test-val")
    assert done.out.lower().count("selection: test-val") == 4
    assert "| method | Other | SVIRO | average |" in done.out


def test_other_splits_are_not_averaged(riskmatch):
    write(Path("sweep"), line(0) + line(0, holdout_fraction=0.5))
    (usual, odd) = json.loads(riskmatch("import", "domainbed", "sweep", "--json").out)["tables"]
    assert usual["caption"].startswith("SVIRO: accuracy on the 80 % part of the test domain")
    assert odd["caption"].startswith("SVIRO, holdout_fraction 0.5: accuracy on ")


def test_imported_runs_and_own_runs_share_tables(riskmatch):
    write(Path("sweep"), "".join(line(0, test_envs=[env]) for env in (0, 1)))
    imported = riskmatch("import", "domainbed", "sweep", "--out", "my runs")
    last = imported.out.splitlines()[-1]
    words = shlex.split(last.split(": riskmatch ")[1])
    assert words == ["sweep", "table", "my runs"]
    table = riskmatch(*words)
    assert table.out.strip() in imported.out
    ours = run("ab", evaluation(0, env0=(70, 60), env1=(70, 60)), data="SVIRO", method="rdm")
    for domain in ("env0", "env1"):
        config = replace(ours.config, test_domains=(domain,), model="unknown")
        records.write(Path("my runs") / config.id, replace(ours, config=config))
    rows = json.loads(riskmatch(*words, "--select", "test-val", "--json").out)[0]["rows"]
    assert {row["method"]: row["env0 mean"] for row in rows} == {"ERM": 50.0, "RDM": 70.0}
    assert r"\begin{tabular}" in riskmatch(*words, "--format", "latex").out
    assert "training (s)" in riskmatch(*words, "--costs").out


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("nowhere", "There is no nowhere. Give the folder of a sweep of DomainBed."),
        ("empty", "empty has no results.jsonl."),
        ("broken", "No results.jsonl in broken has a run"),
        ("broken --select oracle", "oracle"),
    ],
)
def test_bad_input_is_one_line(riskmatch, words, cause):
    Path("empty").mkdir()
    write(Path("broken"), "")
    done = riskmatch("import", "domainbed", *words.split())
    assert done.code == 2
    assert cause in done.err
    assert not Path("runs").exists()


def test_crashed_runs_are_named(riskmatch):
    Path("sweep/a").mkdir(parents=True)
    Path("sweep/a/err.txt").touch()
    done = riskmatch("import", "domainbed", "sweep")
    assert done.code == 2
    crashed, cause = done.err.splitlines()
    assert crashed.startswith(f"riskmatch: {Path('sweep/a')}: left out: no results.jsonl")
    assert "sweep has no results.jsonl" in cause


def test_unknown_format_is_rejected(riskmatch):
    done = riskmatch("import", "domainbet", "x")
    assert done.code == 2
    assert "Did you mean 'domainbed'?" in done.err


def authors_logs():
    root = Path(os.environ.get("RISKMATCH_DATA", "")) / "authors-logs" / "PACS"
    if "RISKMATCH_DATA" not in os.environ or not root.exists():
        pytest.skip("authors-logs is not there: set RISKMATCH_DATA")
    return str(root)


@pytest.mark.needs_data
def test_authors_logs_give_the_row_of_the_paper(tmp_path):
    root = authors_logs()
    words = ["import", "domainbed", root, "--out", str(tmp_path / "runs")]
    code = [sys.executable, "-m", "riskmatch.cli", *words]
    done = subprocess.run(code, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    (row,) = (text for text in done.stdout.splitlines() if text.startswith("| RDM  "))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == ["RDM", "88.4 ± 0.2", "81.3 ± 1.6", "97.1 ± 0.1", "81.8 ± 1.1", "87.2"]


@pytest.mark.needs_data
def test_authors_logs_can_be_shown(riskmatch):
    riskmatch("import", "domainbed", authors_logs(), "--quiet")
    values = json.loads(riskmatch("show", "runs", "--json").out)
    (row,), (headline,) = values["comparison"]["rows"], values["headline"]["rows"]
    numbers = [(round(row[f"{d} mean"], 1), round(row[f"{d} se"], 1)) for d in PACS.domains]
    assert numbers == [(88.4, 0.2), (81.3, 1.6), (97.1, 0.1), (81.8, 1.1)]
    assert round(row["average"], 1) == round(headline["train-val mean"], 1) == 87.2
    assert values["notes"] == ["Chosen before the method acts: 0 of 8."]
