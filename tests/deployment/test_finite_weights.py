"""Weights and outputs of a model that are not finite are errors, never a class."""

import hashlib
import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import riskmatch
from riskmatch.cli import main
from riskmatch.deployment import ModelError

X, Y = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2


class Masked(nn.Module):
    """A linear layer, and a mask of attention as transformers have it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.register_buffer("mask", torch.full((2, 2), -torch.inf).triu(1))

    def forward(self, x):
        return x, self.layer(x)


def saved(out, **options):
    run = riskmatch.train({"A": (X, Y), "B": (X + 1, Y)}, "erm", out=out, steps=2, **options)
    return riskmatch.save_model(run, out / "model")


def rewritten(folder, name, change):
    """Change a tensor as someone would who also writes the checksums."""
    weights = load_file(folder / "weights.safetensors")
    change(weights[name])
    save_file(weights, folder / "weights.safetensors")
    values = json.loads((folder / "model.json").read_text())
    content = (folder / "weights.safetensors").read_bytes()
    values["files"]["weights.safetensors"] = hashlib.sha256(content).hexdigest()
    del values["sha256"]
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    (folder / "model.json").write_text(json.dumps({**values, "sha256": digest.hexdigest()}))


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_weights_that_are_not_finite_are_refused_by_name(tmp_path, value):
    folder = saved(tmp_path, model_options={"widths": [4]})
    rewritten(folder, "classifier.weight", lambda weight: weight[0, :2].fill_(value))
    with pytest.raises(ModelError, match=r"2 of 8 values of 'classifier\.weight'.*infinite or NaN"):
        riskmatch.load_model(folder)


def test_the_command_names_the_tensor_and_writes_nothing(tmp_path, capsys):
    folder = saved(tmp_path, model_options={"widths": [4]})
    rewritten(folder, "classifier.bias", lambda bias: bias.fill_(torch.nan))
    out = tmp_path / "p.csv"
    assert main(["predict", str(folder), "colored-digits", "-o", str(out), "--quiet"]) == 2
    (message,) = capsys.readouterr().err.splitlines()
    assert "classifier.bias" in message
    assert not out.exists()


def test_masks_of_minus_infinity_are_allowed_and_others_are_not(tmp_path):
    network = Masked()
    folder = saved(tmp_path, model=network)
    assert riskmatch.load_model(folder, network=network).predict(X).shape == (40,)
    rewritten(folder, "mask", lambda mask: mask.fill_(torch.nan))
    with pytest.raises(ModelError, match="'mask'"):
        riskmatch.load_model(folder, network=network)


def test_outputs_that_are_not_finite_are_an_error_that_names_the_row(tmp_path):
    folder = saved(tmp_path, model_options={"widths": [4]})
    rewritten(folder, "classifier.weight", lambda weight: weight.mul_(1e36))
    model = riskmatch.load_model(folder)
    with pytest.raises(ValueError, match="row 2 are infinite or NaN"):
        model.predict(torch.tensor([[0.0, 0, 0], [1e6, 1e6, 1e6], [0, 0, 0]]))
