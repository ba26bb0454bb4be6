"""The parts pass the conformance suites that riskmatch ships."""

import pytest
from riskmatch_shapes.confusion import DomainConfusion
from riskmatch_shapes.data import noisy_shapes
from riskmatch_shapes.feature_mixup import FeatureMixup
from riskmatch_shapes.method import TopRisk
from riskmatch_shapes.metric import WORST_RECALL
from riskmatch_shapes.mixstyle import MixStyleCNN
from riskmatch_shapes.network import WideMLP
from riskmatch_shapes.task import NOISY_LABELS

from riskmatch.testing import datasets, metrics, networks, objectives, tasks

METHODS = TopRisk(), DomainConfusion(), FeatureMixup()


@pytest.mark.parametrize("check", objectives.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_method(check, method):
    check(method)


@pytest.mark.parametrize("check", datasets.CHECKS, ids=lambda check: check.__name__)
def test_data_set(check):
    check(noisy_shapes)


@pytest.mark.parametrize("check", networks.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("network", [WideMLP, MixStyleCNN])
def test_network(check, network):
    check(network)


@pytest.mark.parametrize("check", tasks.CHECKS, ids=lambda check: check.__name__)
def test_task(check):
    check(NOISY_LABELS)


@pytest.mark.parametrize("check", metrics.CHECKS, ids=lambda check: check.__name__)
def test_metric(check):
    check(WORST_RECALL)
