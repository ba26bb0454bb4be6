import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from riskmatch.data import Domain
from riskmatch.engine.evaluate import CHUNK, parts_of, predict, scores
from riskmatch.runs.lines import LEVELS


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(3, 4)
        self.largest = 0

    def forward(self, x):
        self.largest = max(self.largest, len(x))
        torch.rand(1)  # a network may draw even in evaluation
        features = self.drop(self.norm(x))
        return features, self.head(features)


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


def parts(n):
    domain = Domain("a", torch.randn(n, 3), torch.randint(4, (n,)))
    return parts_of({"a": {"val": domain}}), domain


def test_scores_equal_a_direct_computation(net):
    samples, domain = parts(2 * CHUNK + 7)
    score = scores(predict(net, samples), ["accuracy"])["a"]["val"]
    with torch.no_grad():
        logits = net.eval()(domain.x)[1]
    risks = cross_entropy(logits, domain.y, reduction="none").double().numpy()
    assert score.metrics["accuracy"] == pytest.approx(
        (logits.argmax(1) == domain.y).double().mean().item()
    )
    assert score.risk == pytest.approx(risks.mean())
    assert score.quantiles == pytest.approx([np.quantile(risks, level) for level in LEVELS])


def test_forward_passes_are_bounded_by_the_chunk(net):
    samples, _ = parts(3 * CHUNK + 1)
    predict(net, samples)
    assert net.largest == CHUNK


def test_predict_has_no_side_effects(net):
    samples, _ = parts(10)
    net.train()
    net.norm.eval()  # a frozen layer stays frozen
    weights = {name: value.clone() for name, value in net.state_dict().items()}
    random = torch.get_rng_state()
    predict(net, samples)
    assert torch.equal(torch.get_rng_state(), random)
    assert (net.training, net.norm.training, net.drop.training) == (True, False, True)
    assert all(torch.equal(value, weights[name]) for name, value in net.state_dict().items())
    assert all(weight.grad is None for weight in net.parameters())
