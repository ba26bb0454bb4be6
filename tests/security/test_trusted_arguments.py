"""Which arguments of functions that read allow a part to be imported."""

import pytest

from riskmatch.trust import imports_nothing, may_import

NAME = "mine:Part"


@imports_nothing
def read(paths, rule="train-val", *, metric=None, by=()):
    return may_import(NAME)


@pytest.mark.parametrize(("args", "options"), [(("runs", NAME), {}), (("runs",), {"metric": NAME})])
def test_a_rule_or_metric_that_the_caller_names_may_be_imported(args, options):
    assert read(*args, **options)


@pytest.mark.parametrize("options", [{}, {"by": NAME}])
def test_a_folder_or_column_of_the_same_name_allows_nothing(options):
    assert not read(NAME, **options)
