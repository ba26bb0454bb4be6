"""Render page data as one HTML file with inlined style, script and chart data."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from riskmatch.data import OnProgress
from riskmatch.files import finite, refuse_input, write_whole
from riskmatch.report import run_tables
from riskmatch.report.facts import lines
from riskmatch.report.headline import differences_table
from riskmatch.report.page import page_data
from riskmatch.report.style import DOMAIN_COLOURS
from riskmatch.report.tables import Amount, capitalised, format_cell
from riskmatch.report.titles import data_title
from riskmatch.runs.frame import folders_of
from riskmatch.runs.records import SUFFIXES
from riskmatch.statistics import Unit

if TYPE_CHECKING:
    from jinja2 import Environment

STYLESHEETS = ("base", "layout", "tables", "charts", "print")
SCRIPTS = (
    *("elements", "view", "scales", "series", "risks", "mmd", "curves", "hyperparameters"),
    *("worst", "confusion", "calibration", "differences", "sorting", "controls"),
)
"""Scripts in the order in which they are concatenated; each may use those before it."""

SECTIONS = {
    "risks": "Risk distributions",
    "mmd": "Distance between domains",
    "worst": "Worst domain",
    "curves": "Learning curves",
    "terms": "Loss and penalty",
    "matching": "Matching loss",
    "confusion": "Confusion",
    "calibration": "Calibration",
    "hardest": "Hardest samples",
    "configuration": "Configuration",
    "reproduce": "Reproduce",
}
"""Sections of a run in order: id and title."""

LIMIT = 5_000_000
"""Largest size of a page in bytes."""
EXAMPLES = (24, 6, 3, 1)
"""Hardest samples shown per domain; the later numbers are for pages above the size limit."""
MAX_CLASSES = 30
"""Beyond this number of classes the most confused pairs replace the confusion matrix."""
MAX_PAIRS = 20
"""Most confused pairs shown."""
DIGITS, ACCURATE = 4, 8
"""Significant digits of the numbers of charts; of those that tables have too."""


def write_report(
    paths: str | Path | Sequence[str | Path],
    out: str | Path = "report.html",
    *,
    metric: str | None = None,
    worst: bool = False,
    by: Sequence[str] = (),
    data_dir: Path | None = None,
    unit: Unit = "domains",
    command: str = "",
    on_progress: OnProgress | None = None,
) -> Path:
    """Write one HTML file about the runs below some paths, and return its path.

    Args:
        paths: folders of a run, of several runs, of a sweep, or of a reproduction.
        out: file to write.
        metric: name of what is compared; None is the primary metric of the runs.
        worst: add the worst test domain to the comparison of methods.
        by: columns of the data; a table shows the metric by group of their values.
        data_dir: folder in which to look for data first, for thumbnails and missing predictions.
        unit: what intervals and p-values of gains over ERM generalise over: ``domains`` (these,
            trials vary) or ``new-domain`` (domains vary).
        command: command line to print on the page.
        on_progress: called with the progress of reading, decoding or embedding images.

    Raises:
        FileNotFoundError: a path does not exist, or holds no run.
        ValueError: every run is damaged, none has the metric, their primary metrics differ, the
            data have no such column, or ``out`` is a file of a run.

    See :mod:`riskmatch.report` for an example.
    """
    refuse_input(Path(out), *folders_of(paths), within=SUFFIXES)
    data = page_data(
        paths,
        metric=metric,
        worst=worst,
        by=by,
        data_dir=data_dir,
        unit=unit,
        command=command,
        on_progress=on_progress,
    )
    write_whole(Path(out), render(data).encode())
    return Path(out)


def render(data: Mapping[str, Any], *, limit: int = LIMIT) -> str:
    """HTML of a report, from the values of :func:`riskmatch.report.page.page_data`.

    Headings, text and tables are HTML; charts are drawn by the inlined script from the inlined
    JSON. The content security policy allows only the inlined style and script, by their hashes, so
    that the page makes no request and no text of the data is ever executed. A page above ``limit``
    bytes shows fewer steps and samples.
    """
    charts, notes = chart_data(data), list(data["notes"])
    for examples in EXAMPLES:
        html = _page(
            "page.html",
            _script(),
            page=data,
            notes=notes,
            max_examples=examples,
            sections=SECTIONS,
            labels=_labels(data["runs"]),
            domain_numbers={name: number for number, name in enumerate(charts["domains"])},
            findings=_findings(data["runs"]),
            charts=_script_json(charts),
        )
        if len(html.encode()) <= limit:
            break
        for run in charts["runs"]:  # every other snapshot, and the last
            run["snapshots"] = [*run["snapshots"][:-1:2], *run["snapshots"][-1:]]
        notes = [*data["notes"], "This page shows fewer steps and samples, to limit its size."]
    return html


def render_advice(**values: Any) -> str:
    """HTML of ``riskmatch advise``, one page without scripts; the template names the values."""
    return _page("advice.html", **values)


def render_estimate(**values: Any) -> str:
    """HTML of ``riskmatch estimate``, as :func:`render_advice`."""
    return _page("estimate.html", **values)


def _page(template: str, script: str = "", **values: Any) -> str:
    """HTML of a template with our style sheets, a script, and a policy that allows no other."""
    style = _style()
    values |= {"style": style, "script": script, "policy": _policy(style, script)}
    html = _environment().get_template(template).render(values)
    return html.encode(errors="replace").decode()  # file names may hold surrogates


def _labels(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Titles of runs for the menu, without the data set where all have the same."""
    data = {data_title(run["data"]) for run in runs}
    name = f" on {data.pop()}" if len(data) == 1 else ""
    return [run["title"].replace(name, "", 1) for run in runs]


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__package__ or "", "assets/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (run_tables.number_in, run_tables.percent, format_cell, capitalised, Amount)
    functions = (
        *(differences_table, lines, run_tables.absent_sections, run_tables.hardest_table),
        *(run_tables.runs_table, run_tables.sample_count, run_tables.scores_table),
        *(run_tables.settings_table, run_tables.worst_counts),
    )
    environment.filters |= {function.__name__: function for function in filters}
    environment.globals |= {function.__name__: function for function in functions}
    environment.globals["version"] = version("riskmatch")
    return environment


