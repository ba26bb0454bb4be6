"""The example scripts run as they stand, in the frameworks they are written for."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PICTURES = EXAMPLES.parent / "docs" / "assets" / "gallery"
GALLERY = [path for path in sorted(EXAMPLES.glob("*.py")) if "[PNG]" in path.read_text("utf-8")]
# A torchvision built for another torch cannot be imported, and these frameworks import it.
DRIVER = """
import contextlib, runpy, sys
from riskmatch.models.trunk import import_torchvision
with contextlib.suppress(ImportError):
    import_torchvision()
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("script", "package", "printed"),
    [
        ("lightning_module", "lightning", "'penalty'"),
        ("huggingface_trainer", "transformers", "train_loss"),
        ("skorch_net", "skorch", "valid_acc"),
    ],
)
def test_script_trains(script, package, printed):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed; make test-all installs it")
    assert printed in run(sys.executable, "-c", DRIVER, str(EXAMPLES / f"{script}.py"))


@pytest.mark.parametrize("script", [p.stem for p in GALLERY])
def test_script_of_the_gallery_draws_its_picture(script, tmp_path):
    picture = tmp_path / "folder" / "picture.png"
    run(sys.executable, str(EXAMPLES / f"{script}.py"), str(picture))
    with Image.open(picture) as drawn, Image.open(PICTURES / f"{script}.png") as committed:
        assert drawn.size == committed.size


def test_plain_ddp_gives_the_same_weights_with_any_number_of_processes():
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    printed = []
    for count in (1, 2, 3):
        script = ["--nproc-per-node", str(count), str(EXAMPLES / "plain_ddp.py")]
        done = subprocess.run([*torchrun, *script], capture_output=True, text=True, check=False)
        # DistributedDataParallel on gloo sometimes aborts at exit, after everything is done: the
        # printed line counts, not the exit code.
        printed += [line for line in done.stdout.splitlines() if line.startswith("loss")]
        assert len(printed) == count, done.stderr
    assert len(set(printed)) == 1


def test_accumulation_in_the_trainer_divides_the_loss():
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed; make test-all installs it")
    code = DRIVER.rpartition("runpy")[0] + (
        "module = runpy.run_path(sys.argv[0])\n"
        "import torch\n"
        "weights = [torch.cat([p.flatten() for p in module['main'](2, k).parameters()])"
        " for k in (1, 2)]\n"
        "print(float((weights[0] - weights[1]).abs().max()))\n"
    )
    printed = run(sys.executable, "-c", code, str(EXAMPLES / "huggingface_trainer.py"))
    assert float(printed.splitlines()[-1]) < 5e-3  # two Adam steps of 1e-3, not of other sizes
