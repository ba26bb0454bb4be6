"""Demonstration: ERM and RDM on coloured digits, in about a minute.

The label is "five or more" and wrong for 25 % of the samples. The colour agrees with the label for
90 % and 80 % of the samples in the two training domains, so it predicts the label better than the
digit does; in the test domain it agrees for 10 %. ERM uses the colour. RDM matches the risk
distributions of the training domains, for which it has to use the digit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from riskmatch.defaults import resolve, run_config
from riskmatch.experiments.experiment import RUNS, Outcome, Output, run_ids
from riskmatch.experiments.fig1_fig2_fig8_fig9 import density_figure
from riskmatch.files import write_whole
from riskmatch.report.density import finite_risks
from riskmatch.report.figures import read_plot, save
from riskmatch.report.style import BLUE, DASHED, GREEN, VERMILION, LineStyle
from riskmatch.report.tables import Cell, Table
from riskmatch.runs.predictions import Predictions
from riskmatch.sweep import Local, PlannedRun, run_all
from riskmatch.sweep.board import OnChange
from riskmatch.sweep.plan import check_outputs

DATA = "colored-digits"
DOMAINS = ("0.9", "0.8", "0.1")
TEST_DOMAIN = "0.1"
STYLES = (LineStyle(BLUE), LineStyle(GREEN, DASHED), LineStyle(VERMILION))
BINS = 50


def demo(
    out: Path | str = "demo",
    seed: int = 0,
    *,
    overwrite: bool = False,
    on_plan: Callable[[Sequence[PlannedRun]], None] = lambda runs: None,
    on_change: OnChange = lambda board: None,
) -> Outcome:
    """Train ERM and RDM on coloured digits and write a table and a figure of their risks.

    Runs in ``out / "runs"`` that are done are not trained again.

    Args:
        out: folder for ``demo.png``, ``demo.md``, ``demo.json`` and the runs.
        seed: seed of the digits, their colours and the weights.
        overwrite: replace these files where they were made from other runs.
        on_plan: called with the runs before the first is trained.
        on_change: called with the state of all runs as training proceeds.

    Returns:
        The files; ``output.values`` has a row for each method with its accuracy and mean risk on
        each domain.

    Raises:
        ValueError: ``out`` has a file of one of these names from elsewhere.

    Example:
        >>> outcome = demo("demo")  # doctest: +SKIP
        >>> print(outcome.output.text)  # doctest: +SKIP
    """
    out = Path(out)
    planned = demo_runs(seed)
    files = [out / f"demo.{suffix}" for suffix in ("png", "md", "json")]
    check_outputs(files, planned, run_ids(out), overwrite)
    on_plan(planned)
    configs = [run.config for run in planned]
    board = run_all(configs, out / RUNS, Local(jobs=1, device="cpu"), on_change=on_change)
    error = board.error_message(planned)
    output = _write(planned, files) if error is None else None
    return Outcome(output, error, board.interrupted, board.failed)


def demo_runs(seed: int = 0) -> list[PlannedRun]:
    """The three runs, which share their ERM phase."""
    warmup = resolve("rdm", DATA)["warmup"].value
    common = {"seed": seed, "data_options": {"seed": seed}, "pretrain": warmup}
    methods: dict[str, tuple[str, dict[str, Any]]] = {
        "ERM": ("erm", {}),
        "RDM, two moments": ("rdm", {"warmup": 0}),
        "RDM, kernel": ("rdm", {"warmup": 0, "divergence": "mmd", "weight": 3000.0}),
    }
    return [
        PlannedRun(run_config(method, DATA, (TEST_DOMAIN,), given={**common, **fields}), title)
        for title, (method, fields) in methods.items()
    ]


def _write(planned: Sequence[PlannedRun], files: Sequence[Path]) -> Output:
    from riskmatch.engine.load import final_predictions, load_run

    png, markdown, numbers = files
    samples = {}
    for run in planned:
        predictions = final_predictions(load_run(png.parent / RUNS / run.config.id))
        samples[run.title] = {name: predictions[name]["val"] for name in DOMAINS}
    risks = {
        title: {
            f"colour agrees {float(name):.0%}, {'test' if name == TEST_DOMAIN else 'training'}": (
                finite_risks(val)
            )
            for name, val in by_domain.items()
        }
        for title, by_domain in samples.items()
    }
    title = "Risks of validation samples by domain; ticks mark their means"
    plot = density_figure(title, risks, STYLES, BINS).json()
    table = _table(samples)
    write_whole(numbers, plot.encode())
    write_whole(markdown, (table.markdown() + "\n").encode())
    save(read_plot(plot).draw("page"), png)
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return Output(files, table.markdown(), rows)


def _table(samples: Mapping[str, Mapping[str, Predictions]]) -> Table:
    """Accuracy and mean risk of every run on every domain."""
    rows: list[tuple[Cell, ...]] = []
    for title, by_domain in samples.items():
        accuracies = (f"{100 * (p.predicted == p.label).mean():.1f}" for p in by_domain.values())
        risks = (f"{finite_risks(p).mean():.3f}" for p in by_domain.values())
        rows.append((title, *accuracies, *risks))
    names = [f"{float(name):.0%}{' (test)' * (name == TEST_DOMAIN)}" for name in DOMAINS]
    return Table(
        "Accuracy in per cent and mean risk on validation samples, by how often the colour agrees "
        "with the label. From the digit alone, 75 % can be reached.",
        ("method", *(f"accuracy, {name}" for name in names), *(f"risk, {name}" for name in names)),
        tuple(rows),
    )
