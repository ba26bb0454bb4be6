"""Sweeps on Ray and through submitit, with processes and nodes that are killed on the way.

Ray is a cluster of two nodes on this machine. Instead of Slurm, submitit starts the jobs as
processes.
"""

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from sweeps import finished, lines

from riskmatch.cli import main as riskmatch
from riskmatch.defaults import with_source
from riskmatch.runs.config import RunConfig
from riskmatch.sweep import Local, Ray, Slurm, run_all, run_sweep, sweep_status
from riskmatch.sweep.board import with_erm_phases
from riskmatch.sweep.plan import PlannedRun, extend
from riskmatch.testing import launchers

STEPS = 60
SLURM = Slurm(cluster="local", jobs=2)


def needs(package):
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(
        missing, reason=f"{package} is not installed; make test-all installs it"
    )


needs_ray, needs_submitit = needs("ray"), needs("submitit")
# Ray and submitit warn about things of their own while they are imported and shut down.
pytestmark = pytest.mark.filterwarnings("default")


def tiny(method="erm", **fields):
    return RunConfig(
        "colored-digits",
        ("0.1",),
        method,
        steps=STEPS,
        eval_every=STEPS // 3,
        data_options={"samples": 60},
        model_options={"widths": [8]},
        **fields,
    )


def planned(folder, outside):
    """Plan 24 runs, three of which kill the process that trains them, and two ERM phases."""
    regular = [tiny(m, seed=s) for s in range(7) for m in ("erm", "vrex")]
    pretrained = [
        tiny(m, seed=s, pretrain=20, hparams={"warmup": 0} if m == "rdm" else {})
        for s in range(2)
        for m in ("rdm", "vrex", "irm")
    ]
    fatal = [
        tiny(
            "riskmatch.testing.launchers:KilledOnce",
            hparams={"marker": str(outside / str(number)), "launcher": os.getpid()},
        )
        for number in range(3)
    ]
    runs = [*pretrained, *fatal, *regular, tiny("groupdro")]
    extend(folder, [PlannedRun(run, f"run {k}") for k, run in enumerate(runs)], "a test")
    return {run.id for run in fatal}


@pytest.fixture(scope="module")
def kills(tmp_path_factory):
    """Folder of the markers of killed processes."""
    return tmp_path_factory.mktemp("kills")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, kills):
    """The sweep, trained in this process, which no run kills."""
    folder = tmp_path_factory.mktemp("undisturbed")
    planned(folder, kills)
    assert len(run_sweep(folder, Local(jobs=1), trust=True).done) == 26
    return folder


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 2, "object_store_memory": 90 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    cluster.node = node
    yield cluster
    cluster.shutdown()


@pytest.fixture(scope="module")
def connected(cluster):
    """Connection that all launches share, so that worker processes import torch once."""
    import ray

    ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


def train_and_kill(folder, kills, launcher, on_change=lambda board: None):
    """Train the sweep; return the runs that failed and those that were to be killed."""
    for marker in kills.iterdir():
        marker.unlink()
    fatal = planned(folder, kills)
    board = run_sweep(folder, launcher, trust=True, on_change=on_change)
    assert len(list(kills.iterdir())) == 3
    assert sweep_status(folder).failed == board.failed
    return set(board.failed), fatal


@needs_ray
def test_ray_trains_each_run_once_though_a_node_and_three_workers_die(
    tmp_path, cluster, kills, undisturbed
):
    second = cluster.add_node(**cluster.node)
    removed = []

    def remove(board):
        if not removed and finished(tmp_path) >= 8 and trains_on(second):
            removed.append(len(board.done))
            cluster.remove_node(second, allow_graceful=False)

    ray = Ray(address=cluster.address)
    failed, _ = train_and_kill(tmp_path, kills, ray, remove)
    assert removed
    assert not failed
    assert lines(tmp_path) == lines(undisturbed)


def trains_on(node):
    """Whether a worker process of this node of Ray trains a run."""
    raylet = node.all_processes["raylet"][0].process.pid
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == raylet and "_train" in (stat.parent / "cmdline").read_text():
                return True
        except OSError:  # has ended
            continue
    return False


@pytest.mark.parametrize(
    "launcher", [pytest.param(SLURM, marks=needs_submitit), Local(jobs=2)], ids=["slurm", "local"]
)
def test_sweep_with_three_killed_processes_is_retried(launcher, tmp_path, kills, undisturbed):
    failed, fatal = train_and_kill(tmp_path, kills, launcher)
    assert failed == fatal
    assert len(run_sweep(tmp_path, launcher, trust=True, retry=True).done) == 3
    assert lines(tmp_path) == lines(undisturbed)


@needs_ray
def test_ray_cluster_that_does_not_exist_is_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"'127\.0\.0\.1:1'.*ray start --head"):
        run_all([tiny()], tmp_path, Ray(address="127.0.0.1:1"))


@needs_ray
@pytest.mark.parametrize("check", launchers.CHECKS, ids=lambda check: check.__name__)
def test_ray_launcher_conforms(check, connected):
    check(lambda: Ray(jobs=2))


@needs_ray
@pytest.mark.parametrize("check", launchers.CHECKS[2:], ids=lambda check: check.__name__)
def test_ray_launcher_that_copies_records_back_conforms(check, connected):
    check(lambda: Ray(jobs=2, copy_back=True))


