"""What the methods are for, and the parts of the contract that they lean on."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from riskmatch.contract import Eval, Memory, OptimSpec, adam_step, prepare
from riskmatch.data.domain import Batch
from riskmatch.divergence import DIVERGENCES, Energy
from riskmatch.engine import fit
from riskmatch.matching import risk_matching_penalty
from riskmatch.models import MLP
from riskmatch.objectives import (
    CORAL,
    EQRM,
    ERM,
    IBERM,
    IGA,
    IRM,
    MLDG,
    RDM,
    RSC,
    SD,
    TRM,
    ANDMask,
    CausIRL,
    FeatureMMD,
    Fishr,
    GroupDRO,
    Mixup,
    SANDMask,
    SelfReg,
    VREx,
    methods,
)

SIZES = (120, 80, 160)


def batch(seed=0, sizes=SIZES):
    """Labels that the first input predicts, ever less reliably from domain to domain."""
    rng = torch.Generator().manual_seed(seed)
    parts = []
    for domain, n in enumerate(sizes):
        x = torch.randn(n, 4, generator=rng)
        noise = 0.8 * domain * torch.randn(n, generator=rng)
        parts.append((x + 0.3 * domain, (x[:, 0] + noise > 0).long()))
    return Batch.join(parts)


def network(dropout=0.0):
    torch.manual_seed(0)
    return MLP((4,), 2, widths=(4,), dropout=dropout)


def penalty(objective, model):
    (value,) = objective(Eval(model, batch()), Memory(step=10**6)).raw.values()
    return value.item()


@pytest.mark.parametrize(
    "objective",
    [
        VREx(weight=100.0, warmup=0),
        IRM(weight=100.0, warmup=0),
        RDM(weight=10.0, warmup=0, lr_after=0.01, variance_weight=0.0),
        CORAL(weight=10.0),
        FeatureMMD(weight=10.0),
        CausIRL(weight=10.0),
        IGA(weight=10.0),
        Fishr(weight=1000.0, warmup=0),
        SD(weight=10.0),
        IBERM(weight=10.0, warmup=0),
    ],
    ids=lambda objective: type(objective).__name__,
)
def test_penalty_ends_lower_than_under_erm(objective):
    plain, matched = network(), network()
    for model, used in ((plain, ERM()), (matched, objective)):
        fit(model, used, [batch()] * 100, OptimSpec("adam", 0.01))
    assert penalty(objective, matched) < penalty(objective, plain) / 2  # IRM's goes below zero


def domain_risks_after(objective):
    model = network()
    fit(model, objective, [batch()] * 100, OptimSpec("adam", 0.01))
    return Eval(model, batch()).domain_risks


@pytest.mark.parametrize(
    "objective",
    [GroupDRO(eta=0.5), EQRM(0.95, warmup=0, lr_after=0.01)],
    ids=lambda objective: type(objective).__name__,
)
def test_worst_domain_ends_better_than_under_erm(objective):
    assert domain_risks_after(objective).max() < domain_risks_after(ERM()).max()


def test_eqrm_at_an_extreme_level_makes_the_risks_equal():
    extreme = EQRM(warmup=0, lr_after=0.01, log_tail=-1000.0)
    assert domain_risks_after(extreme).std() < domain_risks_after(ERM()).std() / 5


def test_groupdro_weights_gather_on_the_worst_domain():
    memory = Memory()
    fit(network(), GroupDRO(eta=0.5), [batch()] * 100, OptimSpec("sgd", 0.0), memory)
    risks = Eval(network(), batch()).domain_risks
    q = memory.recall_domains("q", batch().names, torch.zeros(3))
    assert q.argmax() == risks.argmax()
    torch.testing.assert_close(q, (50 * risks).softmax(0).detach())


def test_irm_slope_is_the_closed_form_of_cross_entropy():
    ev = Eval(network().double(), replace(batch(), x=batch().x.double()))
    y, z = ev.batch.y, ev.logits
    slopes = (z.softmax(1) * z).sum(1) - z.gather(1, y[:, None])[:, 0]
    expected = [part[::2].mean() * part[1::2].mean() for part in slopes.split(SIZES)]
    raw = IRM()(ev, Memory()).raw["penalty"]
    torch.testing.assert_close(raw, torch.stack(expected).mean(), rtol=1e-12, atol=0)


def test_irm_of_domains_with_one_sample_has_no_penalty():
    assert IRM()(Eval(network(), batch(sizes=(1, 1))), Memory()).raw["penalty"] == 0


def test_mixup_of_equal_domains_is_erm():
    one = batch(sizes=(6,))
    twice = Batch.join([(one.x, one.y), (one.x, one.y)])
    mixed = Mixup()(Eval(network(), twice), Memory()).loss
    torch.testing.assert_close(mixed, Eval(network(), twice).risk)


def test_mixup_draws_other_shares_at_every_step():
    memory, ev = Memory(), Eval(network(), batch())
    assert len({Mixup(alpha=1.0)(ev, memory).loss.item() for _ in range(8)}) == 8


def test_mldg_value_is_the_risk_before_and_after_the_inner_step():
    """With two domains, one is held out: its risk is taken after a step on the other."""
    ev, spec = Eval(network(), batch(sizes=(9, 7))), OptimSpec(lr=0.01)
    parts = MLDG(beta=0.5)(ev, Memory(spec)).parts
    found = [(parts["risk"].item(), parts["meta-test"].item())]
    domains = ev.batch.split()
    expected = []
    for train, test in (domains, domains[::-1]):
        model = network()
        before = Eval(model, train).risk.item()
        fit(model, ERM(), [train], spec)
        expected.append((before / 2, 0.5 * Eval(model, test).risk.item() / 2))
    assert any(pair == pytest.approx(found[0], rel=1e-5) for pair in expected)


def test_mldg_holds_out_every_domain_equally_often():
    ev, memory, counts = Eval(network(), batch()), Memory(), {}
    for _ in range(300):
        value = round(MLDG(meta_test=2, beta=0.0)(ev, memory).loss.item(), 5)
        counts[value] = counts.get(value, 0) + 1
    assert len(counts) == 3  # one for each domain that is trained on
    assert all(abs(count - 100) < 4 * math.sqrt(300 * 2 / 9) for count in counts.values())


@pytest.mark.parametrize("name", methods())
def test_dropout_is_part_of_every_method(name):
    """The same masks give the same bits; other masks give others; a mask is drawn once a step."""

    def trained(seed):
        model = network(dropout=0.5)
        torch.manual_seed(seed)
        fit(model, methods()[name](), [batch()] * 2, OptimSpec("adam", 0.01))
        return torch.nn.utils.parameters_to_vector(model.parameters())

    assert torch.equal(trained(1), trained(1))
    assert not torch.equal(trained(1), trained(2))


@pytest.mark.parametrize("name", methods())
def test_mixed_precision_is_for_the_model_and_not_for_the_objective(name):
    """Nothing is lost but what bfloat16 outputs lose: the penalties themselves are in float32."""
    objective, losses = methods()[name](), []
    for amp in (False, True):
        model, memory = network(), Memory(step=10**6)
        prepare(memory, objective, model, batch().x, len(SIZES))
        modules = dict(memory.modules.items())
        ev = Eval(model, batch(), amp=amp, modules=modules, start=memory.start)
        terms = objective(ev, memory)
        assert terms.loss.dtype == torch.float32
        assert len({part.dtype for part in (ev.features, ev.logits, ev.risks)}) == 1
        losses.append(terms.loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=0.03)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adam_step_is_torchs_adam(decay):
    torch.manual_seed(0)
    theirs = nn.Parameter(torch.randn(7, dtype=torch.float64))
    optimizer = torch.optim.Adam([theirs], lr=0.01, weight_decay=decay)
    weights, state = {"w": theirs.detach().clone()}, {}
    for _ in range(20):
        theirs.grad = torch.randn(7, dtype=torch.float64)
        spec = OptimSpec("adam", 0.01, decay)
        weights, state = adam_step(weights, {"w": theirs.grad}, spec, state)
        optimizer.step()
    torch.testing.assert_close(weights["w"], theirs, rtol=0, atol=1e-14)


@pytest.mark.parametrize("objective", [ANDMask(tau=0.0), SANDMask(tau=0.0, slope=1e9)])
def test_masks_that_are_open_everywhere_are_erm(objective):
    one, other = network().double(), network().double()
    data = replace(batch(), x=batch().x.double())
    fit(one, objective, [data] * 5, OptimSpec("adam", 0.01))
    fit(other, ERM(), [data] * 5, OptimSpec("adam", 0.01))
    for ours, theirs in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


def test_masks_of_opposite_domains_leave_weights_where_they_are():
    """Two domains with opposite labels, at equal outputs of both classes: all signs differ."""
    x = torch.randn(40, 4, generator=torch.Generator().manual_seed(0)).double()
    data = Batch.join([(x, (x[:, 0] > 0).long()), (x, (x[:, 0] <= 0).long())])
    model = network().double()
    torch.nn.init.zeros_(model.classifier.weight)
    torch.nn.init.zeros_(model.classifier.bias)
    before = [weight.detach().clone() for weight in model.parameters()]
    for objective in (ANDMask(tau=0.5), SANDMask(tau=0.5)):
        history = fit(model, objective, [data] * 3, OptimSpec("adam", 0.01))
        assert all(map(torch.equal, model.parameters(), before))
        assert [entry["raw mask"] for entry in history] == [0.0] * 3


def test_rsc_mutes_features_of_large_gradient_where_the_class_relies_on_them():
    ev = Eval(network().double(), replace(batch(), x=batch().x.double()))
    kept = RSC(drop_features=0.26, drop_samples=0.25)._mask(ev)
    assert 0.25 <= (~kept.all(1)).double().mean().item() <= 0.26
    muted = ~kept[~kept.all(1)]
    assert (muted.sum(1) == 1).all()
    assert RSC(0.26, 0.25)._mask(ev).equal(kept)  # nothing is random


def test_selfreg_compares_with_samples_of_the_same_class():
    y = torch.tensor([2, 0, 1, 0, 2, 2, 0, 5])
    rng, seen = torch.Generator().manual_seed(0), set()
    for _ in range(50):
        share, *partners = SelfReg().draw(y, rng)
        assert 0 < share < 1
        for partner in partners:
            assert sorted(partner.tolist()) == list(range(8))
            assert torch.equal(y[partner], y)
            seen.add(tuple(partner.tolist()))
    assert len(seen) > 30  # of 3! · 3! = 36


def test_trm_of_a_single_domain_is_erm():
    one = batch(sizes=(9,))
    terms = TRM(warmup=0)(Eval(network(), one), Memory())
    assert terms.values() == {"risk": pytest.approx(Eval(network(), one).risk.item())}


@pytest.mark.parametrize("objective", [RSC(), SelfReg()])
def test_methods_on_classes_refuse_other_labels(objective):
    data = replace(batch(), y=torch.randn(sum(SIZES)))
    memory, model = Memory(), network()
    prepare(memory, objective, model, data.x, len(SIZES))
    ev = Eval(model, data, squared_risks_of_first, modules=dict(memory.modules.items()))
    with pytest.raises(ValueError, match=r"classes.*float32"):
        objective(ev, memory)


def squared_risks_of_first(logits, y):
    return (logits[:, 0] - y).square()


def test_other_labels_judge_the_same_outputs():
    ev = Eval(network(), batch())
    other = ev.against(1 - ev.batch.y)
    assert other.logits is ev.logits
    expected = nn.functional.cross_entropy(ev.logits, 1 - ev.batch.y, reduction="none")
    torch.testing.assert_close(other.risks, expected)


def test_a_misspelt_distance_is_refused():
    with pytest.raises(ValueError, match="Unknown distance 'corla'"):
        CausIRL(distance="corla")


@pytest.mark.parametrize("name", DIVERGENCES)
def test_rdm_matches_with_every_built_in_divergence(name):
    objective = RDM(weight=2.0, warmup=0, variance_weight=0.0, divergence=name)
    terms = objective(Eval(network(), batch()), Memory())
    risks, domains = Eval(network(), batch()).risks, batch().domains
    expected = risk_matching_penalty(risks, domains, divergence=name)
    assert terms.raw["matching"].item() == pytest.approx(expected.item(), rel=1e-6)


def test_rdm_takes_a_divergence_instance_and_refuses_an_unknown_name():
    assert RDM(divergence=Energy()).criterion.divergence == Energy()
    with pytest.raises(ValueError, match=r"divergence 'enrgy'.*'energy'"):
        RDM(divergence="enrgy")


def test_irm_on_the_whole_domain_squares_the_gradient_of_the_scale():
    model, data = network().double(), batch()
    data = replace(data, x=data.x.double())
    ev = Eval(model, data)
    scale = torch.ones((), dtype=torch.float64, requires_grad=True)
    squares = []
    for x, y in zip(data.x.split(SIZES), data.y.split(SIZES), strict=True):
        risk = nn.functional.cross_entropy(scale * model(x)[1], y)
        (slope,) = torch.autograd.grad(risk, scale)
        squares.append(slope.square())
    terms = IRM(weight=2.0, warmup=0, estimate="whole")(ev, Memory())
    assert terms.raw["penalty"].item() == pytest.approx(torch.stack(squares).mean().item())


@pytest.mark.parametrize(
    ("spec", "built"),
    [
        (OptimSpec("adam"), torch.optim.Adam),
        (OptimSpec("adamw"), torch.optim.AdamW),
        (OptimSpec("sgd", momentum=0.9), torch.optim.SGD),
    ],
)
def test_each_optimiser_is_the_one_that_is_named(spec, built):
    assert type(spec.build([torch.zeros(1)])) is built


def test_unknown_optimisers_and_stray_momentum_are_refused():
    with pytest.raises(ValueError, match=r"optimiser 'adamax'.*'adam'"):
        OptimSpec("adamax")
    with pytest.raises(ValueError, match=r"momentum.*sgd.*0\.9"):
        OptimSpec("adam", momentum=0.9)
