"""Tables, figures and HTML reports of runs.

>>> from riskmatch import report
>>> report.write_report("runs", "report.html")  # doctest: +SKIP
>>> report.summarise("runs")["headline"]["rows"]  # doctest: +SKIP
>>> print(report.tables_of("sweep")[0].markdown())  # doctest: +SKIP
>>> report.draw_figure("curves", "runs", "curves.pdf")  # doctest: +SKIP
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
