"""What the Ray launcher computes without Ray: capacity, and the files that workers send back."""

import pytest

from riskmatch.runs.config import RunConfig
from riskmatch.runs.records import FILE, LOCK
from riskmatch.sweep import Ray
from riskmatch.sweep.launchers import ray

NODES = [
    {"Alive": True, "Resources": {"CPU": 8.0, "GPU": 2.0, "memory": 16.0 * 2**30}},
    {"Alive": True, "Resources": {"CPU": 5.0, "memory": 64.0 * 2**30}},
    {"Alive": False, "Resources": {"CPU": 100.0, "GPU": 8.0, "memory": 1e12}},
]
RUN = RunConfig("d", ("t",), "erm")


@pytest.mark.parametrize(
    ("launcher", "runs"),
    [
        (Ray(), 8 + 5),
        (Ray(cores=2), 4 + 2),
        (Ray(cores=2, gpus=0.5), 4),
        (Ray(gpus=1), 2),
        (Ray(memory=4), 4 + 5),
        (Ray(memory=0), 8 + 5),
        (Ray(cores=16), 0),
    ],
)
def test_capacity_counts_the_runs_that_fit_on_each_living_node(launcher, runs):
    assert launcher._capacity(NODES) == runs


def test_files_of_a_run_are_replaced_and_its_record_comes_last(tmp_path, monkeypatch):
    folder = tmp_path / RUN.id
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "1").write_bytes(b"old")
    (folder / LOCK).touch()
    written = []
    write = ray.write_whole
    monkeypatch.setattr(
        ray, "write_whole", lambda path, data: written.append(path.name) or write(path, data)
    )
    files = {f"{RUN.id}/{name}": name.encode() for name in (FILE, "checkpoints/2", "checkpoints/3")}
    ray._write(tmp_path, RUN, files)
    assert ray._read(tmp_path, RUN) == files
    assert written[-1] == FILE
    assert (folder / LOCK).exists()


def test_other_files_in_the_folder_of_a_run_stay(tmp_path):
    (tmp_path / RUN.id / "model").mkdir(parents=True)
    for name in ("notes.txt", "model/weights.safetensors"):
        (tmp_path / RUN.id / name).write_bytes(b"mine")
    assert ray._read(tmp_path, RUN) == {}
    ray._write(tmp_path, RUN, {f"{RUN.id}/{FILE}": b"record"})
    for name in ("notes.txt", "model/weights.safetensors"):
        assert (tmp_path / RUN.id / name).read_bytes() == b"mine"


def test_files_of_a_run_are_not_written_through_links(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / RUN.id).mkdir()
    (tmp_path / RUN.id / "checkpoints").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="link"):
        ray._write(tmp_path, RUN, {f"{RUN.id}/checkpoints/2": b"2"})
    assert list((tmp_path / "elsewhere").iterdir()) == []
