import errno
import json
import random
import re

import msgspec
import pytest
import torch
from safetensors.torch import save
from tiny_runs import HPARAMS, tiny

from riskmatch.contract import OptimSpec
from riskmatch.engine import checkpoint
from riskmatch.engine.assemble import assemble
from riskmatch.engine.checkpoint import (
    CheckpointError,
    Notes,
    PhaseValues,
    Snapshot,
    Values,
    capture,
    restore,
)

NOTES = Notes({"loss": 0.5}, 2.0, (2, 8, 8))


def snapshot(step: int, notes: Notes = NOTES) -> Snapshot:
    tensors = {
        "model/w": torch.full((4, 3), float(step)),
        "model/count": torch.tensor(step),  # zero-dimensional
        "memory/mask": torch.tensor([True, False]),
        "memory/half": torch.tensor([0.1], dtype=torch.bfloat16),
        "memory/none": torch.zeros(0),
    }
    values = Values(step, OptimSpec(), {}, {"drawn": step}, notes)
    return Snapshot(values, tensors)


def test_save_and_load_round_trip(tmp_path):
    path = checkpoint.save(tmp_path, "run", snapshot(3))
    loaded = checkpoint.load(path, "run")
    assert loaded.values == snapshot(3).values
    for name, value in snapshot(3).tensors.items():
        assert torch.equal(loaded.tensors[name], value)
        assert loaded.tensors[name].dtype == value.dtype


def test_last_two_checkpoints_are_kept(tmp_path):
    for step in (1, 2, 30, 200):
        checkpoint.save(tmp_path, "run", snapshot(step))
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == ["00000030.safetensors", "00000200.safetensors"]


def test_files_of_other_names_are_left_alone(tmp_path):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    (folder / "best.safetensors").write_bytes(b"of the user")
    for step in (1, 2, 3):
        checkpoint.save(tmp_path, "run", snapshot(step))
    last, faults = checkpoint.load_last(tmp_path, "run")
    assert (last.step, faults) == (3, [])
    checkpoint.clear(tmp_path)
    assert [path.name for path in folder.iterdir()] == ["best.safetensors"]


def test_truncated_file_raises(tmp_path):
    path = checkpoint.save(tmp_path, "run", snapshot(3))
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match="truncated or damaged"):
            checkpoint.load(path, "run")


def test_flipped_bit_raises_or_is_harmless(tmp_path):
    path = checkpoint.save(tmp_path, "run", snapshot(3))
    whole = path.read_bytes()
    expected = checkpoint.load(path, "run")
    refused = 0
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << random.Random(place).randrange(8)
        path.write_bytes(flipped)
        try:
            loaded = checkpoint.load(path, "run")
        except CheckpointError:
            refused += 1
            continue
        assert loaded.values == expected.values  # the padding of the header is ignored
        assert all(torch.equal(v, expected.tensors[name]) for name, v in loaded.tensors.items())
    assert refused >= len(whole) - 8


def test_foreign_files_raise_with_the_reason(tmp_path):
    path = checkpoint.save(tmp_path, "run", snapshot(3))
    with pytest.raises(CheckpointError, match="belongs to run run, not other"):
        checkpoint.load(path, "other")
    from safetensors.torch import save_file

    save_file({"w": torch.zeros(2)}, path)
    with pytest.raises(CheckpointError, match="has the format 'none'"):
        checkpoint.load(path, "run")
    path.write_bytes(b"\x80\x04 a pickle")
    with pytest.raises(CheckpointError, match="truncated or damaged"):
        checkpoint.load(path, "run")


@pytest.mark.parametrize(
    ("values", "fact"),
    [
        ({"step": "3"}, r"Expected `int`, got `str` - at `\$.step`"),
        ({"notes": 5}, r"got `int` - at `\$.notes`"),
        ({"notes": {}}, r"missing required field `numbers` - at `\$.notes`"),
        ({"notes": {"numbers": {}, "seconds": "x", "input_shape": []}}, r"at `\$.notes.seconds`"),
        ({"notes": {"numbers": {}, "seconds": 1, "input_shape": 8}}, r"at `\$.notes.input_shape`"),
        ({"base": None}, r"got `null` - at `\$.base`"),
        ({"base": {"kind": "adam", "lr": "x"}}, r"Expected `float`, got `str` - at `\$.base.lr`"),
        ({"phases": {"all": {"spec": {"kind": "adm"}}}}, r"at `\$.phases\[...\].spec.kind`"),
        ({"sampler": {"drawn": None}}, r"Expected `int`, got `null` - at `\$.sampler"),
        ({"phases": []}, r"at `\$.phases`"),
    ],
)
def test_values_that_make_no_sense_are_damage(tmp_path, values, fact):
    checkpoint.save(tmp_path, "run", snapshot(1))
    path, good = checkpoint.path_of(tmp_path, 3), snapshot(3)
    text = json.dumps({**msgspec.to_builtins(good.values), **values})
    header = {"format": checkpoint.FORMAT, "run": "run", "values": text}
    header["sha256"] = checkpoint._checksum(header, good.tensors)
    path.write_bytes(save(good.tensors, header))
    last, (fault,) = checkpoint.load_last(tmp_path, "run")
    assert last.step == 1
    assert "00000003.safetensors is truncated or damaged" in fault
    assert re.search(fact, fault)


