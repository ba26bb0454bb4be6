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

from typing import TYPE_CHECKING

from riskmatch.lazy import lazy_names

if TYPE_CHECKING:
    from riskmatch.report.comparison import tables_of
    from riskmatch.report.figures import draw_figure
    from riskmatch.report.page import summarise
    from riskmatch.report.render import write_report
    from riskmatch.report.selected import find_run

__all__ = ["draw_figure", "find_run", "summarise", "tables_of", "write_report"]

_HOMES = {
    "draw_figure": "figures",
    "find_run": "selected",
    "summarise": "page",
    "tables_of": "comparison",
    "write_report": "render",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
