"""What matching does to the domains it is trained on: `python benchmarks/mechanism.py SWEEP`.

For every run of RDM: accuracy and mean risk on the
validation samples of each *training* domain, from the last evaluation before it acts to the
end; and accuracy on domains that are held out, at both. ERM, which never switches, is measured from
the median of these steps. Writes mechanism.md and mechanism.png into the folder of the sweep.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd

import riskmatch
from riskmatch.report.figures.canvas import figure_style
from riskmatch.report.style import GREY, VERMILION
from riskmatch.report.tables import Cell, Gain, Table

METHODS = {"erm": GREY, "rdm": VERMILION}
HELD_OUT = "before it acts", "at the last step"
WHAT = {"accuracy": (100.0, "accuracy, points"), "risk": (1.0, "mean risk")}


def changes(sweep: Path) -> pd.DataFrame:
    """Change of a quantity on a training domain, a row for each run and training domain."""
    results = riskmatch.results(sweep)
    switches = results.drop_duplicates("run")
    median = float(switches.loc[switches["variant"] == "rdm", "acts_from"].median())
    rows = []
    for variant in METHODS:
        for run, part in results[results["variant"] == variant].groupby("run"):
            start = median if variant == "erm" else part["acts_from"].iloc[0]
            part = part.sort_values("step")
            before, end = part[part["step"] <= start].iloc[-1], part.iloc[-1]
            (test,) = end["test_domains"]
            held_out = [100 * row[f"accuracy/train/{test}"] for row in (before, end)]
            for domain in sorted(set(end["domains"]) - set(end["test_domains"])):
                change: dict[str, Any] = {
                    what: scale * (end[f"{what}/val/{domain}"] - before[f"{what}/val/{domain}"])
                    for what, (scale, _) in WHAT.items()
                }
                key = {"method": variant, "title": end["title"], "domain": domain, "run": run}
                drawn = {"draw": end["draw"], "trial": end["trial"]}
                held = dict(zip(HELD_OUT, held_out, strict=True))
                rows.append({**key, **drawn, **change, "test": test, **held})
    return pd.DataFrame(rows)


def spreads(frame: pd.DataFrame, what: str) -> dict[str, dict[str, Gain]]:
    """Changes by title and domain, one for each draw and trial: their mean over test domains."""
    means = frame.groupby(["title", "domain", "draw", "trial"], sort=False)[what].mean()
    return {
        str(title): {
            str(domain): Gain(tuple(values), 1 if what == "accuracy" else 3)
            for domain, values in part.groupby("domain", sort=False)
        }
        for title, part in means.groupby("title", sort=False)
    }


def main(sweep: Path) -> None:
    from matplotlib import pyplot as plt

    frame = changes(sweep)
    domains = sorted(frame["domain"].unique())
    rows: list[tuple[Cell, ...]] = [
        (title, label, *(by_domain[domain] for domain in domains))
        for what, (_, label) in WHAT.items()
        for title, by_domain in spreads(frame, what).items()
    ]
    draws = frame.groupby("title")[["draw", "trial"]].apply(lambda p: len(p.drop_duplicates()))
    caption = (
        "Change on training domains, validation samples, from the last evaluation before the "
        "method acts to the end; ERM from the median of RDM's steps. Mean ± half of the 95 % "
        f"t-interval over {draws.min()} draws and trials, each the mean over test domains. Unit: "
        "these domains."
    )
    table = Table(caption, ("method", "change of", *domains), tuple(rows))
    means = frame.drop_duplicates("run").groupby(["title", "test"], sort=False)[[*HELD_OUT]].mean()
    held: list[tuple[Cell, ...]] = [
        (title, when, *(float(part.loc[(title, domain), when]) for domain in domains))
        for title, part in means.groupby("title", sort=False)
        for when in HELD_OUT
    ]
    second = Table(
        "Accuracy in per cent on domains that are held out, mean over the same runs.",
        ("method", "step", *domains),
        tuple(held),
    )
    text = f"{table.markdown()}\n\n{second.markdown()}\n"
    (sweep / "mechanism.md").write_text(text, "utf-8")
    with figure_style():
        figure, panels = plt.subplots(1, 2, figsize=(6.9, 2.4), layout="constrained", sharey=True)
        for axes, (what, (_, label)) in zip(panels, WHAT.items(), strict=True):
            axes.axvline(0, color="black", linewidth=0.6)
            by_title = spreads(frame, what).items()
            for k, ((title, gains), colour) in enumerate(
                zip(by_title, METHODS.values(), strict=True)
            ):
                shown = [gains[domain] for domain in domains]
                axes.errorbar(
                    [gain.mean for gain in shown],
                    [place + 0.2 * (k - 0.5) for place in range(len(domains))],
                    xerr=[gain.error or 0.0 for gain in shown],
                    fmt="o",
                    markersize=3,
                    color=colour,
                    label=title,
                )
            axes.set_xlabel(f"change of {label}")
            axes.set_yticks(range(len(domains)), [name.replace("_", " ") for name in domains])
        panels[0].invert_yaxis()
        panels[1].legend(frameon=False)
        figure.suptitle("Training domains, from the step at which the method acts to the end")
        figure.savefig(sweep / "mechanism.png", dpi=200)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