@needs_ray
def test_command_runs_a_sweep_on_ray(tmp_path, connected, capsys):
    extend(tmp_path, [PlannedRun(tiny(seed=seed), f"run {seed}") for seed in range(2)], "a test")
    words = ["sweep", "run", str(tmp_path), "--launcher", "ray"]
    assert riskmatch([*words, "--gpus", "0.5"]) == 2
    error = capsys.readouterr().err
    assert "'GPU': 0.5" in error.splitlines()[-1]
    assert riskmatch([*words, "--cores", "1", "--retries", "0"]) == 0
    output = capsys.readouterr()
    assert "All 2 runs are done" in output.out
    assert "time left unknown, 2 at a time" in output.err


@needs_submitit
@pytest.mark.parametrize("check", launchers.CHECKS, ids=lambda check: check.__name__)
def test_slurm_launcher_conforms(check):
    check(lambda: SLURM)


@needs_submitit
def test_preempted_job_is_requeued_and_continues_after_the_same_step(tmp_path, monkeypatch):
    monkeypatch.chdir(Path(__file__).parent)  # where the job can import the method
    hparams = {"steps_file": str(tmp_path / "steps")}
    run = with_source(tiny("preempted_once:PreemptedOnce", hparams=hparams))
    logged = []

    def read_logs(board):
        logged.extend(path.read_text() for path in tmp_path.glob("runs/slurm/*/*.err"))

    board = run_all([run], tmp_path / "runs", SLURM, on_change=read_logs)
    assert board.done == [run]
    steps = [int(step) for step in (tmp_path / "steps").read_text().split()]
    assert steps == list(range(STEPS))
    assert "preempted" in "".join(logged)


@needs_submitit
def test_files_of_slurm_stay_for_failed_jobs_alone(tmp_path):
    good, bad = tiny(), tiny(seed=1, lr=1e30)
    assert run_all([good], tmp_path / "runs", SLURM).done == [good]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [good.id]
    board = run_all([tiny(seed=2), bad], tmp_path / "runs", SLURM)
    assert list(board.failed) == [bad.id]
    left = [path.name for path in (tmp_path / "runs" / "slurm").glob("*/*")]
    assert len({name.split("_")[0] for name in left}) == 1  # job
    assert {name.rpartition(".")[2] for name in left} >= {"out", "err"}


COMMANDS = {
    # Starts every task of an array as a process.
    "sbatch": """
import os, re, shutil, subprocess, sys
array = re.search(r"--array=0-(\\d+)", open(sys.argv[1]).read())
job = str(os.getpid())
shutil.copy(sys.argv[1], f"{__file__}.{job}.submitted")
for task in range(int(array[1]) + 1) if array else [None]:
    place = {"SLURM_JOB_ID": job}
    if task is not None:
        place |= {"SLURM_ARRAY_JOB_ID": job, "SLURM_ARRAY_TASK_ID": str(task)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.Popen(["sh", sys.argv[1]], env={**os.environ, **place}, **quiet)
print("Submitted batch job", job)
""",
    "srun": """
import os, sys
command = sys.argv[sys.argv.index("-u") - 1 :]
os.execvp(command[0], command)
""",
    "sacct": "print('JobID|State|NodeList')",
}
"""Commands of Slurm, as far as submitit calls them here."""


@pytest.fixture
def slurm_commands(tmp_path, monkeypatch):
    """A folder of commands that stand in for Slurm."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, code in COMMANDS.items():
        (folder / name).write_text(f"#!{sys.executable}\n{code}")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setattr("riskmatch.sweep.launchers.slurm.SLURM_POLL_SECONDS", 0.5)
    return folder


@needs_submitit
def test_runs_are_submitted_in_arrays_with_their_options(tmp_path, slurm_commands):
    runs = [
        tiny(m, pretrain=20, hparams={"warmup": 0} if m == "rdm" else {}) for m in ("rdm", "vrex")
    ]
    launcher = Slurm(240, partition="gpu", cores=2, memory=8, sbatch={"account": "lab"})
    board = run_all(runs, tmp_path / "runs", launcher)
    assert {run.id for run in board.done} == {run.id for run in with_erm_phases(runs)}
    phase, array = sorted(
        (path.read_text() for path in slurm_commands.glob("*.submitted")),
        key=lambda text: "--array" in text,
    )
    assert "--array" not in phase
    assert "#SBATCH --array=0-1%2" in array
    for option in ("time=240", "partition=gpu", "cpus-per-task=2", "mem=8GB", "account=lab"):
        assert f"#SBATCH --{option}\n" in array
    assert "#SBATCH --requeue\n" in array
    assert "gpus" not in array
    assert not (tmp_path / "runs" / "slurm").exists()


@needs_submitit
def test_jobs_that_slurm_does_not_accept_are_one_line(tmp_path, slurm_commands):
    (slurm_commands / "sbatch").write_text("#!/bin/sh\necho 'invalid\npartition' >&2; exit 1")
    with pytest.raises(ValueError, match=r"^Slurm does not accept .*invalid partition"):
        run_all([tiny()], tmp_path / "runs", Slurm())


@needs_submitit
def test_machine_without_slurm_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ValueError, match=r"srun.*--launcher local"):
        run_all([tiny()], tmp_path / "runs", Slurm())
