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

from riskmatch.defaults.describe import (
    describe_method,
    describe_methods,
    field_docs,
    range_of,
    setting_lines,
)
from riskmatch.defaults.resolution import (
    Setting,
    check_mappings,
    factory,
    field_names,
    given_for,
    method_class,
    on_data,
    resolve,
    run_config,
    search_space,
    values_of,
)
from riskmatch.defaults.sources import (
    SourceChangedError,
    check_source,
    source_changes,
    with_source,
)
from riskmatch.defaults.values import FROZEN, IMAGES, ON_DATA, PATH, PRESETS, Preset

__all__ = [
    "FROZEN",
    "IMAGES",
    "ON_DATA",
    "PATH",
    "PRESETS",
    "Preset",
    "Setting",
    "SourceChangedError",
    "check_mappings",
    "check_source",
    "describe_method",
    "describe_methods",
    "factory",
    "field_docs",
    "field_names",
    "given_for",
    "method_class",
    "on_data",
    "range_of",
    "resolve",
    "run_config",
    "search_space",
    "setting_lines",
    "source_changes",
    "values_of",
    "with_source",
]
