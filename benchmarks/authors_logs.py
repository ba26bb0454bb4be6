"""What the authors' sweep logs on PACS hold, and which printed numbers they give.

`python benchmarks/authors_logs.py LOGS` reads the folder of DomainBed's `results.jsonl` files and
writes audit.json and audit.md to results/authors-logs.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import riskmatch
from riskmatch.cli.app import main as command
from riskmatch.report.comparison import tables_of

OUT = Path(__file__).resolve().parent.parent / "results" / "authors-logs"
NAMES = {  # hyper-parameter in the logs: (ours, default and range of the paper)
    "dgpm_lambda": ("λ", "5", "U(0.1, 10)"),
    "batch_size": ("batch size", "88", "U(70, 100)"),
    "dgpm_penalty_anneal_iters": ("warm-up", "1500", "U(800, 2700)"),
    "lr": ("learning rate", "5e-05", "10^U(−4.5, −4)"),
    "dgpm_lr": ("learning rate after the warm-up", "1.5e-05", "U(8e-6, 2e-5)"),
    "variance_weight": ("variance regularisation", "0.004", "U(0.001, 0.007)"),
    "weight_decay": ("weight decay", "0", "10^U(−8, −5)"),
    "resnet_dropout": ("dropout", "0", "{0, 0.003, 0.03}"),
}


def audit(logs: Path) -> dict[str, Any]:
    """Counts, hyper-parameters and chosen runs of the logs."""
    lines = [path.read_text("utf-8").splitlines() for path in sorted(logs.rglob("results.jsonl"))]
    runs = [[json.loads(line) for line in log] for log in lines]
    first = [run[0] for run in runs]
    hparams = {json.dumps(run["hparams"], sort_keys=True) for run in first}
    drawn = [run["hparams"] for run in first if run["args"]["hparams_seed"]]
    default = next(run["hparams"] for run in first if not run["args"]["hparams_seed"])
    values = {name: sorted({draw[name] for draw in drawn}) for name in NAMES}
    found: dict[str, Any] = {
        "runs": len(runs),
        "test_domains": len({tuple(run["args"]["test_envs"]) for run in first}),
        "trials": len({run["args"]["trial_seed"] for run in first}),
        "draws": len({run["args"]["hparams_seed"] for run in first}),
        "distinct_hparams": len(hparams),
        "evaluations": sorted({len(run) for run in runs}),
        "last_step": sorted({run[-1]["step"] for run in runs}),
        "hparams": {name: {"default": default[name], "drawn": values[name]} for name in NAMES},
        "memory_gb": sorted({round(max(line["mem_gb"] for line in run), 1) for run in runs}),
    }
    with tempfile.TemporaryDirectory() as folder:
        if command(["import", "domainbed", str(logs), "--out", folder, "--quiet"]):
            raise SystemExit(f"{logs} cannot be imported.")
        for rule in ("train-val", "test-val"):
            chosen = riskmatch.choose(folder, rule)
            picks = chosen[["test_domain", "trial", "step", "acts", "accuracy"]]
            found[rule] = json.loads(picks.to_json(orient="records"))
            (table,) = tables_of(folder, rule)
            head, *rest = table.markdown().split("\n| ")
            kept = [line for line in rest if line.startswith(("method", ":--", "RDM"))]
            found[f"{rule} table"] = "\n| ".join([head, *kept])
    return found


def text(found: dict[str, Any]) -> str:
    """The audit as Markdown."""
    trials: dict[int, list[float]] = {}
    for row in found["train-val"]:
        trials.setdefault(row["trial"], []).append(100 * row["accuracy"])
    means = [fmean(values) for values in trials.values()]
    rows = []
    for name, (label, default, range_) in NAMES.items():
        drawn = found["hparams"][name]["drawn"]
        shown = [f"{value:.4g}" if value > 1000 else f"{value:.3g}" for value in drawn]
        span = ", ".join(shown) if len(shown) < 3 else f"{shown[0]} to {shown[-1]}"
        rows.append(
            f"| {label} | {default} | {found['hparams'][name]['default']:g} | {range_} | {span} |"
        )
    acting = sum(row["acts"] for row in found["train-val"])
    return f"""# The authors' logs of RDM on PACS

{found["runs"]} runs: {found["test_domains"]} test domains × {found["trials"]} trials × \
{found["draws"]} draws, of which the first has the default hyper-parameters in both trials: \
{found["distinct_hparams"]} distinct settings. Every run has {found["evaluations"][0]} evaluations \
up to step {found["last_step"][0]}. The paper states 20 draws and ten repetitions. The method is \
called `DGPM2` there; other methods, data sets and the match L are not in the logs.

| hyper-parameter | default, paper | default, logs | range, paper | drawn, logs |
| --- | --: | --: | --- | --- |
{chr(10).join(rows)}

`train-val` gives the printed row of RDM, with its ±: standard errors over \
{found["trials"]} trials (denominator n), where the paper states standard deviations. The averages \
of the trials are {means[0]:.1f} and {means[1]:.1f}; their standard error is \
{pstdev(means) / math.sqrt(len(means)):.1f}, which the paper prints in its Table 2. \
{acting} of {len(found["train-val"])} chosen steps are after the warm-up. Peak memory is \
{found["memory_gb"][0]} to {found["memory_gb"][-1]} GB by batch size.

{found["train-val table"]}

The same runs by `test-val`, the oracle:

{found["test-val table"]}
"""


def write(logs: Path, out: Path = OUT) -> None:
    """Write the audit."""
    found = audit(logs)
    out.mkdir(parents=True, exist_ok=True)
    content = {key: value for key, value in found.items() if not key.endswith("table")}
    (out / "audit.json").write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    (out / "audit.md").write_text(text(found), "utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
