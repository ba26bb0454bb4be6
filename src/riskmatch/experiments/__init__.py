"""The paper's tables and figures: one module per table or figure, and calls that reproduce them.

>>> from riskmatch.experiments import list_experiments, reproduce
>>> [one.paper for one in list_experiments() if "pacs" in one.data][:3]
['Table 2', 'Table 5', 'Table 7']
>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:  # trains 12 small models in seconds
...     outcome = reproduce("table8", "smoke", out=folder, methods=["erm", "rdm"], jobs=1)
>>> outcome.error is None, [path.suffix for path in outcome.output.files]
(True, ['.md', '.tex', '.csv'])

To add a table or figure:

1. Write ``plan(scope)``, which lists :class:`~riskmatch.sweep.plan.PlannedRun` objects.
   ``scope.data`` names the data sets to run on;
   :func:`~riskmatch.experiments.images.protocols` has the budgets for image benchmarks.
2. Write ``write(finished)``, which reads ``finished.records`` (by run id) or the folders in
   ``finished.runs``, writes ``finished.file("png")`` and the like and returns an
   :class:`~riskmatch.experiments.experiment.Output`.
3. Enter an :class:`~riskmatch.experiments.experiment.Experiment` in
   :data:`~riskmatch.experiments.catalogue.EXPERIMENTS`.

Finding data, training, sharing of runs, progress and errors are handled by :func:`reproduce`.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
