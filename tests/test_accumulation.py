"""Gradients in pieces against the gradient of the whole batch."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cross_entropy

from riskmatch import RiskMatching, accumulate


def network(dtype=torch.float64, dropout=0.0):
    torch.manual_seed(0)
    layers = [nn.Linear(5, 16), nn.BatchNorm1d(16).eval(), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(16, 3)).to(dtype)


def batch_of(n, dtype=torch.float64, seed=1):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 5, generator=generator, dtype=dtype)
    y = torch.randint(3, (n,), generator=generator)
    domains = torch.randint(3, (n,), generator=generator)
    domains[:6] = torch.tensor([0, 1, 2, 0, 1, 2])
    return x, y, domains


def risks_with(model):
    return lambda piece: cross_entropy(model(piece[0]), piece[1], reduction="none")


def gradient(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def in_pieces(model, criterion, x, y, domains, size, **options):
    model.zero_grad()
    pieces = list(zip(x.split(size), y.split(size), strict=True))
    return accumulate(
        model, risks_with(model), pieces, lambda risks: criterion(risks, domains), **options
    )


def at_once(model, criterion, x, y, domains, size):
    """One pass with every graph kept; ``size`` samples per forward pass."""
    model.zero_grad()
    risks = [risks_with(model)(piece) for piece in zip(x.split(size), y.split(size), strict=True)]
    out = criterion(torch.cat(risks), domains)
    out.loss.backward()
    return out


CRITERIA = [
    RiskMatching(2.0, match, divergence, variance_weight=0.1)
    for match in ("worst", "variance")
    for divergence in ("mmd", "moments")
]


@pytest.mark.parametrize("criterion", CRITERIA, ids=str)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_pieces_of_64_have_the_gradient_of_the_batch_of_4096(criterion, dtype, bound, dropout):
    model = network(dtype, dropout)
    x, y, domains = batch_of(4096, dtype)
    torch.manual_seed(5)
    # Dropout draws its masks per forward pass, so the reference passes the same pieces.
    whole = at_once(model, criterion, x, y, domains, 64 if dropout else 4096)
    expected, stream = gradient(model), torch.rand(1)
    torch.manual_seed(5)
    out = in_pieces(model, criterion, x, y, domains, 64)
    difference = (gradient(model) - expected).norm() / expected.norm()
    assert difference <= bound
    assert torch.allclose(out.loss, whole.loss, rtol=bound)
    assert torch.equal(torch.rand(1), stream)  # the random stream goes on as after one pass


@settings(deadline=None, max_examples=25)
@given(n=st.integers(6, 40), size=st.integers(1, 50), seed=st.integers(0, 5))
def test_pieces_of_any_size_give_the_same_gradient(n, size, seed):
    model, criterion = network(), RiskMatching(2.0, "variance")
    x, y, domains = batch_of(n, seed=seed)
    at_once(model, criterion, x, y, domains, n)
    expected = gradient(model)
    in_pieces(model, criterion, x, y, domains, size)
    torch.testing.assert_close(gradient(model), expected, rtol=1e-10, atol=1e-13)


def test_gradients_are_added_to_those_that_are_there():
    model, criterion = network(), RiskMatching(1.0)
    x, y, domains = batch_of(20)
    in_pieces(model, criterion, x, y, domains, 7)
    first = gradient(model).clone()
    pieces = list(zip(x.split(7), y.split(7), strict=True))
    accumulate(model, risks_with(model), pieces, lambda risks: criterion(risks, domains))
    torch.testing.assert_close(gradient(model), 2 * first)


def test_criterion_may_return_the_loss_itself():
    model = network()
    x, y, _ = batch_of(20)
    loss = accumulate(
        model, risks_with(model), list(zip(x.split(8), y.split(8), strict=True)), torch.mean
    )
    expected = torch.autograd.grad(cross_entropy(model(x), y), model.parameters())
    torch.testing.assert_close(gradient(model), torch.cat([g.flatten() for g in expected]))
    assert loss.shape == ()


def test_autocast_and_a_gradient_scaler_give_scaled_gradients():
    model, criterion = network(torch.float32), RiskMatching(1.0)
    x, y, domains = batch_of(48, torch.float32)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with torch.autocast("cpu", torch.bfloat16):
        at_once(model, criterion, x, y, domains, 48)
        expected = gradient(model)
        in_pieces(model, criterion, x, y, domains, 16, scaler=scaler)
    assert bool(expected.abs().sum() > 0)
    scaled = gradient(model) / 1024.0
    # bfloat16 has 8 bits: sums over pieces round differently.
    assert (scaled - expected).norm() / expected.norm() < 0.02


def test_at_most_one_piece_has_a_graph():
    class Counted(torch.autograd.Function):
        alive = most = 0

        @staticmethod
        def forward(ctx, x):
            Counted.alive += 1
            Counted.most = max(Counted.most, Counted.alive)
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            Counted.alive -= 1
            return gradient

    model = network()
    x, y, domains = batch_of(40)

    def risks_of(piece):
        risks = risks_with(model)(piece)
        return Counted.apply(risks) if torch.is_grad_enabled() else risks

    pieces = list(zip(x.split(8), y.split(8), strict=True))
    accumulate(model, risks_of, pieces, lambda risks: RiskMatching(1.0)(risks, domains))
    assert (Counted.most, Counted.alive) == (1, 0)


def test_batch_norm_in_training_mode_is_refused():
    model = network().train()
    x, y, domains = batch_of(20)
    with pytest.raises(ValueError, match=r"layer 1 is a BatchNorm.*\.eval\(\)"):
        in_pieces(model, RiskMatching(1.0), x, y, domains, 7)


def test_pieces_may_be_an_iterator_or_the_rows_of_a_tensor():
    x, y, _ = batch_of(20)
    gradients = []
    for make in (list, iter):
        model = network()
        pieces = make(list(zip(x.split(7), y.split(7), strict=True)))
        accumulate(model, risks_with(model), pieces, lambda risks: risks.square().mean())
        gradients.append(model[0].weight.grad)
    assert torch.equal(gradients[0], gradients[1])
    model = nn.Linear(5, 1).double()
    accumulate(model, lambda x: model(x)[:, 0], x.view(4, 5, -1), torch.mean)
    torch.testing.assert_close(model.weight.grad[0], x.mean(0))


@pytest.mark.parametrize(
    ("criterion", "error", "message"),
    [
        (lambda risks: risks.mean().item(), TypeError, "loss as a tensor.*got float"),
        (lambda risks: risks.detach().mean(), ValueError, "does not depend on the risks"),
    ],
    ids=["number", "detached"],
)
def test_criterion_without_a_gradient_is_refused(criterion, error, message):
    x, y, _ = batch_of(20)
    model = network()
    with pytest.raises(error, match=message):
        accumulate(model, risks_with(model), [(x, y)], criterion)


def test_call_without_gradients_is_refused():
    x, y, _ = batch_of(20)
    model = network()
    with torch.no_grad(), pytest.raises(ValueError, match=r"outside of torch.no_grad"):
        accumulate(model, risks_with(model), [(x, y)], torch.mean)


def test_reduced_losses_and_empty_batches_are_refused():
    model = network()
    with pytest.raises(ValueError, match='reduction="none"'):
        accumulate(model, lambda x: model(x).mean(), [torch.randn(4, 5).double()], torch.mean)
    with pytest.raises(ValueError, match="at least one piece"):
        accumulate(model, lambda x: x, [], torch.mean)
