"""Tables, figures and HTML reports of runs.

>>> from tempfile import TemporaryDirectory
>>> import riskmatch
>>> from riskmatch import report
>>> with TemporaryDirectory() as folder:
...     run = riskmatch.train("colored-digits", "erm", "0.1", steps=10, out=folder)
...     page = report.write_report(folder, f"{folder}/report.html")
...     figure = report.draw_figure("curves", folder, f"{folder}/curves.pdf")
...     (table,) = report.tables_of(folder)
...     summary = report.summarise(folder)
>>> summary["title"], table.columns
('ERM on colored-digits without 0.1', ('method', '0.1', 'average'))
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from riskmatch.report.comparison import tables_of
    from riskmatch.report.figures import draw_figure
    from riskmatch.report.html import write_report
    from riskmatch.report.page import summarise
    from riskmatch.report.stored_runs import find_run

__all__ = ["draw_figure", "find_run", "summarise", "tables_of", "write_report"]

_HOMES = {
    "draw_figure": "riskmatch.report.figures",
    "find_run": "riskmatch.report.stored_runs",
    "summarise": "riskmatch.report.page",
    "tables_of": "riskmatch.report.comparison",
    "write_report": "riskmatch.report.html",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: importing a single module loads no other."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
