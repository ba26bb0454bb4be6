import math
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.autograd import gradcheck
from torch.nn import functional as F

from riskmatch import RBFMixture, RiskMatching, risk_matching_penalty
from riskmatch.divergence import MMD, Divergence, DomainIndex, Energy, Moments, Wasserstein

DIVERGENCES = {
    "mmd": MMD(),
    "moments": Moments(),
    "energy": Energy(),
    "wasserstein-1": Wasserstein(1),
    "wasserstein-2": Wasserstein(2),
}
EVERY = [
    *DIVERGENCES.values(),
    MMD(unbiased=True),
    MMD(RBFMixture.paper(), method="grid"),
    MMD(unbiased=True, method="grid"),
]


def batch(*sizes, seed=0):
    """Shuffled risks and labels of domains of these sizes, the first of them the worst."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.cat([torch.full((size,), 10 * (d + 1)) for d, size in enumerate(sizes)])
    risks = torch.rand(len(labels), generator=generator, dtype=torch.float64)
    risks += (labels == 10).double()
    order = torch.randperm(len(labels), generator=generator)
    return risks[order], labels[order]


# What is matched


@pytest.mark.parametrize("divergence", EVERY, ids=str)
@pytest.mark.parametrize("sizes", [(2, 3, 4), (40, 7, 90)])
def test_worst_is_the_divergence_of_the_worst_domain_from_all_samples(divergence, sizes):
    risks, domains = batch(*sizes)
    expected = divergence(risks[domains == 10], risks)
    options = {"divergence": divergence, "pool": "samples"}
    got = risk_matching_penalty(risks, domains, match="worst", **options)
    assert torch.allclose(got, expected, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("divergence", EVERY, ids=str)
@pytest.mark.parametrize("sizes", [(2, 3, 4), (40, 7, 90)])
def test_variance_is_the_mean_divergence_of_all_domains_from_all_samples(divergence, sizes):
    risks, domains = batch(*sizes)
    parts = [divergence(risks[domains == label], risks) for label in (10, 20, 30)]
    options = {"divergence": divergence, "pool": "samples"}
    got = risk_matching_penalty(risks, domains, match="variance", **options)
    assert torch.allclose(got, sum(parts) / 3, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize(("name", "divergence"), DIVERGENCES.items())
def test_a_name_stands_for_a_divergence(name, divergence):
    risks, domains = batch(5, 6)
    named = risk_matching_penalty(risks, domains, divergence=name)
    assert torch.equal(named, risk_matching_penalty(risks, domains, divergence=divergence))


@pytest.mark.parametrize("match", ["worst", "variance"])
@pytest.mark.parametrize("divergence", EVERY, ids=str)
def test_the_gradient_is_that_of_the_penalty(divergence, match):
    risks, domains = batch(3, 4, 5)

    def penalty(risks):
        return risk_matching_penalty(risks, domains, match=match, divergence=divergence)

    assert gradcheck(penalty, (risks.requires_grad_(),), eps=1e-6, atol=1e-5)


@given(
    st.lists(
        st.tuples(st.floats(0, 10, width=32), st.integers(0, 3)), min_size=8, max_size=30
    ).filter(lambda pairs: all([domain for _, domain in pairs].count(d) != 1 for d in range(4))),
    st.sampled_from(["worst", "variance"]),
    st.sampled_from(list(DIVERGENCES)),
    st.randoms(use_true_random=False),
)
def test_neither_order_nor_names_of_domains_matter(pairs, match, divergence, random):
    def penalty(pairs, names):
        risks = torch.tensor([risk for risk, _ in pairs], dtype=torch.float64)
        domains = torch.tensor([names[domain] for _, domain in pairs])
        # Where domains tie for the worst, the first label wins, so a name would matter.
        means = [risks[domains == label].mean() for label in domains.unique()]
        tied = len(means) > 1 and float(torch.stack(means).sort().values[-2:].diff()) < 1e-6
        return tied, risk_matching_penalty(risks, domains, match=match, divergence=divergence)

    tied, before = penalty(pairs, [0, 1, 2, 3])
    assert before >= 0
    random.shuffle(pairs)
    names = [-7, 500, 3, 10**12]
    random.shuffle(names)
    if match == "variance" or not tied:
        assert torch.allclose(penalty(pairs, names)[1], before, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("divergence", ["mmd", "moments", "energy", "wasserstein-1"])
@pytest.mark.parametrize("given", ["labels", "groups"])
def test_evaluation_in_inference_mode_does_not_prevent_training(divergence, given):
    criterion = RiskMatching(1.0, divergence=divergence, variance_weight=0.1)

    def domains():
        size = 40 + len(divergence)  # labels that no other test has grouped before
        groups = DomainIndex.in_order((size, size), torch.device("cpu"))
        return groups if given == "groups" else torch.arange(2).repeat_interleave(size)

    risks = torch.rand(2 * (40 + len(divergence)), requires_grad=True)
    with torch.inference_mode():
        criterion(risks, domains())
    criterion(risks, domains()).loss.backward()
    assert risks.grad.abs().sum() > 0


def test_labels_changed_in_place_are_grouped_anew():
    risks = torch.linspace(0, 1, 100, dtype=torch.float64)
    domains = torch.arange(100) % 2
    risk_matching_penalty(risks, domains)
    domains[:30] = 0
    expected = MMD()(risks[domains == 1], risks)
    assert torch.isclose(risk_matching_penalty(risks, domains, pool="samples"), expected)


@pytest.mark.parametrize("divergence", ["mmd", "energy", "wasserstein-1", "wasserstein-2"])
@pytest.mark.parametrize("match", ["worst", "variance"])
def test_equal_domains_have_no_penalty(divergence, match):
    risks = torch.rand(20, generator=torch.Generator().manual_seed(0)).repeat(3)
    domains = torch.arange(3).repeat_interleave(20)
    assert risk_matching_penalty(risks, domains, match=match, divergence=divergence) < 1e-10


@pytest.mark.parametrize("match", ["worst", "variance"])
@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("top", [1.0, torch.finfo(torch.float32).max])
def test_a_single_domain_has_penalty_and_gradient_zero(divergence, match, top):
    risks = torch.full((5,), top, requires_grad=True)
    penalty = risk_matching_penalty(risks, torch.full((5,), 4), match=match, divergence=divergence)
    penalty.backward()
    assert penalty == 0
    assert torch.equal(risks.grad, torch.zeros(5))


def test_the_mean_of_many_risks_keeps_its_digits():
    risks = torch.rand(1_000_000, generator=torch.Generator().manual_seed(0))
    out = RiskMatching(weight=0)(risks, torch.zeros(len(risks), dtype=torch.long))
    assert float(out.risk) == pytest.approx(float(risks.double().mean()), rel=1e-6)


# The objective


class Refused(Divergence):
    def between(self, x, y):
        raise AssertionError("The penalty was computed.")


def test_the_parts_and_their_sum():
    risks, domains = batch(6, 4, 9)
    out = RiskMatching(weight=3.0, variance_weight=0.5, pool="samples")(risks, domains)
    means = torch.stack([risks[domains == label].mean() for label in (10, 20, 30)])
    variance = risks.var() + risks[domains == 10].var()  # unbiased, both
    assert torch.allclose(out.domain_risks, means)
    assert torch.allclose(out.risk, means.mean())  # domains count alike, however many samples
    assert torch.equal(out.penalty, risk_matching_penalty(risks, domains, pool="samples"))
    assert torch.allclose(out.variance, variance)
    assert torch.allclose(out.loss, out.risk + 3 * out.penalty + 0.5 * variance)
    assert list(out.parts) == ["risk", "matching", "variance"]
    assert torch.equal(out.domains, torch.tensor([10, 20, 30]))
    assert out.worst == 10


def test_variance_of_few_risks_is_differentiable_twice():
    risks, domains = batch(5, 3)
    risks = risks.double().detach().requires_grad_()
    criterion = RiskMatching(0.0, variance_weight=1.0, pool="samples")

    def variance(values):
        return criterion(values, domains).variance

    assert torch.autograd.gradcheck(variance, risks)
    assert torch.autograd.gradgradcheck(variance, risks)


def test_the_variance_match_regularises_every_domain():
    risks, domains = batch(6, 4, 9)
    out = RiskMatching(match="variance", variance_weight=1.0, pool="samples")(risks, domains)
    own = torch.stack([risks[domains == label].var() for label in (10, 20, 30)])
    assert torch.allclose(out.variance, risks.var() + own.mean())


@pytest.mark.parametrize(("weight", "divisor"), [(4.0, 4.0), (1.0, 1.0), (0.5, 1.0)])
def test_rescaling_divides_by_a_weight_above_one(weight, divisor):
    risks, domains = batch(6, 4)
    plain = RiskMatching(weight, variance_weight=2.0)(risks, domains)
    rescaled = RiskMatching(weight, variance_weight=2.0, rescale=True)(risks, domains)
    assert torch.allclose(rescaled.loss, plain.loss / divisor)
    assert torch.equal(rescaled.penalty, plain.penalty)


def test_a_weight_of_zero_computes_no_penalty():
    risks, domains = batch(1, 1)  # too few for a variance, too
    out = RiskMatching(weight=0.0, divergence=Refused())(risks, domains)
    assert out.penalty == 0
    assert out.variance == 0
    assert torch.equal(out.loss, out.risk)
    with pytest.raises(AssertionError, match="was computed"):
        RiskMatching(weight=1.0, divergence=Refused())(risks, domains)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_half_precision_risks_give_a_float32_loss(divergence, dtype):
    risks, domains = batch(60, 70)
    half = risks.to(dtype).requires_grad_()
    criterion = RiskMatching(2.0, divergence=divergence, variance_weight=1.0)
    out = criterion(half, domains)
    out.loss.backward()
    exact = criterion(half.detach().double(), domains)
    assert out.loss.dtype == torch.float32
    assert half.grad.dtype == dtype
    assert torch.allclose(out.loss.double(), exact.loss, rtol=1e-5)


@pytest.mark.parametrize("match", ["worst", "variance"])
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_descent_on_the_penalty_brings_the_risk_distributions_together(divergence, match):
    risks, domains = batch(30, 20, 10)
    risks.requires_grad_()
    optimizer = torch.optim.Adam([risks], lr=0.02)
    penalties = []
    for _ in range(100):
        penalty = risk_matching_penalty(risks, domains, match=match, divergence=divergence)
        penalties.append(penalty.item())
        optimizer.zero_grad()
        penalty.backward()
        optimizer.step()
    assert penalties[-1] < 0.1 * penalties[0]


def multi_label(outputs):
    targets = (torch.arange(outputs.numel()) % 2).float().view_as(outputs)
    return F.binary_cross_entropy_with_logits(outputs, targets, reduction="none").mean(1)


def regression(outputs):
    return F.mse_loss(outputs[:, 0], torch.linspace(0, 1, len(outputs)), reduction="none")


def tokens(outputs):  # the four outputs are two tokens of two classes each
    logits = outputs.view(-1, 2, 2).transpose(1, 2)
    targets = torch.arange(2 * len(outputs)).view(-1, 2) % 2
    return F.cross_entropy(logits, targets, reduction="none").flatten()


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("per_sample", [multi_label, regression, tokens])
def test_any_loss_per_sample_reaches_the_model_as_weights_of_its_samples(per_sample, divergence):
    torch.manual_seed(0)
    model = nn.Linear(3, 4)
    risks = per_sample(model(torch.randn(12, 3)))
    domains = torch.arange(2).repeat_interleave(len(risks) // 2)
    criterion = RiskMatching(divergence=divergence)
    (direct,) = torch.autograd.grad(criterion(risks, domains).loss, model.weight, retain_graph=True)
    leaves = risks.detach().requires_grad_()
    (weights,) = torch.autograd.grad(criterion(leaves, domains).loss, leaves)
    (weighted,) = torch.autograd.grad((weights * risks).sum(), model.weight)
    assert direct.norm() > 0
    assert torch.allclose(direct, weighted, rtol=1e-4, atol=1e-6)


def test_the_module_has_no_state_and_survives_pickling():
    criterion = RiskMatching(2.0, match="variance", divergence="wasserstein-2", rescale=True)
    copy = pickle.loads(pickle.dumps(criterion))
    assert not criterion.state_dict()
    assert repr(copy) == repr(criterion)
    assert repr(criterion) == (
        "RiskMatching(weight=2, match='variance', divergence=Wasserstein(order=2), "
        "variance_weight=0, rescale=True, pool='domains')"
    )


# Refusals

NAN, INF = math.nan, math.inf
TWO = torch.tensor([0, 1])


def test_risks_that_are_not_finite_are_counted_by_domain():
    risks = torch.tensor([NAN, 0.1, INF, NAN, 0.2, -INF, 0.3])
    domains = torch.tensor([7, 7, 7, 3, 3, 7, 5])
    with pytest.raises(
        ValueError, match=r"1 NaN in domain 3; 1 NaN and 2 infinite in domain 7 \(of 7 risks\)"
    ):
        risk_matching_penalty(risks, domains)
    with pytest.raises(ValueError, match="domain 7"):
        RiskMatching(weight=0)(risks, domains)


@pytest.mark.parametrize(
    ("risks", "domains", "error", "message"),
    [
        ([0.1, 0.2], TWO, TypeError, r"risks must be a torch\.Tensor, got list"),
        (torch.tensor([1, 2]), TWO, TypeError, r"floating point, got torch\.int64; use risks\.fl"),
        (torch.rand(2, 1), TWO, ValueError, r"got shape \(2, 1\); use risks\.squeeze\(1\)"),
        (torch.rand(2, 3), TWO, ValueError, r"got shape \(2, 3\); compute the loss with reduct"),
        (torch.empty(0), TWO, ValueError, "risks is empty"),
        (torch.rand(2), [0.5, 1], TypeError, r"integer labels or strings.* got list of float64"),
        (torch.rand(2), ["a", None], TypeError, r"integer labels or strings.* got list of object"),
        (torch.rand(2), ["a", "b", "c"], ValueError, r"got \(3,\) labels for \(2,\) risks"),
        (torch.rand(2), TWO.float(), TypeError, r"integer labels, got torch\.float32; use domain"),
        (torch.rand(2), TWO.bool(), TypeError, r"integer labels, got torch\.bool"),
        (torch.rand(3), TWO, ValueError, r"one label per risk, got \(2,\) labels for \(3,\) risks"),
        (torch.rand(2), TWO.to("meta"), ValueError, r"domains are on meta and risks on cpu; use"),
    ],
)
def test_what_is_no_batch_of_risks_is_refused(risks, domains, error, message):
    with pytest.raises(error, match=message):
        risk_matching_penalty(risks, domains)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"match": "wrost"}, r"Unknown match 'wrost'\. Did you mean 'worst'\?"),
        ({"match": "Variance"}, r"Did you mean 'variance'\?"),
        ({"divergence": "MMD"}, r"Unknown divergence 'MMD'\. Did you mean 'mmd'\?"),
        ({"divergence": "wasserstein"}, r"Did you mean 'wasserstein-[12]'\?"),
        ({"divergence": "xyz"}, r"Unknown divergence 'xyz'\. Valid: 'mmd', 'moments', 'energy'"),
    ],
)
def test_unknown_options_are_answered_with_the_nearest(options, message):
    with pytest.raises(ValueError, match=message):
        risk_matching_penalty(*batch(3, 3), **options)
    with pytest.raises(ValueError, match=message):
        RiskMatching(**options)


def test_a_divergence_is_a_name_or_an_object():
    with pytest.raises(TypeError, match=r"a name or a riskmatch\.divergence\.Divergence, got None"):
        RiskMatching(divergence=None)


@pytest.mark.parametrize("name", ["weight", "variance_weight"])
@pytest.mark.parametrize("value", [-1.0, NAN, INF])
def test_weights_are_finite_and_not_negative(name, value):
    with pytest.raises(ValueError, match=f"{name} must be a finite number ≥ 0, got {value!r}"):
        RiskMatching(**{name: value})


@pytest.mark.parametrize(
    ("options", "purpose", "cure"),
    [
        ({"divergence": "moments"}, "Moments", "'mmd'"),
        ({"divergence": MMD(unbiased=True)}, "MMD", "'mmd'"),
        ({"variance_weight": 1.0}, "variance regularisation", "variance_weight=0"),
    ],
)
def test_a_domain_of_one_sample_is_named_where_more_are_needed(options, purpose, cure):
    risks, domains = batch(1, 4, 4)
    message = f"Domain 10 has 1 sample in this batch, and {purpose} needs 2 per domain.*{cure}"
    with pytest.raises(ValueError, match=message):
        RiskMatching(**options)(risks, domains)


@pytest.mark.parametrize("divergence", ["mmd", "energy", "wasserstein-1", "wasserstein-2"])
def test_a_domain_of_one_sample_is_fine_where_no_variance_is_needed(divergence):
    risks, domains = batch(1, 4, 4)
    assert risk_matching_penalty(risks, domains, divergence=divergence) > 0


def test_a_domain_that_is_not_matched_may_have_one_sample():
    risks, domains = batch(4, 1, 4)
    assert risk_matching_penalty(risks, domains, divergence="moments") > 0
    with pytest.raises(ValueError, match="Domain 20 has 1 sample"):
        risk_matching_penalty(risks, domains, match="variance", divergence="moments")


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("n", [40, 4000])
def test_autocast_does_not_change_penalty_and_variance(divergence, dtype, n):
    risks = 5 + 1000 * torch.rand(n, generator=torch.Generator().manual_seed(0))
    domains = torch.arange(n) % 3  # of different sizes
    criterion = RiskMatching(1.0, divergence=divergence, variance_weight=0.1)
    expected = criterion(risks, domains)
    with torch.autocast("cpu", dtype=dtype):
        found = criterion(risks, domains)
    assert torch.equal(found.penalty, expected.penalty)
    assert torch.equal(found.variance, expected.variance)


@pytest.mark.parametrize("n", [6, 3000])
def test_labels_at_both_ends_of_the_integers(n):
    risks, far = torch.linspace(0, 1, n), 9 * 10**18
    labels = torch.tensor([-far, far]).repeat_interleave(n // 2)
    expected = risk_matching_penalty(risks, torch.tensor([0, 1]).repeat_interleave(n // 2))
    assert torch.equal(risk_matching_penalty(risks, labels), expected)


@pytest.mark.parametrize("value", [lambda x: x - x.mean(), lambda x: 0.5])
def test_a_divergence_that_returns_no_scalar_is_named(value):
    class Own(Divergence):
        def between(self, x, y, weights=None):
            return value(x)

    with pytest.raises(TypeError, match=r"Own.between must return a tensor with one number.*got"):
        risk_matching_penalty(torch.rand(6), [0, 0, 0, 1, 1, 1], divergence=Own())
