"""Attack runs, sweeps and inputs, and count what holds: not part of `make test`.

    python benchmarks/soak.py [PART …]

- kills: SIGKILL at a random time, for every method, an ERM phase, steps in pieces and a frozen
  backbone. The run must end with the record and the weights of an undisturbed one.
- sweeps: SIGKILL three times during a sweep, whose records must equal those of an undisturbed one.
- disk: train on a disk with little space (this needs the right to mount). The run must end with
  one line of cause and, once there is space, continue to the result of an undisturbed one.
- inputs: malformed options, files and manifests. A command must end within a minute, with an exit
  code from 0 to 3 and no traceback.
- files: links, pipes and dangling links in place of files. The same must hold, and no file outside
  the run may change.

Parts that are named are tried again; the results of the others are kept in `results/soak.json`.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import sklearn.datasets  # noqa: F401  # before the forks, or every process would import it
import torch
import torch._dynamo
from PIL import Image
from safetensors.torch import load_file

import riskmatch.cli.data
import riskmatch.cli.import_
import riskmatch.cli.show
import riskmatch.cli.sweep
import riskmatch.cli.train
import riskmatch.data.doctor
import riskmatch.report
import riskmatch.runs.domainbed  # noqa: F401
from riskmatch.cli import main as run_command
from riskmatch.defaults import field_names, run_config
from riskmatch.engine.run import train
from riskmatch.objectives import methods
from riskmatch.runs.config import RunConfig
from riskmatch.runs.records import FILE

RESULTS = Path(__file__).resolve().parent.parent / "results"
LIMIT = 60.0
"""Seconds after which a command hangs."""
PAUSE = 0.005
"""Seconds between two looks at a process."""
KILLS, SWEEPS, LEVELS, INPUTS = 100, 5, 40, 100
Outcome = tuple[int, list[str]]
"""How many attacks were made, and those that did not hold."""


def forked(action: Callable[[], object], log: Path, after: float = LIMIT) -> int:
    """Exit code of a process that calls ``action``; -9 if it was killed ``after`` seconds."""
    pid = os.fork()
    if not pid:
        code = 99
        with open(log, "w") as file, contextlib.suppress(BaseException):
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            try:
                result = action()
                code = result if isinstance(result, int) else 0
            except BaseException:
                traceback.print_exc()
        os._exit(code)
    for _ in range(round(after / PAUSE)):  # not by the clock: this process may be stopped, too
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(PAUSE)
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def command(words: list[str], log: Path) -> str:
    """Empty if a command ends as it should; else what is wrong."""
    code = forked(partial(run_command, words), log)
    text = log.read_text(errors="replace")
    if code not in (0, 1, 2, 3):
        return f"exit code {code}"
    return "traceback" if "Traceback" in text or "--debug shows" in text else ""


def trace(folder: Path) -> object:
    """Record without times, and the last checkpoint, of a run."""
    lines = [json.loads(line) for line in (folder / FILE).read_text().splitlines()]
    for line in lines:
        for name in ("seconds", "seconds_per_step", "peak_memory"):
            line.pop(name, None)
    tensors = load_file(max((folder / "checkpoints").glob("0*.safetensors")))
    return lines, {name: value.numpy().tobytes() for name, value in tensors.items()}


def pictures(folder: Path) -> Path:
    """A small tree of images."""
    for domain in "abc":
        for label in ("cat", "dog"):
            for number in range(3):
                file = folder / domain / label / f"{number}.png"
                file.parent.mkdir(parents=True, exist_ok=True)
                Image.new("RGB", (32, 32), (number * 40, ord(domain), len(label))).save(file)
    return folder


def tiny(method: str, **changes: object) -> RunConfig:
    """A run of a second; warm-ups end half-way."""
    given: dict[str, object] = {"steps": 40, "eval_every": 10, "batch_size": 16, **changes}
    given |= {"data_options": {"samples": 80}, "model_options": {"widths": [16]}}
    given |= {"warmup": 20} if "warmup" in field_names(method) else {}
    return run_config(method, "colored-digits", ["0.1"], given=given)


def kills(out: Path, rng: random.Random) -> Outcome:
    """Kill runs of every method, of an ERM phase, in pieces, and on a frozen backbone."""
    runs = {name: tiny(name) for name in methods()}
    runs["rdm, pretrain"] = replace(tiny("rdm", pretrain=20), hparams={"warmup": 20})
    runs["rdm, accumulate"] = tiny("rdm", accumulate=8)
    frozen = {"steps": 40, "eval_every": 10, "batch_size": 4}
    tree = str(pictures(out / "pets"))
    runs["vrex, frozen"] = run_config("vrex", tree, ["a"], frozen=True, given=frozen)
    tried, failed = 0, []
    for number, (name, config) in enumerate(runs.items()):
        share = KILLS // len(runs) + (number < KILLS % len(runs))
        begun = time.monotonic()
        assert forked(partial(train, config, out / "whole"), out / "log") == 0
        usual, killed, held = time.monotonic() - begun, 0, True
        expected, folder = trace(out / "whole" / config.id), out / "killed"
        while killed < share or folder.exists():
            again = partial(train, config, folder, resume=True, checkpoint_every=3)
            after = rng.uniform(0.1, 1.1) * usual if killed < share else LIMIT
            code = forked(again, out / "log", after)
            killed += code == -signal.SIGKILL
            if code not in (0, -signal.SIGKILL) or killed > share:
                held = False
                break
            if code == 0:
                held = held and trace(folder / config.id) == expected
                shutil.rmtree(folder)
        shutil.rmtree(folder, ignore_errors=True)
        tried += share
        failed += [] if held else [f"{name}: {(out / 'log').read_text()[-300:]}"]
        print(f"  {name}: {share} kills, {'held' if held else 'FAILED'}", flush=True)
    return tried, failed


PLAN = shlex.split(
    "--data colored-digits --data-option samples=80 --methods erm,rdm --test-domain 0.1 --draws 2 "
    "--trials 1 --steps 60 --eval-every 20 --option warmup=20 --model-option widths=[16] --quiet"
)


def sweeps(out: Path, rng: random.Random) -> Outcome:
    """Kill sweeps three times each."""
    records, failed, usual = {}, [], 0.0
    for name in ["whole", *map(str, range(SWEEPS))]:
        folder = out / name
        forked(partial(run_command, ["sweep", "plan", str(folder), *PLAN]), out / "log")
        run = partial(run_command, ["sweep", "run", str(folder), "--jobs", "1", "--quiet"])
        codes = [
            forked(run, out / "log", rng.uniform(0.1, 0.4) * usual)
            for _ in range(3 if name != "whole" else 0)
        ]
        begun = time.monotonic()
        code = forked(run, out / "log", 5 * LIMIT)
        usual = usual or time.monotonic() - begun
        records[name] = (
            code,
            {p.parent.name: trace(p.parent) for p in folder.glob(f"runs/*/{FILE}")},
        )
        failed += [name] if records[name] != (0, records["whole"][1]) else []
        killed = codes.count(-signal.SIGKILL)
        print(f"  sweep {name}: {killed} kills, exit code {code}", flush=True)
    return SWEEPS, failed


def disk(out: Path, rng: random.Random) -> Outcome:
    """Train on a disk with more and more space left, then free it and continue."""
    small, config = out / "small", tiny("rdm")
    small.mkdir()
    words = "train colored-digits --method rdm --test-domain 0.1 --steps 40 --eval-every 10 --quiet"
    words += " --batch-size 16 --warmup 20 --data-option samples=80 --model-option widths=[16]"
    whole = [*shlex.split(words), "--out", str(out / "whole")]
    assert not command(whole, out / "log"), (out / "log").read_text()
    expected, failed = trace(out / "whole" / config.id), []
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], check=True)
    try:
        for level in range(LEVELS):
            free = level * 12 << 10
            (small / "filler").write_bytes(bytes((1 << 20) - free - (16 << 10)))
            fault = command([*shlex.split(words), "--out", str(small / "runs")], out / "log")
            (small / "filler").unlink()
            onward = [*shlex.split(words), "--out", str(small / "runs"), "--resume"]
            fault = fault or command(onward, out / "log")
            if not fault and trace(small / "runs" / config.id) != expected:
                fault = "another result"
            failed += [f"{free} bytes free: {fault}"] if fault else []
            shutil.rmtree(small / "runs", ignore_errors=True)
    finally:
        subprocess.run(["umount", small], check=True)
    return LEVELS, failed


def malformed(out: Path, rng: random.Random) -> Iterator[list[str]]:
    """Commands with malformed options and files."""
    base = shlex.split("train colored-digits --method rdm --test-domain 0.1 --steps 4 --out")
    base.append(str(out / "runs"))
    options = shlex.split("lr weight-decay dropout batch-size eval-every clip seed pretrain weight")
    options.append("warmup")
    for option in [*options, "lr-after", "trial"]:
        for value in ("nan", "-inf", "-7", "abc", "1e999"):
            yield [*base, f"--{option}={value}"]
    content = {"a.toml": b"lr = [1, 2]", "b.toml": b"\xff\xfe", "c.toml": b"lr = inf"}
    content["d.toml"] = b"[" * 9999
    good = b'path,label,domain\n1.png,cat,a\n2.png,dog,b\n{"path": "1.png", "label": 1}\n' * 9
    for number in range(36):
        damaged = bytearray(good)
        for _ in range(1 + number):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        content[f"{number}{('.csv', '.json', '.jsonl', '.parquet')[number % 4]}"] = bytes(damaged)
    for name, data in content.items():
        (out / name).write_bytes(data)
        words = [*base, "--config", str(out / name)]
        yield words if name.endswith("toml") else ["data", "doctor", str(out / name)]


def inputs(out: Path, rng: random.Random) -> Outcome:
    """Give commands what they cannot use."""
    commands = list(malformed(out, rng))[:INPUTS]
    faults = {" ".join(words): command(words, out / "log") for words in commands}
    return len(commands), [f"{words}: {fault}" for words, fault in faults.items() if fault]


def files(out: Path, rng: random.Random) -> Outcome:
    """Put links, pipes and dangling links in place of files."""
    places = [FILE, f".{FILE}.riskmatch.tmp", "lock", "checkpoints", "predictions", "plan.jsonl"]
    places += ["checkpoints/00000020.safetensors", "a/cat/0.png", "m.csv", "results.jsonl"]
    config, words = tiny("erm"), "train colored-digits --method erm --test-domain 0.1 --steps 40"
    words += " --eval-every 10 --batch-size 16 --data-option samples=80 --model-option widths=[16]"

    def stop(progress: object) -> None:
        if getattr(progress, "step", 0) == 25:
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        train(config, out / "base", on_step=stop, predictions=True)
    pictures(out / "pets")
    failed = []
    for kind in ("link", "pipe", "dangling"):
        for place in places:
            victim, work = out / "victim", out / "work"
            shutil.rmtree(work, ignore_errors=True)
            shutil.rmtree(victim, ignore_errors=True)
            shutil.copytree(out / "base" / config.id, victim)
            before = {p: p.read_bytes() for p in victim.rglob("*") if p.is_file()}
            shutil.copytree(out / "base", work / "runs")
            shutil.copytree(out / "pets", work, dirs_exist_ok=True)
            own = place not in (*places[5:6], *places[7:])
            target = (work / "runs" / config.id if own else work) / place
            shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
            source = victim / place if (victim / place).exists() else victim / FILE
            if kind == "pipe":
                os.mkfifo(target)
            else:
                target.symlink_to(source if kind == "link" else out / "absent")
            commands = [[*shlex.split(words), "--out", str(work / "runs"), "--resume"]]
            commands += [["show", str(work / "runs")], ["sweep", "status", str(work)]]
            if not own:
                commands += [["data", "doctor", str(work)], ["data", "doctor", str(work / "m.csv")]]
                commands += [["import", "domainbed", str(work), "--out", str(out / "imported")]]
            faults = [f"{w[0]}: {f}" for w in commands if (f := command(w, out / "log"))]
            if {p: p.read_bytes() for p in victim.rglob("*") if p.is_file()} != before:
                faults.append("a file outside the run has changed")
            failed += [f"{kind} in place of {place}: {'; '.join(faults)}"] if faults else []
    return 3 * len(places), failed


PARTS = {part.__name__: part for part in (kills, sweeps, disk, inputs, files)}


def main() -> None:
    torch.set_num_threads(1)
    file = RESULTS / "soak.json"
    record = json.loads(file.read_text()) if file.exists() else {}
    for name in sys.argv[1:] or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
            begun = time.monotonic()
            tried, failed = PARTS[name](Path(folder), random.Random(0))
        seconds = round(time.monotonic() - begun)
        record[name] = {"tried": tried, "held": tried - len(failed), "seconds": seconds}
        record[name]["failed"] = failed
        print(name, json.dumps(record[name]), flush=True)
        file.write_text(json.dumps(record, indent=2) + "\n")
    lines = ["| part | tried | held | seconds |", "| :-- | --: | --: | --: |"]
    lines += [f"| {n} | {r['tried']} | {r['held']} | {r['seconds']} |" for n, r in record.items()]
    command_ = "Written by `python benchmarks/soak.py`, which says what is tried and must hold."
    (RESULTS / "soak.md").write_text(f"{command_}\n\n" + "\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
