"""From page data to one HTML text."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from riskmatch.report.html.cells import number, percent, pick, settings, text
from riskmatch.report.html.pack import packed, thin
from riskmatch.report.html.rows import FINAL, final_rows, hardest_table
from riskmatch.report.html.summary import spells, summary
from riskmatch.report.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION

if TYPE_CHECKING:
    from jinja2 import Environment

STYLES = ("base", "layout", "tables", "charts", "print")
SCRIPTS = (
    "elements",
    "view",
    "scales",
    "looks",
    "risks",
    "mmd",
    "curves",
    "worst",
    "confusion",
    "calibration",
    "differences",
    "sorting",
    "controls",
)
"""In this order they become one script: each may use what stands before it."""

PARTS = {
    "risks": "Risk distributions",
    "mmd": "Distance between domains",
    "worst": "The worst domain",
    "curves": "Learning curves",
    "terms": "Loss and penalty",
    "confusion": "Confusion",
    "calibration": "Calibration",
    "hardest": "Hardest examples",
    "configuration": "Configuration",
    "reproduce": "Reproduce it",
}
"""What is shown of a run, in order."""

LIMIT = 5_000_000
"""Bytes of a page, at most."""
EXAMPLES = (24, 6, 3, 1)
"""The hardest of each domain that are shown, and how many where the page grows too large."""


def page(data: Mapping[str, Any], *, limit: int = LIMIT) -> str:
    """The report as one HTML file, for page data as :mod:`riskmatch.report.findings` makes them.

    Headings, sentences and tables are in the HTML; the charts are drawn from the JSON in it by the
    script in it. The content security policy names the two by their hashes and forbids everything
    else, so that no request is ever made and no name from the data is ever run. A page of more than
    ``limit`` bytes shows fewer steps and examples.
    """
    charts, notes = packed(data), list(data["notes"])
    for examples in EXAMPLES:
        html = _render(data, charts, notes, examples)
        if len(html.encode()) <= limit:
            break
        thin(charts)
        notes = [*data["notes"], "Fewer steps and examples are shown, to keep this file small."]
    return html


def _render(
    data: Mapping[str, Any], charts: Mapping[str, Any], notes: Sequence[str], examples: int
) -> str:
    style, script = _style(), _script()
    html = (
        _environment()
        .get_template("page.html")
        .render(
            page=data,
            notes=notes,
            most=examples,
            parts=PARTS,
            places={name: place for place, name in enumerate(charts["domains"])},
            summary=summary(data),
            style=style,
            script=script,
            policy=_policy(style, script),
            charts=_json(charts),
        )
    )
    # The name of a file may hold bytes that are no text.
    return html.encode(errors="replace").decode()


def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ImportError("A report needs pip install 'riskmatch[report]'.") from error
    environment = Environment(
        loader=PackageLoader(__package__ or "", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"text": text, "number": number, "percent": percent, "pick": pick}
    environment.globals |= {
        "final_columns": FINAL,
        "final_rows": final_rows,
        "hardest_table": hardest_table,
        "settings": settings,
        "spells": spells,
    }
    return environment


def _style() -> str:
    """The style sheets, below the colours of the figures."""
    hues = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY)
    colours = "".join(f"--hue-{number}: {hue}; " for number, hue in enumerate(hues))
    return f":root {{ {colours}}}\n" + "\n".join(_asset("css", f"{name}.css") for name in STYLES)


def _script() -> str:
    parts = "\n".join(_asset("js", f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}\n}})();'


def _asset(folder: str, name: str) -> str:
    return files(__package__ or "").joinpath(folder, name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    def source(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; img-src data:; style-src {source(style)}; "
        f"script-src {source(script)}; base-uri 'none'; form-action 'none'"
    )


def _json(value: object) -> str:
    r"""JSON that cannot end the element it stands in.

    Example:
        >>> _json({"name": "</script>"})
        '{"name":"\\u003c/script>"}'
    """
    told = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return told.replace("<", "\\u003c")