def _style() -> str:
    """Style sheets, preceded by the colours of the figures as variables."""
    variables = "".join(f"--hue-{place}: {hue}; " for place, hue in enumerate(DOMAIN_COLOURS))
    sheets = "\n".join(_asset("css", f"{name}.css") for name in STYLESHEETS)
    return f":root {{ {variables}}}\n{sheets}"


def _script() -> str:
    parts = "\n".join(_asset("js", f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}\n}})();'


def _asset(folder: str, name: str) -> str:
    return files(__package__ or "").joinpath("assets", folder, name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Content security policy that allows this style and this script only."""

    def source(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; img-src data:; style-src {source(style)}; "
        f"script-src {source(script)}; base-uri 'none'; form-action 'none'"
    )


def _script_json(value: object) -> str:
    r"""JSON that is safe inside a script element.

    Example:
        >>> _script_json({"name": "</script>"})
        '{"name":"\\u003c/script>"}'
    """
    encoded = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return encoded.replace("<", "\\u003c")


def chart_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """The part of page data that the script needs, with rounded numbers."""
    runs = [_run_charts(run) for run in data["runs"]]
    return {
        "metric": data["metric"],
        "domains": list(dict.fromkeys(name for run in runs for name in run["domains"])),
        "places": {name: k for run in runs[::-1] for k, name in enumerate(run["domains"])},
        "hyperparameters": finite(data["hyperparameters"], ACCURATE),
        "differences": finite(data["differences"], ACCURATE),
        "runs": runs,
    }


def _run_charts(run: Mapping[str, Any]) -> dict[str, Any]:
    grids: dict[tuple[Any, ...], int] = {}

    def grid(values: Sequence[float]) -> int:
        """Number of a series that many distributions share."""
        return grids.setdefault(tuple(finite(values, DIGITS)), len(grids))

    snapshots = [
        {
            "step": snapshot["step"],
            "mmd": finite(snapshot["mmd"], DIGITS),
            "domains": {
                name: {
                    **finite(
                        {key: d[key] for key in ("n", "mean", "heights", "density", "cdf")}, DIGITS
                    ),
                    "edges": grid(d["edges"]),
                    "x": grid(d["x"]),
                }
                for name, d in snapshot["domains"].items()
            },
        }
        for snapshot in run["snapshots"]
    ]
    matrices = len(run["classes"]) <= MAX_CLASSES
    return {
        "domains": run_tables.domains_of(run),
        "test": list(run["test_domains"]),
        "classes": list(run["classes"]),
        "parts": run["parts_of_domains"],
        "chosen": run["chosen_step"],
        "samples": {
            name: run_tables.sample_count(samples) for name, samples in run["samples"].items()
        },
        "curves": {
            **finite(run["curves"], DIGITS),
            "metric": finite(run["curves"]["metric"], ACCURATE),
        },
        "matching": finite(run["matching"], DIGITS),
        "snapshots": snapshots,
        "grids": [list(values) for values in grids],
        "confusion": {
            name: {
                "by_class": by_class(matrix),
                **({"counts": matrix} if matrices else {"pairs": most_confused(matrix)}),
            }
            for name, matrix in run["confusion"].items()
        },
        "calibration": finite(run["calibration"], DIGITS),
    }


def by_class(matrix: Sequence[Sequence[int]]) -> list[list[int]]:
    """Of each class: samples, samples predicted as it, and how many of these are correct.

    Recall is correct / samples, precision is correct / predicted.

    Example:
        >>> by_class([[5, 1], [2, 2]])
        [[6, 7, 5], [4, 3, 2]]
    """
    predicted = [sum(column) for column in zip(*matrix, strict=True)]
    return [[sum(row), predicted[k], row[k]] for k, row in enumerate(matrix)]


def most_confused(matrix: Sequence[Sequence[int]]) -> list[list[int]]:
    """Most confused pairs of classes: true class, predicted class, samples, samples of the class.

    Example:
        >>> most_confused([[5, 1, 0], [0, 3, 0], [4, 0, 2]])
        [[2, 0, 4, 6], [0, 1, 1, 6]]
    """
    pairs = [
        [true, predicted, count, sum(row)]
        for true, row in enumerate(matrix)
        for predicted, count in enumerate(row)
        if count and true != predicted
    ]
    return sorted(pairs, key=lambda pair: -pair[2])[:MAX_PAIRS]


def _findings(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Warnings about runs; of several, each with the title of its run."""
    title = "" if len(runs) == 1 else "“{}”: "
    return [title.format(run["title"]) + line for run in runs for line in run["findings"]]
