"""The parts pass the conformance suites that riskmatch ships."""

import pytest
from riskmatch_shapes.data import noisy_shapes
from riskmatch_shapes.method import TopRisk
from riskmatch_shapes.network import WideMLP

from riskmatch.testing import datasets, networks, objectives


@pytest.mark.parametrize("check", objectives.CHECKS, ids=lambda check: check.__name__)
def test_method(check):
    check(TopRisk())


@pytest.mark.parametrize("check", datasets.CHECKS, ids=lambda check: check.__name__)
def test_data_set(check):
    check(noisy_shapes)


@pytest.mark.parametrize("check", networks.CHECKS, ids=lambda check: check.__name__)
def test_network(check):
    check(WideMLP)
