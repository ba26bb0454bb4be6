"""One run on several processes under torchrun: the weights, records and calls of one process."""

import pytest
from parallel_driver import check_processes

from riskmatch.engine.parallel import LostProcessError, joined_processes
from riskmatch.engine.step import check_splits
from riskmatch.objectives import CORAL, RDM


def test_two_processes_train_the_run_of_one(tmp_path):
    check_processes(2, tmp_path)


def test_only_methods_on_risks_are_split():
    check_splits(RDM(), "processes")
    with pytest.raises(ValueError, match=r"CORAL needs features.*one process"):
        check_splits(CORAL(), "processes")


@pytest.mark.parametrize(
    ("rank", "device", "message"),
    [("1", "cuda:0", "use the device cuda, not cuda:0"), ("2", "cuda", "as there are 2")],
)
def test_each_process_needs_a_gpu_of_its_own(monkeypatch, rank, device, message):
    for name, value in {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "3"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with pytest.raises(ValueError, match=message), joined_processes(device):
        pass


def test_a_lost_process_is_named_with_its_error():
    message = str(LostProcessError({1: "ValueError: no such file.", 2: ""}))
    assert "Rank 1 stopped with ValueError: no such file." in message
    assert "Rank 2 stopped without an error" in message
