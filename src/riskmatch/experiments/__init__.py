"""The paper's tables and figures, each a short declaration over the parts below.

To add one:

1. Write ``plan(request) -> list of runs``, where a run has a ``config`` and a ``title``
   (:class:`riskmatch.sweep.plan.PlannedRun` will do). ``request.data`` names the data sets to run
   on; for images, :func:`~riskmatch.experiments.on_images.comparison` knows the budgets.
2. Write ``write(finished) -> Result``: read ``finished.records`` (by run id) or the folders in
   ``finished.runs``, and write ``finished.file("png")``, ``finished.file("json")``, ….
3. Begin titles with :func:`~riskmatch.experiments.notes.in_place_of` of the request.
4. Enter an :class:`~riskmatch.experiments.experiment.Experiment` in
   :data:`~riskmatch.experiments.catalogue.EXPERIMENTS`: its number in the paper, a summary, the
   data sets, ``plan`` and ``write``; ``draws=True`` if it needs matplotlib, ``predictions=True`` if
   its runs are to keep what they say of every sample, ``partial=False`` if it needs every run.

Data, training, sharing of runs, progress and errors are the command's.
"""
