"""Links in the folder of a run, as a sweep from elsewhere may hold, lead no write astray."""

import os
from dataclasses import replace

import pytest
from made_records import evaluation

from riskmatch.contract import OptimSpec
from riskmatch.engine import checkpoint
from riskmatch.engine.checkpoint import Notes, Snapshot, Values
from riskmatch.engine.loggers import TensorBoard
from riskmatch.files import append_line, write_whole
from riskmatch.runs import predictions, records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.records import is_locked, lock
from riskmatch.sweep import Slurm, run_all
from riskmatch.sweep.board import RunOutcome
from riskmatch.sweep.worker import record_failure

CONFIG = RunConfig("colored-digits", ("0.1",), "rdm", {"weight": 3.0})


@pytest.fixture
def victim(tmp_path):
    """A file outside the run that must stay as it is."""
    path = tmp_path / "victim"
    path.write_bytes(b"precious\n")
    yield path
    assert path.read_bytes() == b"precious\n"


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "runs" / CONFIG.id
    path.mkdir(parents=True)
    return path


def test_linked_lock_is_refused(folder, victim):
    (folder / "lock").symlink_to(victim)
    with pytest.raises(OSError, match="link"), lock(folder):
        pytest.fail("locked")
    assert not is_locked(folder)


def test_linked_temporary_file_is_replaced(folder, victim):
    (folder / f".{records.FILE}.riskmatch.tmp").symlink_to(victim)
    records.start(folder, CONFIG)
    assert records.read(folder).config == CONFIG
    assert sorted(path.name for path in folder.iterdir()) == [records.FILE]


def test_linked_record_is_not_appended_to(folder, victim):
    (folder / records.FILE).symlink_to(victim)
    with pytest.raises(OSError, match="link"):
        append_line(folder / records.FILE, "{}")
    write_whole(folder / records.FILE, b"own")
    assert not (folder / records.FILE).is_symlink()


@pytest.mark.parametrize("act", ["load", "save", "clear", "predictions", "rewind"])
def test_linked_folders_are_refused(folder, tmp_path, act):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for step in (1, 2, 3):
        (elsewhere / f"{step:08d}.safetensors").write_bytes(b"other work")
        (elsewhere / f"{step:08d}.npz").write_bytes(b"other work")
    before = sorted(elsewhere.iterdir())
    for name in (records.CHECKPOINTS, predictions.FOLDER):
        (folder / name).symlink_to(elsewhere)
    notes = Notes({}, 0.0, (1,))
    snapshot = Snapshot(Values(9, OptimSpec(), {}, {"drawn": 9}, notes), {})
    acts = {
        "load": lambda: checkpoint.load_last(folder, "run"),
        "save": lambda: checkpoint.save(folder, "run", snapshot),
        "clear": lambda: checkpoint.clear(folder),
        "predictions": lambda: predictions.write(folder, 9, {}),
        "rewind": lambda: predictions.rewind(folder, 0),
    }
    with pytest.raises(OSError, match="link"):
        acts[act]()
    assert sorted(elsewhere.iterdir()) == before


def test_linked_folder_of_a_run_is_refused(tmp_path):
    other, elsewhere = replace(CONFIG, seed=5), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / other.id).symlink_to(elsewhere)
    with pytest.raises(OSError, match="link"):
        records.start(tmp_path / other.id, other)
    assert record_failure(tmp_path, other, "x") == RunOutcome("failed", "x")
    assert not os.listdir(elsewhere)


def test_linked_folders_of_a_sweep_and_of_tensorboard_are_refused(folder, tmp_path):
    pytest.importorskip("tensorboard", reason="needs the extra riskmatch[tensorboard]")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for link in (tmp_path / "linked", folder / "tensorboard"):
        link.symlink_to(elsewhere)
    with pytest.raises(OSError, match="link"):
        run_all([CONFIG], tmp_path / "linked")
    with pytest.raises(OSError, match="link"):
        TensorBoard(folder.parent)(CONFIG, evaluation(10))
    (folder.parent / "slurm").symlink_to(elsewhere)
    with pytest.raises(OSError, match="link"):
        run_all([CONFIG], folder.parent, Slurm(cluster="local"))
    assert not os.listdir(elsewhere)


def test_pipe_in_place_of_a_record_does_not_block(folder):
    os.mkfifo(folder / records.FILE)
    with pytest.raises(OSError, match="a pipe, a socket or a device"):
        records.find(folder)


def test_line_after_a_failed_append_is_a_line_of_its_own(folder):
    records.start(folder, CONFIG)
    records.append(folder, evaluation(10))
    path = folder / records.FILE
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"kind": "evaluation", "st')  # the disk was full, and is no longer
    records.end(folder, "failed", "No space left on device")
    run = records.read(folder)
    assert (run.status, [e.step for e in run.evaluations]) == ("failed", [10])
    assert path.read_bytes().startswith(whole)
