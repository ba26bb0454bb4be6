"""The criterion in other people's loops: transforms, compilation, labels, scalers, processes."""

import os
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import grad, vmap

from riskmatch import RiskMatching, risk_matching_penalty
from riskmatch.divergence import MMD, DomainIndex

DIVERGENCES = ["mmd", "moments", "energy", "wasserstein-1", "wasserstein-2"]
DOMAINS = torch.tensor([0] * 30 + [1] * 50 + [2] * 20)


def risks_of(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# Function transforms


@pytest.mark.parametrize("n", [100, 300])  # all pairs, and the grid
@pytest.mark.parametrize("match", ["worst", "variance"])
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_func_grad_equals_backward(divergence, match, n):
    domains = DOMAINS.repeat(n // 100)
    criterion = RiskMatching(3.0, match, divergence, variance_weight=0.1)
    risks = risks_of(n).requires_grad_()
    criterion(risks, domains).loss.backward()
    got = grad(lambda risks: criterion(risks, domains).loss)(risks.detach())
    assert torch.allclose(got, risks.grad, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("match", ["worst", "variance"])
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_vmap_equals_a_loop_over_risk_vectors(divergence, match):
    risks = risks_of(4, 100)

    def penalty(risks):
        return risk_matching_penalty(risks, DOMAINS, match=match, divergence=divergence)

    expected = torch.stack([penalty(row) for row in risks])
    assert torch.allclose(vmap(penalty)(risks), expected, rtol=1e-10)
    slopes = torch.stack([grad(penalty)(row) for row in risks])
    assert torch.allclose(vmap(grad(penalty))(risks), slopes, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
@pytest.mark.parametrize("match", ["worst", "variance"])
def test_compiles_without_a_graph_break(match, order):
    criterion = RiskMatching(2.0, match, variance_weight=0.5)
    domains = DOMAINS if order == "sorted" else DOMAINS[torch.randperm(100)]
    risks = risks_of(100).float()
    compiled = torch.compile(criterion, fullgraph=True, backend="aot_eager")
    got, expected = risks.clone().requires_grad_(), risks.clone().requires_grad_()
    out, eager = compiled(got, domains), criterion(expected, domains)
    out.loss.backward()
    eager.loss.backward()
    assert out.loss.item() == pytest.approx(eager.loss.item(), rel=1e-5)
    assert torch.allclose(got.grad, expected.grad, rtol=1e-4, atol=1e-6)
    assert torch.equal(out.worst, eager.worst)


# Labels


@pytest.mark.parametrize(
    "dtype",
    [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32],
)
def test_every_integer_type_is_a_label(dtype):
    labels = torch.tensor([100, 100, 7, 7, 120, 120])
    risks = risks_of(6)
    expected = RiskMatching()(risks, labels)
    got = RiskMatching()(risks, labels.to(dtype))
    assert torch.equal(got.loss, expected.loss)
    assert got.domains.tolist() == [7, 100, 120]
    assert got.worst == expected.worst


def test_labels_far_apart_in_a_narrow_type_do_not_overflow():
    labels = torch.tensor([-128, -128, 127, 127], dtype=torch.int8)
    out = RiskMatching()(torch.tensor([0.0, 0.1, 1.0, 1.1]), labels)
    assert out.domains.tolist() == [-128, 127]
    assert out.worst == 127


@pytest.mark.parametrize(
    "convert",
    [list, tuple, np.asarray, pd.Series, lambda x: pd.Series(x, dtype="category")],
    ids=["list", "tuple", "array", "column", "categorical column"],
)
@pytest.mark.parametrize(
    "labels", [["b", "b", "a", "a"], [9, 9, 4, 4]], ids=["strings", "integers"]
)
def test_labels_may_be_lists_arrays_and_columns(labels, convert):
    risks = torch.tensor([1.0, 1.1, 0.0, 0.1])
    out = RiskMatching()(risks, convert(labels))
    assert torch.equal(out.loss, RiskMatching()(risks, torch.tensor([1, 1, 0, 0])).loss)
    found = out.domains if isinstance(out.domains, tuple) else out.domains.tolist()
    assert list(found) == sorted(set(labels))
    assert out.worst_domain == labels[0]
    assert out.domain_risks.tolist() == pytest.approx([0.05, 1.05])


def test_groups_made_once_serve_every_step():
    groups = DomainIndex.of(DOMAINS)
    risks = risks_of(100)
    assert torch.equal(RiskMatching()(risks, groups).loss, RiskMatching()(risks, DOMAINS).loss)


@given(
    st.lists(st.integers(2, 12), min_size=2, max_size=4),
    st.integers(0, 99),
    st.sampled_from(DIVERGENCES),
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from([torch.int8, torch.uint16, torch.int64, list, np.asarray, pd.Series]),
)
@settings(deadline=None, max_examples=40)
def test_transforms_and_types_agree_on_ragged_shuffled_batches(
    sizes, seed, divergence, dtype, labels
):
    """Function transforms equal backward, and types of labels change nothing."""
    generator = torch.Generator().manual_seed(seed)
    domains = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    domains = domains[torch.randperm(len(domains), generator=generator)]
    risks = torch.rand(2, len(domains), generator=generator, dtype=torch.float64).to(dtype)
    given_labels = (
        domains.to(labels) if isinstance(labels, torch.dtype) else labels(domains.numpy())
    )

    def loss(risks, labels=given_labels):
        return RiskMatching(2.0, "variance", divergence, variance_weight=0.1)(risks, labels).loss

    leaf = risks.clone().requires_grad_()
    plain = torch.stack([loss(row, domains) for row in leaf])
    plain.sum().backward()
    close = (
        {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-12}
    )
    assert torch.equal(torch.stack([loss(row) for row in risks]), plain)
    torch.testing.assert_close(vmap(loss)(risks), plain, **close)
    torch.testing.assert_close(vmap(grad(loss))(risks), leaf.grad, **close)


@pytest.mark.parametrize("divergence", [*DIVERGENCES, MMD(unbiased=True)])
@pytest.mark.parametrize("match", ["worst", "variance"])
def test_no_tensor_is_made_on_the_default_device(divergence, match):
    """The risks decide where everything is computed: a default device without data is no harm."""
    criterion = RiskMatching(2.0, match, divergence, variance_weight=0.1)
    risks, labels = risks_of(300).requires_grad_(), ["a", "b", "c"] * 100
    expected = criterion(risks, labels).loss.item()
    with torch.device("meta"):
        out = criterion(risks, labels)
        out.loss.backward()
    assert out.loss.item() == expected
    assert risks.grad.device.type == "cpu"


# Risks that are not finite


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_nonfinite_risks_propagate_where_asked(divergence, bad):
    risks = risks_of(100).float()
    risks[3] = bad
    risks.requires_grad_()
    criterion = RiskMatching(divergence=divergence, variance_weight=1.0, nonfinite="propagate")
    out = criterion(risks, DOMAINS)
    out.loss.backward()
    assert not torch.isfinite(out.loss)
    assert not torch.isfinite(risks.grad).all()


def test_a_gradient_scaler_skips_the_step():
    weight = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    inputs = torch.linspace(0, 1, 100)
    inputs[0] = torch.inf
    loss = RiskMatching(nonfinite="propagate")(weight * inputs, DOMAINS).loss
    scaler.scale(loss).backward()
    scale = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    assert weight.item() == 1.0
    assert scaler.get_scale() < scale


# Processes and types

WORKER = """
    import sys, warnings
    import torch
    from riskmatch import RiskMatching

    torch.distributed.init_process_group("gloo", world_size=2, rank=int(sys.argv[1]),
                                         init_method=f"file://{sys.argv[2]}")
    torch.distributed.barrier()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            RiskMatching()(torch.rand(4), torch.tensor([0, 0, 1, 1]))
    print(len(caught), caught[0].message)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
"""


def test_a_process_group_of_two_is_warned_about_once(tmp_path):
    script = tmp_path / "worker.py"
    script.write_text(textwrap.dedent(WORKER), "utf-8")
    workers = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), str(tmp_path / "store")],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for rank in range(2)
    ]
    for worker in workers:
        output, _ = worker.communicate(timeout=120)
        assert output.startswith("1 ")
        assert "group='world'" in output


def test_one_process_is_not_warned_about():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RiskMatching()(torch.rand(4), torch.tensor([0, 0, 1, 1]))
