"""Decide which value each field of a run and of its method has.

:func:`resolve` lays these over each other; a later one wins:

1. the default that :class:`~riskmatch.runs.config.RunConfig` or the method's dataclass declares;
2. the method's tuned default (:func:`riskmatch.space.tuned`), on the data set where it differs;
3. the data set, then the method on the data set (:data:`ON_DATA`);
4. the preset (:data:`PRESETS`): what it sets for every method, then for the method, then on the
   data set;
5. for a frozen backbone or a file of features, learning rates and warm-up of the above times
   :data:`FROZEN`;
6. the values given: from a TOML file, then from the command line or the caller.

:func:`setting_lines` prints each value with the layer that it comes from.

``data_options`` and ``model_options`` are merged key by key; the options of a network are dropped
where a later layer names another network.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
