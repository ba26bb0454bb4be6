"""Sweeps on Ray that lose nodes, worker processes, the raylet of this machine and the head node."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from sweeps import lines

from riskmatch.cli import main as riskmatch
from riskmatch.defaults import with_source
from riskmatch.runs.config import RunConfig
from riskmatch.sweep import Local, Ray, run_sweep, sweep_status
from riskmatch.sweep.launchers import ray as launcher
from riskmatch.sweep.plan import PlannedRun, extend

pytest.importorskip("ray", reason="ray is not installed; make test-all installs it")
# Ray warns about things of its own while it is imported and shut down.
pytestmark = pytest.mark.filterwarnings("default")

NODE = {"num_cpus": 1, "object_store_memory": 90 * 2**20}


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """Import methods from this folder; notice lost nodes within a second, and do not wait."""
    monkeypatch.chdir(Path(__file__).parent)
    monkeypatch.syspath_prepend(Path(__file__).parent)
    for name, value in {"initial_delay_ms": 0, "period_ms": 200, "failure_threshold": 2}.items():
        monkeypatch.setenv(f"RAY_health_check_{name}", str(value))
    monkeypatch.setattr(launcher, "PATIENCE", 1.0)


def lossy(outside, *victims):
    """Return a run whose attempts kill ``victims``, one each."""
    outside.mkdir()
    (outside / "victims").write_text("\n".join(victims))
    run = RunConfig(
        "colored-digits",
        ("0.1",),
        "lossy:Lossy",
        steps=60,
        eval_every=20,
        hparams={"folder": str(outside), "launcher": os.getpid()},
        data_options={"samples": 60},
        model_options={"widths": [8]},
    )
    return with_source(run)


def regular(run, number):
    return [replace(run, method="erm", hparams={}, source="", seed=seed) for seed in range(number)]


def planned(folder, runs):
    extend(folder, [PlannedRun(run, f"run {k}") for k, run in enumerate(runs)], "a test")
    return folder


def undisturbed(folder, runs):
    """Return the records of the runs, trained in this process, which no run kills."""
    assert len(run_sweep(planned(folder, runs), Local(jobs=1), trust=True).done) == len(runs)
    return lines(folder)


def steps(outside):
    return [int(step) for step in (outside / "steps").read_text().split()]


def test_lost_nodes_do_not_count_as_failures_and_crashes_do(tmp_path):
    from ray.cluster_utils import Cluster

    head = {**NODE, "num_cpus": 0, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(3):
            cluster.add_node(**NODE)
        unlucky = lossy(tmp_path / "unlucky", "process", "node", "node")
        faulty = lossy(tmp_path / "faulty", "worker", "worker", "worker")
        runs = [unlucky, *regular(unlucky, 3)]
        folder = planned(tmp_path / "sweep", [faulty, *runs])
        board = run_sweep(folder, Ray(address=cluster.address, retries=1), trust=True)
    finally:
        cluster.shutdown()
    assert list(board.failed) == [faulty.id]
    assert "WorkerCrashedError" in sweep_status(folder).failed[faulty.id]
    assert steps(tmp_path / "faulty") == [*range(31), *range(20, 31)]  # from the checkpoint
    assert steps(tmp_path / "unlucky") == [*range(31), *range(20, 31), *range(20, 60)]
    records = lines(folder)
    assert len(records.pop(faulty.id)) > 2
    assert records == undisturbed(tmp_path / "undisturbed", runs)


def test_runs_are_unfinished_when_ray_is_lost_and_the_next_command_continues(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("RAY_OVERRIDE_RESOURCES", '{"CPU": 1}')
    run = lossy(tmp_path / "lossy", "raylet", "raylet", "gcs_server")
    runs = [run, *regular(run, 1)]
    folder = planned(tmp_path / "sweep", runs)
    command = ["sweep", "run", str(folder), "--launcher", "ray", "--trust"]
    for options in ([], ["--jobs", "2"], []):
        assert riskmatch([*command, *options]) == 3
        assert "riskmatch sweep run" in capsys.readouterr().err.splitlines()[-1]
        assert sweep_status(folder).failed == {}
    assert riskmatch(command) == 0
    assert steps(tmp_path / "lossy")[:53] == [*range(31), *range(20, 31), *range(20, 31)]
    assert lines(folder) == undisturbed(tmp_path / "undisturbed", runs)
