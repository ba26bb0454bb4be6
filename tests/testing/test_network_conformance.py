"""The conformance suite for networks: our own networks pass, faulty ones are named."""

from functools import partial
from importlib.util import find_spec

import pytest
import torch
from torch import nn

from riskmatch.models import NETWORKS
from riskmatch.models.backbone import backbone
from riskmatch.testing import ConformanceError, networks
from riskmatch.testing.networks import CHECKS

SMALL = {"pretrained": False, "size": 32}
OWN = {
    "mlp": NETWORKS["mlp"],
    "mlp xavier": partial(NETWORKS["mlp"], widths=(8,), init="xavier"),
    "cnn": partial(NETWORKS["cnn"], widths=(8, 16)),
    "linear hidden": partial(NETWORKS["linear"], hidden=4),
    "table": partial(NETWORKS["table"], cardinalities=(4, 3), widths=(8,)),
}
if find_spec("efficientnet_lite_pytorch"):
    OWN["lite0"] = partial(NETWORKS["lite0"], **SMALL)
    OWN["lite0 cosine"] = partial(NETWORKS["lite0"], **SMALL, head="cosine")
if find_spec("timm"):
    OWN["timm"] = partial(backbone, "timm:test_resnet", **SMALL)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", OWN)
def test_own_networks_conform(name, check):
    check(OWN[name])


class Net(nn.Module):
    """Linear network.

    Args:
        width: number of features.
    """

    def __init__(self, input_shape, classes, dropout, *, width: int = 4):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.LazyLinear(width), nn.Dropout(dropout))
        self.body(torch.zeros(1, *input_shape))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        features = self.body(x)
        return features, self.head(features)


class Undocumented(Net):
    """Option scale."""

    def __init__(self, input_shape, classes, dropout, *, width=4):
        super().__init__(input_shape, classes, dropout, width=width)


class Swallowing(Net):
    """Any options."""

    def __init__(self, input_shape, classes, dropout, **options):
        super().__init__(input_shape, classes, dropout)


class LogitsOnly(Net):
    """Returns the logits alone.

    Args:
        width: number of features.
    """

    def forward(self, x):
        return super().forward(x)[1]


class Triple(Net):
    """Returns three tensors."""

    def forward(self, x):
        return (x, *super().forward(x))


class WrongShape(Net):
    """Logits of another number of classes."""

    def forward(self, x):
        features, logits = super().forward(x)
        return features, logits[:, :2]


class Random(Net):
    """Draws in evaluation mode."""

    def forward(self, x):
        features, logits = super().forward(x)
        return features, logits + torch.rand(len(x), 1)


class Centred(Net):
    """Subtracts the mean of the batch."""

    def forward(self, x):
        return super().forward(x - x.mean(0))


class NoDropout(Net):
    """Ignores dropout."""

    def __init__(self, input_shape, classes, dropout):
        super().__init__(input_shape, classes, 0.0)


class Unused(Net):
    """Has a layer that is never used."""

    def __init__(self, input_shape, classes, dropout):
        super().__init__(input_shape, classes, dropout)
        self.unused = nn.Linear(2, 2)


class HiddenState(Net):
    """Keeps a random factor outside the state dict."""

    def __init__(self, input_shape, classes, dropout):
        super().__init__(input_shape, classes, dropout)
        self.factor = torch.rand(1)

    def forward(self, x):
        features, logits = super().forward(x)
        return features, logits * self.factor


class Inplace(Net):
    """Changes its inputs."""

    def forward(self, x):
        return super().forward(x.mul_(2))


def constructor_fails(input_shape, classes, dropout):
    """Fails."""
    raise RuntimeError("no such weights")


@pytest.mark.parametrize(
    ("factory", "check", "message"),
    [
        (Undocumented, networks.options_are_documented, "'width' has no type annotation"),
        (Swallowing, networks.options_are_documented, r"\*\*options hides misspelt options"),
        (Triple, networks.returns_features_and_logits, "must return logits or a pair of tensors"),
        (LogitsOnly, networks.returns_features_and_logits, "returns logits alone"),
        (WrongShape, networks.returns_features_and_logits, r"returns shapes .* \(1, 2\)"),
        (Random, networks.evaluation_is_deterministic, "two passes in evaluation mode differ"),
        (Inplace, networks.evaluation_is_deterministic, "changes its inputs"),
        (Centred, networks.evaluation_ignores_the_rest_of_the_batch, "depend on the others"),
        (NoDropout, networks.dropout_acts_only_in_training, "dropout=0.5 has no effect"),
        (Unused, networks.gradients_reach_every_weight, "no gradient reaches unused.weight"),
        (HiddenState, networks.state_dict_round_trip, "loaded weights give other logits"),
        (constructor_fails, networks.same_seed_same_weights, "RuntimeError: no such weights"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_faulty_network_is_named_with_its_fault(factory, check, message):
    with pytest.raises(ConformanceError, match=f"^{factory.__name__}: .*{message}"):
        check(factory)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_network_that_returns_logits_alone_passes_all_other_checks(check):
    if check is not networks.returns_features_and_logits:
        check(LogitsOnly)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_network_for_vectors_conforms(check):
    class Vectors(Net):
        """Takes vectors alone.

        Args:
            width: number of features.
        """

        def __init__(self, input_shape, classes, dropout, *, width: int = 4):
            (inputs,) = input_shape
            super().__init__((inputs,), classes, dropout, width=width)

    check(Vectors)
