"""Check what `riskmatch advise` and `riskmatch monitor` promise.

    python benchmarks/ship.py coverage WORK [SET …]
    python benchmarks/ship.py siblings WORK
    python benchmarks/ship.py alarms WORK

`coverage` counts how often the prediction interval of `advise` contains the truth. `advise` by
`leave-one-out` trains without every pair of domains. For a domain d, the runs without d and another
domain are those of advice that never saw d: they give the interval, and the run without d alone the
truth. Sets are digits, food, month and pacs, which needs a folder WORK/pacs, domain/class/image.
WORK keeps the runs, so that the same command continues.

`siblings` writes what `advise` probes for on WORK/emoji and WORK/pacs: what leaving out another
domain costs on each, and the pairs of siblings.

`alarms` trains ERM on WORK/pacs without each domain in turn, on frozen features, and again without
each of the others. It runs `monitor` on images of the domain left out, and of those of training.

Results are written to `results/ship`.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tables import LABELS, flights, food

import riskmatch
from riskmatch.advice.siblings import sibling_costs, siblings_among
from riskmatch.data import Domain, DomainSet, load_data
from riskmatch.data.colored_digits import colored, grey_digits
from riskmatch.models import seeded_trunk
from riskmatch.models.embedding import embed
from riskmatch.statistics import at_least_worst

RESULTS = Path(__file__).resolve().parent.parent / "results" / "ship"
AGREEMENTS = ("0.9", "0.8", "0.7", "0.6", "0.1")
TABLES = {"food": (food, "town"), "month": (flights, "month")}
ROWS = 400
"""Most rows of a domain of a table."""
SHORT: dict[str, Any] = {"methods": ["erm"], "draws": 1}
STEPS = {"steps": 300, "eval_every": 100}
SEARCH: dict[str, dict[str, Any]] = {
    "digits": SHORT,
    "food": {**SHORT, "choices": STEPS},
    "month": {**SHORT, "choices": STEPS},
    "pacs": {"methods": ["erm"]},
}
"""What `advise` compares: ERM, on frozen PACS with three settings, with its defaults elsewhere."""
WIDE = 0.6
"""Intervals that are wider say little, and are counted apart."""
EACH = 50
"""Images of each class of a domain that is a new site."""


def digits() -> DomainSet:
    """Coloured digits of five domains, no digit in two of them."""
    images, labels = grey_digits()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    domains = list[Domain]()
    for k, name in enumerate(AGREEMENTS):
        rows, generator = order[k :: len(AGREEMENTS)], torch.Generator().manual_seed(k)
        domains.append(colored(name, images[rows], labels[rows], 1000, generator))
    return DomainSet("five-colours", tuple(domains), classes=2)


def prepared(name: str, work: Path) -> tuple[str, dict[str, Any]]:
    """A data set, and the columns of a table."""
    if name not in TABLES:
        return ("ship:digits" if name == "digits" else str((work / name).resolve())), {}
    make, domain = TABLES[name]
    rows = make().sample(frac=1, random_state=0).groupby(domain).head(ROWS).sort_index()
    rows.to_csv(work / f"{name}.csv", index=False)
    label = LABELS["flights" if name == "month" else name]
    return str(work / f"{name}.csv"), {"label": label, "domain": domain}


def coverage(work: Path, names: list[str]) -> None:
    """Write the interval and the truth of every domain, and the table of counts."""
    rows = stored("coverage")
    for name in names:
        data, columns = prepared(name, work)
        advice = work / f"advice-{name}" / "advice.json"
        if not advice.exists():
            search = {**SEARCH[name], **columns}
            riskmatch.advise(data, advice.parent, selection="leave-one-out", **search)
        values = json.loads(advice.read_text())
        rows = [row for row in rows if row["set"] != name]
        for domain, check in values["checks"].items():
            expected, truth = check["expected"], check["value"]
            inside = expected["low"] <= truth <= expected["high"]
            row = {"set": name, "domain": domain, "method": values["method"], **expected}
            row |= {"truth": truth, "inside": inside, "no_worse": truth >= expected["worst"]}
            rows.append(row | {"wide": expected["high"] - expected["low"] > WIDE})
        write("coverage", rows, coverage_table(rows))


def coverage_table(rows: list[dict[str, Any]]) -> str:
    """A row per domain, and the counts by set."""
    lines = ["| set | domain | expected | 90 % interval | truth | inside | worst seen | no worse |"]
    lines.append("| :-- | :-- | --: | --: | --: | :-- | --: | :-- |")
    for row in rows:
        interval = f"{100 * row['low']:.1f} to {100 * row['high']:.1f}" + " (wide)" * row["wide"]
        inside, no_worse = ("yes" if row[name] else "no" for name in ("inside", "no_worse"))
        lines.append(
            f"| {row['set']} | {row['domain']} | {100 * row['accuracy']:.1f} | {interval} | "
            f"{100 * row['truth']:.1f} | {inside} | {100 * row['worst']:.1f} | {no_worse} |"
        )
    lines += [
        "",
        f"Wide: more than {100 * WIDE:.0f} points. Promised are 90 % inside, and m/(m + 1) of m "
        "domains no worse.",
        "",
        "| set | inside | of | mean width | inside, not wide | of | no worse | promised |",
        "| :-- | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for name in [*dict.fromkeys(row["set"] for row in rows), "all"]:
        some = [row for row in rows if name in ("all", row["set"])]
        narrow = [row["inside"] for row in some if not row["wide"]]
        width = 100 * np.mean([row["high"] - row["low"] for row in some])
        promised = sum(at_least_worst(row["sites"]) for row in some)
        lines.append(
            f"| {name} | {sum(row['inside'] for row in some)} | {len(some)} | {width:.1f} | "
            f"{sum(narrow)} | {len(narrow)} | {sum(row['no_worse'] for row in some)} | "
            f"{promised:.1f} |"
        )
    return "\n".join(lines) + "\n"


def siblings(work: Path) -> None:
    """Write the costs of leaving out a second domain on emoji and PACS, and who are siblings."""
    values, lines = {}, list[str]()
    for name in ("emoji", "pacs"):
        features = embed(load_data(work / name), seeded_trunk("lite0", {}))
        costs = sibling_costs(features)
        pairs = siblings_among(costs)
        found = [{"pair": pair, "cost": cost} for pair, cost in pairs.items()]
        values[name] = {"siblings": found, "costs": [vars(one) for one in costs]}
        alone = {one.domain: one.alone for one in costs}
        lines += [f"## {name}", "", "| domain | alone | " + " | ".join(alone) + " |"]
        lines.append("| :-- | --: |" + " --: |" * len(alone))
        both = {(one.domain, one.other): one.both for one in costs}
        for domain, accuracy in alone.items():
            cells = [
                f"**{100 * both[domain, other]:.1f}**"
                if {(domain, other), (other, domain)} & pairs.keys()
                else f"{100 * both[domain, other]:.1f}"
                if other != domain
                else ""
                for other in alone
            ]
            lines.append(f"| {domain} | {100 * accuracy:.1f} | " + " | ".join(cells) + " |")
        listed = [f"{a} and {b} ({100 * cost:.1f} points)" for (a, b), cost in pairs.items()]
        lines += ["", f"Siblings: {', '.join(listed) or 'none'}.", ""]
        if name == "emoji":  # the third of one artist is left out before
            some = tuple(d for d in features.domains if d.name != "fluent-high-contrast")
            costs = sibling_costs(replace(features, domains=some))
            fewer = {(one.domain, one.other): one.both for one in costs}
            three = (100 * fewer[pair] for pair in permutations(("fluent-flat", "fluent-modern")))
            text = "Without all three fluent: fluent-flat {:.1f}, fluent-modern {:.1f}."
            lines += [text.format(*three), ""]
    write("siblings", values, "\n".join(lines))


def alarms(work: Path) -> None:
    """Write the test of every domain of PACS as a new site, and of the domains trained on."""
    rows, domains = stored("monitor"), sorted(os.listdir(work / "pacs"))
    for without in domains[len(rows) :]:
        others, data = [d for d in domains if d != without], work / f"without-{without}"
        data.mkdir(exist_ok=True)
        for other in others:
            if not (data / other).exists():
                (data / other).symlink_to((work / "pacs" / other).resolve())
        folder = work / f"model-{without}"
        options = {"out": work / "monitored", "save": folder, "left_out": True, "resume": True}
        riskmatch.train(str(data), "erm", frozen=True, **options)
        found = {d: riskmatch.monitor(folder, images(work, d)) for d in domains}
        (new,) = found[without].sites.to_dict("records")
        row = {k: new[k] for k in ("left_out", "value", "reference", "p", "alarm")}
        row |= {"domain": without, "p_mmd2": float(found[without].tests["p"].iloc[0])}
        rows.append(row | {"trained": len(others)})
        rows[-1]["trained_alarms"] = sum(found[d].alarm for d in others)
        rows[-1]["trained_unlike"] = sum(bool(found[d].tests["p"].iloc[0] <= 0.05) for d in others)
        write("monitor", rows, alarms_table(rows))


def alarms_table(rows: list[dict[str, Any]]) -> str:
    """A row per domain left out."""
    lines = [
        "| new site | accuracy | left-out sites: mean | p | alarm | p of MMD² | alarms on sites of "
        "training | of these MMD² p ≤ 0.05 |",
        "| :-- | --: | --: | --: | :-- | --: | --: | --: |",
    ]
    for row in rows:
        alarm = "yes" if row["alarm"] else "no"
        lines.append(
            f"| {row['domain']} | {100 * row['value']:.1f} | {100 * row['reference']:.1f} | "
            f"{row['p']:.2g} | {alarm} | {row['p_mmd2']:.2g} | {row['trained_alarms']} of "
            f"{row['trained']} | {row['trained_unlike']} of {row['trained']} |"
        )
    return "\n".join(lines) + "\n"


def images(work: Path, domain: str) -> str:
    """A folder of some images of one domain, as a new site."""
    root = work / f"site-{domain}"
    for label in (work / "pacs" / domain).iterdir():
        (root / domain / label.name).mkdir(parents=True, exist_ok=True)
        for file in sorted(label.iterdir())[:EACH]:
            link = root / domain / label.name / file.name
            if not link.exists():
                link.symlink_to(file.resolve())
    return str(root)


def stored(name: str) -> list[dict[str, Any]]:
    """Rows that an earlier call has written."""
    file = RESULTS / f"{name}.json"
    return json.loads(file.read_text()) if file.exists() else []


def write(name: str, values: Any, text: str) -> None:
    """Write JSON values and their table."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(values, indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(text)
    print(text)


def main() -> None:
    """Run the command that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    intervals = commands.add_parser("coverage")
    intervals.add_argument("work", type=Path)
    intervals.add_argument("sets", nargs="*", default=[*SEARCH])
    for name in ("alarms", "siblings"):
        commands.add_parser(name).add_argument("work", type=Path)
    given = parser.parse_args()
    if given.command == "coverage":
        coverage(given.work, list(given.sets))
    else:
        {"alarms": alarms, "siblings": siblings}[given.command](given.work)


if __name__ == "__main__":
    main()
