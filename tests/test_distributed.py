"""The criterion over processes: values and gradients are those of the whole batch."""

import os
import subprocess
import sys
import textwrap

import pytest
import torch

from riskmatch import RiskMatching

WORKER = """
    import sys
    import torch
    import torch.distributed as dist
    from riskmatch import RiskMatching

    rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    dist.init_process_group("gloo", world_size=size, rank=rank, init_method=f"file://{folder}/store")
    risks, domains, owner, objectives = torch.load(f"{folder}/batch.pt")
    own = risks[owner == rank].requires_grad_()
    results = []
    for match, divergence in objectives:
        criterion = RiskMatching(3.0, match, divergence, variance_weight=0.5, group="world")
        out = criterion(own, domains[owner == rank])
        (gradient,) = torch.autograd.grad(out.loss, own)
        results.append((out.loss.detach(), out.domain_risks.detach(), gradient / size))
    torch.save(results, f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()
"""
SHARES = {
    "even": lambda domains, n: torch.arange(n) % 2,
    "one domain per process": lambda domains, n: domains.clamp(max=1),
    "a process with one sample": lambda domains, n: (torch.arange(n) == 5).long(),
    "three processes, the last without samples": lambda domains, n: torch.arange(n) % 2,
}


OBJECTIVES = [("worst", "mmd"), ("variance", "mmd"), ("worst", "moments")]


@pytest.mark.parametrize("share", SHARES)
def test_values_and_gradients_equal_those_of_one_process(tmp_path, share):
    generator = torch.Generator().manual_seed(0)
    domains = torch.arange(3).repeat_interleave(torch.tensor([20, 35, 50]))
    risks = torch.rand(105, generator=generator, dtype=torch.float64) + domains
    owner = SHARES[share](domains, 105)
    torch.save((risks, domains, owner, OBJECTIVES), tmp_path / "batch.pt")
    script = tmp_path / "worker.py"
    script.write_text(textwrap.dedent(WORKER), "utf-8")
    size = 3 if share.startswith("three") else 2
    workers = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), str(size), str(tmp_path)],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for rank in range(size)
    ]
    assert [worker.wait(timeout=120) for worker in workers] == [0] * size

    results = [torch.load(tmp_path / f"{rank}.pt") for rank in range(size)]
    for number, (match, divergence) in enumerate(OBJECTIVES):
        whole = risks.clone().requires_grad_()
        expected = RiskMatching(3.0, match, divergence, variance_weight=0.5)(whole, domains)
        (gradient,) = torch.autograd.grad(expected.loss, whole)
        for rank in range(size):
            loss, domain_risks, own = results[rank][number]
            assert loss.item() == pytest.approx(expected.loss.item(), rel=1e-12)
            assert torch.allclose(domain_risks, expected.domain_risks, rtol=1e-12)
            assert torch.allclose(own, gradient[owner == rank], rtol=1e-10, atol=1e-14)


def test_labels_of_a_group_are_integers():
    with pytest.raises(TypeError, match=r"process group.*integer"):
        RiskMatching(group="world")(torch.rand(2), ["a", "b"])


def test_a_single_process_is_a_world_of_its_own():
    risks, domains = torch.rand(5), torch.tensor([0, 0, 1, 1, 1])
    expected = RiskMatching(2.0)(risks, domains)
    assert torch.equal(RiskMatching(2.0, group="world")(risks, domains).loss, expected.loss)


def test_fewer_labels_than_risks_are_refused_before_they_are_exchanged():
    with pytest.raises(ValueError, match=r"\(5,\) and \(4,\)"):
        RiskMatching(group="world")(torch.rand(5), torch.tensor([0, 0, 1, 1]))
