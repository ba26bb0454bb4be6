import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import train

from riskmatch.cli.show import BLOCKS
from riskmatch.runs import records

PLAN = shlex.split(
    "sweep plan s --data colored-digits --data-option samples=60 --methods erm,groupdro "
    "--test-domain 0.1 --draws 1 --trials 1 --steps 20 --eval-every 10 --model-option widths=[4]"
)


@pytest.fixture
def trained(riskmatch):
    """Ids of an ERM run and of a newer RDM run in runs/."""
    ids = []
    for method in "erm", "rdm":
        assert riskmatch(*train(method, "--quiet")).code == 0
        ids += [path.name for path in Path("runs").iterdir() if path.name not in ids]
    for time, name in enumerate(ids):
        os.utime(Path("runs") / name / records.FILE, (1e9 + time, 1e9 + time))
    return ids


def test_default_is_the_newest_run(riskmatch, trained):
    shown = riskmatch("show")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("RDM (two moments) on colored-digits without 0.1\n")
    assert shown.out == riskmatch("show", f"runs/{trained[1]}").out
    assert shown.out == riskmatch("show", trained[1][:8]).out


def test_single_run_shows_domains_and_histograms(riskmatch, trained, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = riskmatch("show", trained[0]).out
    assert max(map(len, out.splitlines())) <= 80
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    record = records.read(Path("runs") / trained[0])
    step = json.loads(riskmatch("show", trained[0], "--json").out)["run"]["step"]
    (at,) = (e for e in record.evaluations if e.step == step)
    for domain in "0.9", "0.8":
        cells = lines[domain].split()
        score = at.scores[domain]["val"]
        assert cells[2:4] == [f"{100 * score.metrics['accuracy']:.1f}", f"{score.risk:.3f}"]
        assert BLOCKS[-1] in lines[domain]
    assert "0.1 (test)" in out
    assert f"At step {step}:" in out
    assert lines["checkpoint:"].endswith(f"checkpoints/{step:08d}.safetensors")
    assert lines["worst"].startswith("worst training domain: 0.")


def test_json_output(riskmatch, trained):
    summary = json.loads(riskmatch("show", trained[0], "--json").out)
    assert (summary["run"]["id"], summary["run"]["status"]) == (trained[0], "done")
    shares = summary["run"]["histograms"]["shares"]
    assert list(shares) == ["0.9", "0.8", "0.1"]
    assert {len(one) for one in shares.values()} == {len(summary["run"]["histograms"]["edges"]) - 1}
    assert 0.9 < sum(map(sum, shares.values())) / 3 <= 1


def test_several_runs_are_compared(riskmatch, trained):
    out = riskmatch("show", "runs").out
    assert out.startswith("2 methods on colored-digits\n")
    assert re.search(r"^RDM \(two moments\) +ERM +\S+ +— +— +— +1 *$", out, re.MULTILINE)


def test_unfinished_sweep(riskmatch):
    assert riskmatch(*PLAN).code == 0
    empty = riskmatch("show", "s")
    assert empty.code == 2
    assert empty.err.endswith("Start with: riskmatch sweep run s\n")
    assert riskmatch("sweep", "run", "s", "--jobs", "1", "--quiet").code == 0
    done = riskmatch("show", "s").out
    assert done.startswith("2 methods on colored-digits\n")
    assert "missing" not in done
    shutil.rmtree(next(Path("s/runs").iterdir()))
    assert "note: Planned runs that are missing: 1 of 2." in riskmatch("show", "s").out


def test_show_does_not_load_torch(riskmatch, trained):
    code = (
        "import sys; from riskmatch.cli import main; "
        f"sys.exit(main(['show', '{trained[0]}']) or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=-1).returncode == 0


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ([], "There is no run in runs/. Name one, or train one: riskmatch train"),
        (["0a1b"], "There is no folder 0a1b, and no run of that id in runs/."),
        (["."], ". holds no run"),
    ],
)
def test_error_without_runs_names_the_cure(riskmatch, words, cause):
    shown = riskmatch("show", *words)
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith(f"riskmatch: {cause}")


def test_ambiguous_id_is_rejected(riskmatch):
    for name in "ab12", "ab34":
        (Path("runs") / name).mkdir(parents=True)
    error = riskmatch("show", "ab").err
    assert "2 runs in runs/ start with ab" in error


def test_failed_run_shows_its_error(riskmatch, trained):
    folder = Path("runs") / trained[0]
    records.rewind(folder, 0)
    records.end(folder, "failed", "The loss is not finite.")
    out = riskmatch("show", trained[0]).out
    assert "Status: failed: The loss is not finite." in out
    assert "note: The run has no evaluation yet." in out
