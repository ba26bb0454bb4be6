"""Hours that the committed runs took, by folder; writes results/bench/costs.md."""

from __future__ import annotations

from pathlib import Path

import riskmatch

RESULTS = Path(__file__).resolve().parent.parent / "results"
MADE_BY = {  # folder: what it reproduces
    "colored-mnist": "`table1`, `fig2`",
    "pacs/frozen": "`pacs`, budget `laptop`",
    "pacs/efficiency": "`efficiency` on PACS, budget `laptop`",
    "pacs/fine-tuned": "PACS, fine-tuned for 80 steps",
    "pacs/fine-tuned-300": "PACS, fine-tuned for 300 steps",
    "figures": "`fig1`, `fig3a`, `fig3b`, `fig4a`, `fig4b`, `fig8`, budget `laptop`",
}


def text() -> str:
    """The table: the seconds of all runs of each folder, added up."""
    rows = []
    for folder, what in MADE_BY.items():
        frame = riskmatch.results(RESULTS / folder)
        last = frame.groupby("run")["seconds"].max()
        each = last.median()
        shown = f"{each / 60:.1f} min" if each >= 60 else f"{each:.0f} s"
        rows.append(f"| {what} | `{folder}` | {len(last)} | {shown} | {last.sum() / 3600:.1f} |")
    return f"""# Time of the committed runs

Hours of one process, evaluations included, added up from the records. Runs shared two cores with
others, so that these are upper limits; embeddings of frozen backbones, once per data set, are not
included.

| reproduces | folder | runs | median of a run | hours |
| --- | --- | --: | --: | --: |
{chr(10).join(rows)}

Written by `python benchmarks/costs.py`.
"""


if __name__ == "__main__":
    (RESULTS / "bench" / "costs.md").write_text(text(), "utf-8")
