"""Rewrite results/ in the current form of records and plans, once.

    python benchmarks/migrate_results.py FILE

Records and plans get their configuration in full, what is known about the method, and ids that hash
what differs from declared defaults; folders and references follow. Ids of planned runs without a
record are those of the grid of Table 1. The ids before and after are written to FILE as JSON.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from riskmatch.experiments.colored_mnist import grid_runs
from riskmatch.files import to_json
from riskmatch.runs.config import RunConfig

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
LATER = {
    "accumulate": 0,
    "replacement": False,
    "augment_validation": False,
    "risk": "cross-entropy",
    "optim": "adam",
    "eval_fraction": 1.0,
    "patience": 0,
    "average": "none",
    "source": "",
}
"""Fields that were left out of records and ids where they have these values."""
ABSENT = {"pool": "samples", "estimate": "halves"}
"""Fields of methods that were left out where they have these values."""


def old_id(config: dict[str, Any]) -> str:
    """The id of a configuration, as it was."""
    values = {k: v for k, v in config.items() if k not in LATER or v != LATER[k]}
    hparams = config["hparams"].items()
    values["hparams"] = {k: v for k, v in hparams if k not in ABSENT or v != ABSENT[k]}
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def current(values: dict[str, Any]) -> RunConfig:
    """The configuration of a line with its hyper-parameters in full."""
    config = RunConfig.from_json(values)
    absent = {k: v for k, v in ABSENT.items() if k in config.about.defaults}
    return RunConfig.from_json({**values, "hparams": {**absent, **values["hparams"]}})


def main() -> None:
    sys.path.insert(0, str(ROOT))  # results/colored-mnist-settings has a method of benchmarks/
    ids: dict[str, str] = {}
    for budget in ("smoke", "laptop", "paper"):
        for run in grid_runs(budget):
            # Its hyper-parameters were not stated in full.
            values = {**run.config.to_json(), "hparams": dict(run.config.hparams)}
            ids[old_id(values)] = run.config.id
    for path in sorted(RESULTS.rglob("records.jsonl")):
        first, rest = path.read_text().split("\n", 1)
        header = json.loads(first)
        config = current(header["config"])
        assert header["id"] == path.parent.name == old_id(header["config"]), path
        ids[header["id"]] = config.id
        new = {"id": config.id, "config": config.to_json(), "method": config.about.to_json()}
        order = ("kind", "version", "id", "config", "method", "data", "parts")
        header = {name: {**header, **new}[name] for name in order if name in {**header, **new}}
        path.write_text(f"{to_json(header)}\n{rest}")
        subprocess.run(["git", "mv", path.parent, path.parent.with_name(config.id)], check=True)
    for path in sorted(RESULTS.rglob("plan.jsonl")):
        lines = []
        for line in path.read_text().splitlines():
            values = json.loads(line)
            if "config" in values:
                config = current(values["config"])
                ids[old_id(values["config"])] = config.id
                values |= {"config": config.to_json(), "method": config.about.to_json()}
            lines.append(json.dumps(values, ensure_ascii=False) + "\n")
        path.write_text("".join(lines))
    assert len(set(ids.values())) == len(ids)
    files = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).split("\n")
    for path in (ROOT / name for name in files if name.endswith((".md", ".py", ".json", ".toml"))):
        before = path.read_text()
        after = re.sub(r"\b[0-9a-f]{16}\b", lambda match: ids.get(match[0], match[0]), before)
        if after != before:
            path.write_text(after)
            print(path)
    Path(sys.argv[1]).write_text(json.dumps(ids, indent=1))
    print(f"{len(ids)} ids")


if __name__ == "__main__":
    main()
