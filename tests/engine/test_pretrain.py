"""Runs that start from a shared ERM phase."""

from dataclasses import replace

import pytest
import torch
from tiny_runs import final_state, lines, tiny
from torch.nn.functional import binary_cross_entropy_with_logits

from riskmatch.contract import Memory, OptimSpec, cross_entropy_risks
from riskmatch.data import Batch
from riskmatch.engine import Stepper, StepSettings
from riskmatch.engine.run import NoCheckpointError, train
from riskmatch.models import MLP
from riskmatch.objectives import ERM
from riskmatch.runs import records


def test_pretraining_equals_a_warm_up(tmp_path):
    warm, shared = tiny("rdm"), tiny("rdm", pretrain=20)
    train(warm, tmp_path)
    train(shared, tmp_path)
    one, other = final_state(tmp_path / warm.id), final_state(tmp_path / shared.id)
    assert one == other
    assert (
        lines(tmp_path / shared.id)[2:-1] == lines(tmp_path / warm.id)[3:-1]
    )  # except for the evaluation of ERM, and the best steps, which include it


def test_erm_phase_is_trained_once_and_shared(tmp_path):
    methods = [tiny(name, pretrain=20) for name in ("rdm", "groupdro", "fishr")]
    phase = methods[0].erm_phase()
    assert {config.erm_phase().id for config in methods} == {phase.id}
    train(methods[0], tmp_path)
    begun = (tmp_path / phase.id / records.FILE).stat().st_mtime_ns
    for config in methods[1:]:
        train(config, tmp_path)
    assert (tmp_path / phase.id / records.FILE).stat().st_mtime_ns == begun
    steps = [e.step for e in records.read(tmp_path / methods[1].id).evaluations]
    assert steps == [40, 60]


def test_on_evaluation_gets_each_evaluation_of_both_runs_once_it_is_on_disk(tmp_path):
    config, calls = tiny("rdm", pretrain=30), []

    def on_evaluation(run, evaluation):
        assert records.read(tmp_path / run.id).evaluations[-1] == evaluation
        calls.append((run.id, evaluation.step))

    train(config, tmp_path, on_evaluation=on_evaluation)
    phase = config.erm_phase().id
    assert calls == [(phase, 20), (phase, 30), (config.id, 40), (config.id, 60)]


def test_erm_phase_without_checkpoints_is_trained_again(tmp_path):
    config = tiny("rdm", pretrain=20)
    train(config, tmp_path / "kept")
    phase = config.erm_phase()
    train(phase, tmp_path / "removed")
    for file in (tmp_path / "removed" / phase.id / "checkpoints").iterdir():
        file.unlink()
    train(config, tmp_path / "removed")
    assert final_state(tmp_path / "removed" / config.id) == final_state(
        tmp_path / "kept" / config.id
    )


@pytest.mark.filterwarnings("ignore:.*truncated or damaged")
def test_damaged_erm_phase_raises_with_the_cure(tmp_path):
    config = tiny("rdm", pretrain=20)
    phase = config.erm_phase()
    train(phase, tmp_path)
    for file in (tmp_path / phase.id / "checkpoints").iterdir():
        file.write_bytes(b"damaged")
    with pytest.raises(NoCheckpointError, match=r"no checkpoint of its last step.*remove"):
        train(config, tmp_path)


def test_cosine_spans_the_steps_of_the_method_and_ends_at_zero():
    settings = StepSettings(schedule="cosine", start=2, steps=6)
    memory = Memory(base=OptimSpec("sgd", lr=1.0), step=2)
    stepper = Stepper(MLP((3,), 2, widths=(4,)), ERM(), memory, settings)
    batch = Batch(torch.randn(4, 3), torch.tensor([0, 1, 0, 1]), (2, 2))
    rates = []
    for _ in range(4):
        stepper.step(batch)
        rates.append(stepper.phases["all"].optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([(2 + 2**0.5) / 4, 0.5, (2 - 2**0.5) / 4, 0.0])


@pytest.mark.parametrize("method", ["rdm", "fishr"])
def test_micro_batches_give_the_step_of_the_whole_batch(tmp_path, method):
    whole = tiny(method, dropout=0.0, steps=25, eval_every=25, batch_size=0)
    pieces = replace(whole, micro_batch=37)
    results = []
    for config in (whole, pieces):
        train(config, tmp_path)
        results.append(records.read(tmp_path / config.id).evaluations[-1])
    assert results[0].loss == pytest.approx(results[1].loss, rel=1e-5)
    for domain, splits in results[0].scores.items():
        for split, score in splits.items():
            assert score.risk == pytest.approx(results[1].scores[domain][split].risk, rel=1e-4)


def test_xavier_init_and_single_logit():
    torch.manual_seed(0)
    model = MLP((6,), 2, widths=(8, 8), init="xavier", single_logit=True)
    _, logits = model(torch.randn(5, 6))
    y = torch.tensor([0, 1, 1, 0, 1])
    expected = binary_cross_entropy_with_logits(logits[:, 1], y.float(), reduction="none")
    assert torch.allclose(cross_entropy_risks(logits, y), expected)
    assert not logits[:, 0].any()
    first = model.featurizer[1]
    assert not first.bias.any()
    assert first.weight.abs().max() <= (6 / (6 + 8)) ** 0.5
    with pytest.raises(ValueError, match="two classes"):
        MLP((6,), 3, single_logit=True)
