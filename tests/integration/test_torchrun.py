"""Several processes under torchrun: runs that lose one of them, and other people's loops."""

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from parallel_driver import check_processes, torchrun
from safetensors.torch import load_file

from riskmatch.runs import records

HERE = Path(__file__).parent


def test_three_processes_train_the_run_of_one(tmp_path):
    check_processes(3, tmp_path)


COMMAND = """
    -m riskmatch.cli train colored-digits --data-option samples=60 --test-domain 0.1
    --method stopped_method:StoppedMethod --steps 30 --eval-every 10 --batch-size 20 --lr 0.01
    --warmup 3 --optim sgd --device cpu
"""


def train(out, processes, *options, stopped_rank=None, stopped_by="", dropout=0.0):
    """Train the run of the command line; returns what it printed."""
    words = [*COMMAND.split(), "--dropout", str(dropout), "--out", str(out), *options]
    stop = {"STOPPED_RANK": str(stopped_rank), "STOPPED_BY": stopped_by}
    return subprocess.run(
        [sys.executable, *words] if processes == 1 else torchrun(processes, *words),
        env={**os.environ, **stop},
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def weights(out):
    (file,) = out.glob("*/checkpoints/00000030.safetensors")
    return {name: value for name, value in load_file(file).items() if name.startswith("model/")}


def record(out):
    (run,) = records.read_all(out)
    return run


@pytest.mark.parametrize(("before", "rank", "after"), [(2, 1, 3), (3, 0, 2), (3, 2, 1)])
def test_a_killed_process_is_named_and_the_run_resumes_with_another_number(
    tmp_path, before, rank, after
):
    lost = train(tmp_path / "lost", before, stopped_rank=rank, stopped_by="SIGKILL")
    assert lost.returncode != 0
    assert f"Rank {rank} stopped without an error" in lost.stderr
    assert "--resume" in lost.stderr
    assert lost.stderr.count("step 10/30") == 1
    assert [e.step for e in record(tmp_path / "lost").evaluations] == [10]
    if rank:
        assert f"Rank {rank} stopped" in record(tmp_path / "lost").error
    resumed = train(tmp_path / "lost", after, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert [e.step for e in record(tmp_path / "lost").evaluations] == [10, 20, 30]
    assert train(tmp_path / "whole", 1).returncode == 0
    for name, value in weights(tmp_path / "whole").items():
        assert (weights(tmp_path / "lost")[name] - value).abs().max() < 1e-5


def test_machines_name_the_first_and_need_no_folder(tmp_path):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    launcher = (
        f"{sys.executable} -m torch.distributed.run --nnodes 2 --nproc-per-node 1 "
        f"--master-addr localhost --master-port {port} --node-rank"
    )
    machines = [
        subprocess.Popen(
            [*launcher.split(), node, *COMMAND.split(), "--out", str(tmp_path / node)],
            env={**os.environ, "STOPPED_RANK": "0", "STOPPED_BY": "SIGKILL"},
            cwd=HERE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for node in "01"
    ]
    printed = [machine.communicate(timeout=300)[1] for machine in machines]
    assert "Rank 0 stopped without an error" in printed[1]
    assert [e.step for e in record(tmp_path / "0").evaluations] == [10]
    assert not (tmp_path / "1").exists()


def test_an_error_of_one_process_is_reported_by_the_first(tmp_path):
    failed = train(tmp_path, 2, stopped_rank=1, stopped_by="error")
    assert failed.returncode != 0
    assert failed.stderr.count("Rank 1 stopped with ValueError: the disk of this machine") == 1


def test_an_interrupted_run_resumes_to_the_same_bits(tmp_path):
    stopped = train(tmp_path / "two", 3, stopped_rank=1, stopped_by="SIGTERM", dropout=0.3)
    assert "Interrupted after step 13" in stopped.stderr
    assert train(tmp_path / "two", 3, "--resume", dropout=0.3).returncode == 0
    assert train(tmp_path / "one", 3, dropout=0.3).returncode == 0
    for name, value in weights(tmp_path / "one").items():
        assert torch.equal(weights(tmp_path / "two")[name], value), name


@pytest.mark.parametrize("loop", ["ddp", "ddp in pieces", "lightning", "accelerate"])
def test_loops_match_the_batch_of_all_processes(tmp_path, loop):
    if not loop.startswith("ddp") and importlib.util.find_spec(loop) is None:
        pytest.skip(f"{loop} is not installed; make test-all installs it")
    found = {}
    for processes in (1, 2, 3):
        file = tmp_path / f"{processes}.pt"
        words = [str(HERE / "loop_driver.py"), loop, str(file)]
        command = [sys.executable, *words] if processes == 1 else torchrun(processes, *words)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        # DistributedDataParallel on gloo sometimes aborts at exit, after everything is done: the
        # file counts, not the exit code.
        assert file.exists(), done.stderr
        found[processes] = torch.load(file)
    for processes in (2, 3):
        for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
            assert found[1][dtype].dtype == dtype
            assert (found[processes][dtype] - found[1][dtype]).abs().max() < tolerance