@pytest.mark.parametrize(
    ("values", "tensors", "fact"),
    [
        ({"phases": {"all": PhaseValues(OptimSpec(), 0, [{}], {})}}, {}, "params.* is missing"),
        ({"sampler": {}}, {}, "drawn.* is missing"),
        ({}, {"random/torch": torch.zeros(3)}, "RNG state"),
    ],
)
def test_state_that_makes_no_sense_is_named_with_the_cure(values, tensors, fact):
    made = assemble(tiny("erm"), "cpu")
    made.stepper.step(next(made.sampler))
    good = capture(made.stepper, made.sampler, NOTES)
    odd = Snapshot(msgspec.structs.replace(good.values, **values), {**good.tensors, **tensors})
    with pytest.raises(ValueError, match=f"step 1 is damaged: .*{fact}.*Remove its file"):
        restore(odd, made.stepper, made.sampler)


def test_load_last_skips_and_renames_a_damaged_checkpoint(tmp_path):
    checkpoint.save(tmp_path, "run", snapshot(1))
    newest = checkpoint.save(tmp_path, "run", snapshot(2))
    newest.write_bytes(newest.read_bytes()[:-5])
    snapshot_, faults = checkpoint.load_last(tmp_path, "run")
    assert snapshot_ is not None
    assert snapshot_.step == 1
    assert len(faults) == 1
    assert "00000002.safetensors is truncated or damaged" in faults[0]
    assert newest.with_suffix(".refused").exists()
    assert checkpoint.load_last(tmp_path, "run")[1] == []


def test_a_step_that_the_run_does_not_have_is_refused(tmp_path):
    for step in (3, 400):
        checkpoint.save(tmp_path, "run", snapshot(step))
    with pytest.raises(CheckpointError, match=r"00000400.*step 400.* 300 steps"):
        checkpoint.load(checkpoint.path_of(tmp_path, 400), "run", 300)
    last, (fault,) = checkpoint.load_last(tmp_path, "run", 300)
    assert last.step == 3
    assert "400" in fault
    assert checkpoint.path_of(tmp_path, 400).with_suffix(".refused").exists()


def test_load_last_without_valid_checkpoints(tmp_path):
    assert checkpoint.load_last(tmp_path / "absent", "run") == (None, [])
    checkpoint.save(tmp_path, "other", snapshot(1))
    snapshot_, faults = checkpoint.load_last(tmp_path, "run")
    assert snapshot_ is None
    assert "belongs to run other" in faults[0]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_failed_write_keeps_the_earlier_file(tmp_path, monkeypatch, call):
    path = checkpoint.save(tmp_path, "run", snapshot(3))
    before = path.read_bytes()

    def fail(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(f"riskmatch.files.os.{call}", fail)
    with pytest.raises(OSError, match="No space"):
        checkpoint.save(tmp_path, "run", snapshot(3, Notes({"loss": 0.4}, 2.0, (2, 8, 8))))
    monkeypatch.undo()
    assert path.read_bytes() == before
    checkpoint.save(tmp_path, "run", snapshot(4))
    assert not list((tmp_path / "checkpoints").glob("*.tmp"))


@pytest.mark.parametrize("method", HPARAMS)
@pytest.mark.parametrize("stop", [0, 7, 20, 25])
def test_restored_run_takes_the_same_steps(tmp_path, method, stop):
    config = tiny(method, schedule="cosine-after-warmup", weight_decay=0.01)
    torch.manual_seed(0)
    first = assemble(config, "cpu")
    for _ in range(stop):
        first.stepper.step(next(first.sampler))
    path = checkpoint.save(tmp_path, "run", capture(first.stepper, first.sampler, NOTES))
    expected = [first.stepper.step(next(first.sampler)) for _ in range(5)]

    torch.manual_seed(1)
    second = assemble(config, "cpu")
    notes = restore(checkpoint.load(path, "run"), second.stepper, second.sampler)
    assert notes == NOTES
    assert [second.stepper.step(next(second.sampler)) for _ in range(5)] == expected
    specs = [
        {name: phase.spec for name, phase in run.stepper.phases.items()} for run in (first, second)
    ]
    assert specs[0] == specs[1]
    for one, two in zip(
        first.stepper.model.parameters(), second.stepper.model.parameters(), strict=True
    ):
        assert torch.equal(one, two)
