"""Programs of torch.export give the network's answers; what disagrees is not written."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import riskmatch
from riskmatch.deployment import exporting


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("export")
    options = {"data_options": {"samples": 60}, "model_options": {"widths": [8]}, "steps": 2}
    run = riskmatch.train("colored-digits", "erm", out=root, **options)
    return riskmatch.save_model(run, root / "model")


def test_torch_export_gives_the_same_probabilities(folder):
    exported = riskmatch.export(folder, format="torch")
    assert (exported.path, exported.checked) == (folder / "model.pt2", 100)
    assert exported.difference <= 1e-4
    program = torch.export.load(exported.path).module()
    for n in (1, 5):
        x = torch.randn(n, 2, 8, 8)
        expected = riskmatch.load_model(folder).predict_proba(x)
        np.testing.assert_allclose(program(x)[1].detach(), expected, atol=1e-6)


def test_an_export_that_disagrees_is_not_written(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "_apply", lambda network, x: [torch.rand(len(x), 2).numpy()])
    with pytest.raises(ValueError, match=r"differ from those of torch.*on 100 real inputs"):
        riskmatch.export(folder, tmp_path / "m.pt2", format="torch")
    assert not list(tmp_path.iterdir())


def test_data_that_are_gone_need_other_inputs(folder, tmp_path):
    model = riskmatch.load_model(folder)
    model = replace(model, config=replace(model.config, data="/nowhere/digits.npz"))
    with pytest.raises(ValueError, match=r"nowhere.*--inputs"):
        riskmatch.export(model, tmp_path / "m.pt2", format="torch")
    x = torch.randn(1, 2, 8, 8)
    assert riskmatch.export(model, tmp_path / "m.pt2", format="torch", inputs=x).checked == 2


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return self.layer(x) if x.sum() > 0 else -self.layer(x)


def test_a_network_that_cannot_be_exported_is_named_in_one_line(tmp_path):
    x, y = torch.randn(20, 3), torch.arange(20) % 2
    data = {"A": (x, y), "B": (x, y)}
    run = riskmatch.train(data, "erm", model=Branching(), steps=2, out=tmp_path / "runs")
    folder = riskmatch.save_model(run, tmp_path / "model")
    model = riskmatch.load_model(folder, network=Branching())
    with pytest.raises(ValueError, match="cannot be exported as torch") as error:
        riskmatch.export(model, tmp_path / "m.pt2", format="torch", inputs=x)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "m.pt2").exists()
