"""DANN of the example plugin against float64 trajectories of the field's reference code."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from test_reference_trajectories import Network, weights

from riskmatch.contract import Memory, OptimSpec, prepare
from riskmatch.data.domain import Batch
from riskmatch.engine import fit

LAYERS = {"input": "0", "hiddens.0": "2", "output": "4"}


@pytest.fixture(scope="module")
def more():
    folder = Path(os.environ.get("RISKMATCH_DATA", ""), "reference-trajectories")
    if "RISKMATCH_DATA" not in os.environ or not (folder / "more.npz").is_file():
        pytest.skip("needs the set reference-trajectories in the folder RISKMATCH_DATA")
    return json.loads((folder / "more.json").read_text()), np.load(folder / "more.npz")


def discriminator(arrays, prefix):
    return {
        f"{ours}.{kind}": torch.from_numpy(arrays[f"{prefix}/discriminator.{theirs}.{kind}"])
        for theirs, ours in LAYERS.items()
        for kind in ("weight", "bias")
    }


@pytest.mark.needs_data
@pytest.mark.parametrize("name", ["DANN", "DANN_grad_penalty"])
def test_final_weights_are_the_references(more, name, plugin):
    from riskmatch_shapes.dann import DANN

    settings, arrays = more
    h = {**settings["hparams"], **{k: v["hparams"] for k, v in settings["variants"].items()}}[name]
    objective = DANN(
        weight=h["lambda"],
        gradient_penalty=h["grad_penalty"],
        critic_steps=h["d_steps_per_g_step"],
        critic_lr=h["lr_d"],
        critic_decay=h["weight_decay_d"],
        beta1=h["beta1"],
        width=16,
    )
    model = Network().double()
    model.load_state_dict(weights(arrays, f"{name}/init"))
    sizes = (settings["batch"],) * settings["domains"]
    batches = [
        Batch(torch.from_numpy(x).flatten(0, 1), torch.from_numpy(y).flatten(), sizes)
        for x, y in zip(arrays["x"], arrays["y"], strict=True)
    ]
    memory = Memory()
    prepare(memory, objective, model, batches[0].x, domains=3)
    memory.modules["discriminator"].load_state_dict(discriminator(arrays, f"{name}/init"))
    optim = OptimSpec("adam", h["lr_g"], h["weight_decay_g"])
    history = fit(model, objective, batches, optim, memory)
    logged = [next(iter(entry.values())) for entry in settings["logged"][name]]
    np.testing.assert_allclose([entry["loss"] for entry in history], logged, rtol=0, atol=1e-10)
    finals = (
        (model, weights(arrays, f"{name}/final")),
        (memory.modules["discriminator"], discriminator(arrays, f"{name}/final")),
    )
    for module, expected in finals:
        for key, value in expected.items():
            torch.testing.assert_close(module.state_dict()[key], value, rtol=0, atol=1e-10)
