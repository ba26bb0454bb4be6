"""Float64 training trajectories of the field's reference implementation, met to 1e-10."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from riskmatch.contract import OptimSpec
from riskmatch.data.domain import Batch
from riskmatch.engine import fit
from riskmatch.objectives import CORAL, ERM, IRM, RDM, VREx

OBJECTIVES = {
    "ERM": lambda h: ERM(),
    "VREx": lambda h: VREx(h["vrex_lambda"], h["vrex_penalty_anneal_iters"]),
    "IRM": lambda h: IRM(h["irm_lambda"], h["irm_penalty_anneal_iters"]),
    "CORAL": lambda h: CORAL(h["mmd_gamma"]),
    "RDM": lambda h: RDM(
        weight=h["rdm_lambda"],
        warmup=h["rdm_penalty_anneal_iters"],
        lr_after=h["rdm_lr"],
        variance_weight=h["variance_weight"],
    ),
}
LAYERS = {"0.input": "0", "0.hiddens.0": "2", "0.output": "4"}


@pytest.fixture(scope="module")
def reference():
    folder = Path(os.environ.get("RISKMATCH_DATA", ""), "reference-trajectories")
    if "RISKMATCH_DATA" not in os.environ or not folder.is_dir():
        pytest.skip("needs the set reference-trajectories in the folder RISKMATCH_DATA")
    settings = json.loads((folder / "trajectories.json").read_text())
    return settings, np.load(folder / "trajectories.npz")


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        layers = nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(16, 3)

    def forward(self, x):
        features = self.features(x)
        return features, self.classifier(features)


def weights(arrays, prefix):
    names = {**{theirs: f"features.{ours}" for theirs, ours in LAYERS.items()}, "1": "classifier"}
    return {
        f"{ours}.{kind}": torch.from_numpy(arrays[f"{prefix}/{theirs}.{kind}"])
        for theirs, ours in names.items()
        for kind in ("weight", "bias")
    }


@pytest.mark.needs_data
@pytest.mark.parametrize("name", OBJECTIVES)
def test_final_weights_are_the_references(reference, name):
    settings, arrays = reference
    model = Network().double()
    model.load_state_dict(weights(arrays, f"{name}/init"))
    sizes = (settings["batch"],) * settings["domains"]
    batches = [
        Batch(torch.from_numpy(x).flatten(0, 1), torch.from_numpy(y).flatten(), sizes)
        for x, y in zip(arrays["x"], arrays["y"], strict=True)
    ]
    objective = OBJECTIVES[name](settings["hparams"][name])
    fit(model, objective, batches, OptimSpec("adam", settings["lr"], settings["weight_decay"]))
    for key, expected in weights(arrays, f"{name}/final").items():
        torch.testing.assert_close(model.state_dict()[key], expected, rtol=0, atol=1e-10)
