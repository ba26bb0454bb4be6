"""A record with a line that is not its own."""

import json
import shlex
from pathlib import Path

import pytest
from tiny import train

from riskmatch.runs.records import FILE

PLAN = shlex.split(
    "sweep plan s --data colored-digits --data-option samples=60 --methods erm,rdm "
    "--test-domain 0.1 --draws 1 --trials 2 --steps 20 --eval-every 10 --option warmup=5 "
    "--model-option widths=[4]"
)


def test_damaged_record_is_named_with_a_cure(riskmatch):
    riskmatch(*train("erm", "--quiet"))
    (file,) = Path("runs").glob(f"*/{FILE}")
    file.write_text(file.read_text() + "{}\n")
    for more in ([], ["--resume"]):
        again = riskmatch(*train("erm", *more))
        assert (again.code, again.out) == (2, "")
        for fact in (f"{file}, line 5, is not a line of a record", f"remove {file.parent} to"):
            assert fact in again.err


def test_run_without_checkpoints_is_started_again_by_restart_alone(riskmatch):
    riskmatch(*train("erm", "--quiet"))
    (file,) = Path("runs").glob(f"*/{FILE}")
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    for path in (file.parent / "checkpoints").iterdir():
        path.unlink()
    result = riskmatch(*train("erm", "--resume"))
    assert result.code == 2
    for fact in (str(file.parent), "step 20", "--restart"):
        assert fact in result.err
    assert riskmatch(*train("erm", "--restart", "--quiet")).code == 0


@pytest.mark.parametrize("lines", [b"{}\n", b"{}\nnull\n"])
def test_record_with_unknown_lines_is_one_failure(riskmatch, tmp_path, lines):
    assert riskmatch(*PLAN).code == 0
    riskmatch("sweep", "run", "s", "--jobs", "1", "--quiet")
    path = min((tmp_path / "s" / "runs").glob(f"*/{FILE}"))
    path.write_bytes(path.read_bytes() + lines)
    where = f"{path.relative_to(tmp_path)}, line "
    status = json.loads(riskmatch("sweep", "status", "s", "--json").out)
    assert (status["done"], status["failed"]) == (3, 1)
    assert where in status["failures"][0]["error"]
    assert f"remove {path.parent.relative_to(tmp_path)} to" in status["failures"][0]["error"]
    table = riskmatch("sweep", "table", "s")
    assert table.code == 0
    assert where in table.err
    ran = riskmatch("sweep", "run", "s", "--jobs", "1")
    assert ran.code == 3
    assert "1 of 4 runs failed; the first: " in ran.err
    retried = riskmatch("sweep", "retry", "s", "--jobs", "1")
    assert (retried.code, where in retried.err) == (3, True)


def damage_line(path):
    lines = path.read_text().splitlines(keepends=True)
    lines[1] = lines[1][:40] + "\n"
    path.write_text("".join(lines))


def replace_by_folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("damage", "where"), [(damage_line, ", line 2"), (replace_by_folder, "Is a directory")]
)
def test_every_command_skips_a_run_that_cannot_be_read(riskmatch, tmp_path, damage, where):
    assert riskmatch(*PLAN).code == 0
    riskmatch("sweep", "run", "s", "--jobs", "1", "--quiet")
    path = min((tmp_path / "s" / "runs").glob(f"*/{FILE}"))
    damage(path)
    status = json.loads(riskmatch("sweep", "status", "s", "--json").out)
    assert (status["done"], status["failed"]) == (3, 1)
    assert path.parent.name == status["failures"][0]["id"]
    assert where in status["failures"][0]["error"]
    for words in (["sweep", "table", "s"], ["show", "s"], ["report", "s"]):
        read = riskmatch(*words)
        assert read.code == 0, read.err
        assert path.parent.name in read.err or path.parent.name in read.out or words[0] == "report"
    for verb in ("run", "retry"):
        trained = riskmatch("sweep", verb, "s", "--jobs", "1")
        assert trained.code == 3
        assert path.parent.name in trained.err
        assert where in trained.err


def test_truncated_files_of_a_run_stop_neither_show_nor_report(riskmatch):
    riskmatch(*train("erm", "--quiet"))
    (folder,) = Path("runs").iterdir()
    files = sorted([*(folder / "predictions").iterdir(), *(folder / "checkpoints").iterdir()])
    for file in files:
        file.write_bytes(file.read_bytes()[:100])
    shown = riskmatch("show", str(folder))
    assert shown.code == 0
    assert ".npz is damaged" in " ".join(shown.out.split())
    assert riskmatch("report", str(folder)).code == 0
    assert ".npz is damaged" in Path("report.html").read_text()
    assert all(file.exists() for file in files)  # commands that read rename nothing
