"""Run riskmatch under the lowest versions that pyproject.toml declares: `make test-lowest`.

    python tests/lowest.py PYTHON310

Not part of `make test`: it makes a virtual environment in out/lowest, for which it downloads about
4 GB. Of the extras that users install, export is left out, as it needs a newer torch.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "out" / "lowest"
EXTRAS = ["images", "mlflow", "parquet", "ray", "slurm", "tensorboard", "timm"]

IMPORTS = """
import importlib, pkgutil, riskmatch
found = [module.name for module in pkgutil.walk_packages(riskmatch.__path__, "riskmatch.")]
for name in found:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(found), "modules of", riskmatch.__file__)
"""
DATA = """
import pathlib, numpy, pandas, PIL.Image
random = numpy.random.default_rng(0)
late = random.random(300) < 0.5
columns = {"delay": late + random.normal(size=300), "carrier": random.choice(["AA", "UA"], 300)}
columns |= {"airport": numpy.array(["EWR", "JFK", "LGA"])[numpy.arange(300) % 3], "late": late}
visits = pandas.DataFrame(columns)
visits.to_csv("visits.csv", index=False)
visits.to_parquet("visits.parquet")
for number in range(36):
    path = pathlib.Path("pictures", "abc"[number % 3], ["dark", "light"][number % 2])
    path.mkdir(parents=True, exist_ok=True)
    pixels = random.integers(128 * (number % 2), 128 + 128 * (number % 2), (64, 64, 3))
    PIL.Image.fromarray(pixels.astype("uint8")).save(path / f"{number}.png")
"""
TABLE = "--label late --domain airport --steps 60 --eval-every 20"
RDM = f"{TABLE} --method rdm --warmup 20"
IMAGES = "--test-domain c --steps 4 --eval-every 2"
COMMANDS = f"""
demo --out demo
train visits.csv {RDM} --test-domain JFK --log tensorboard --log mlflow
train visits.parquet {RDM} --test-domain LGA --quiet
train visits.csv {RDM} --all-domains --save model --quiet
predict model visits.csv --out predictions.csv
data doctor pictures
train pictures {IMAGES} --method rdm --warmup 1
train pictures {IMAGES} --method erm --backbone timm:test_vit --model-option pretrained=false
sweep plan sweep --data visits.csv {TABLE} --methods rdm --option warmup=20 --draws 1
sweep run sweep --launcher ray
report runs -o report.html
"""


def lowest(requirements: Sequence[str]) -> Iterator[str]:
    """Yield each requirement with the lowest version that it allows."""
    for requirement in map(Requirement, requirements):
        if requirement.name != "riskmatch":  # an extra that includes another
            (version,) = [s.version for s in requirement.specifier if s.operator == ">="]
            marker = f"; {requirement.marker}" if requirement.marker else ""
            yield f"{requirement.name}=={version}{marker}"


def run(*words: object) -> None:
    """Run a program in the folder; a failure ends this one with the same exit code."""
    print("$", *("…" if "\n" in str(word) else word for word in words), flush=True)
    start = time.monotonic()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = subprocess.run([*map(str, words)], cwd=FOLDER, env=environment).returncode
    print(f"  {'failed' if code else 'passed'} in {time.monotonic() - start:.0f} s", flush=True)
    if code:
        sys.exit(code)


def main(python: str) -> None:
    version = "import sys; sys.exit(sys.version_info[:2] != (3, 10))"
    python = shutil.which(python) or ""
    if not python or subprocess.run([python, "-c", version], stderr=subprocess.DEVNULL).returncode:
        sys.exit(f"{sys.argv[1]} is not Python 3.10; name one: make test-lowest PYTHON310=PATH")
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    build, project = config["build-system"]["requires"], config["project"]
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    run(os.path.abspath(python), "-m", "venv", "venv")
    pip = ["venv/bin/python", "-m", "pip", "--disable-pip-version-check"]
    run(*pip, "-qq", "install", *lowest(build))
    requirements = [*project["dependencies"]]
    for extra in EXTRAS:
        requirements += project["optional-dependencies"][extra]
    run(*pip, "-qq", "install", "--no-build-isolation", ROOT, *lowest(requirements))
    run(*pip, "check")
    run(*pip, "list")
    run("venv/bin/python", "-c", IMPORTS)
    run("venv/bin/python", "-c", DATA)
    for command in COMMANDS.strip().splitlines():
        run("venv/bin/riskmatch", *shlex.split(command))


if __name__ == "__main__":
    main(sys.argv[1])
