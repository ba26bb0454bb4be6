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

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
