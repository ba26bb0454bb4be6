"""Discriminators, bottlenecks and adversaries against float64 trajectories of DomainBed."""

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
from riskmatch.engine.averaging import WeightAverage
from riskmatch.objectives import CAD, DANN, ERMPlusPlus, Transfer
from riskmatch.runs.config import RunConfig

LAYERS = {"input": "0", "hiddens.0": "3", "output": "6"}
"""Their names of the layers of a discriminator, and ours."""


def dann(h):
    given = h["lambda"], h["grad_penalty"], h["d_steps_per_g_step"], h["lr_d"], h["weight_decay_d"]
    return DANN(*given, h["beta1"], critic_width=16)


OBJECTIVES = {
    "DANN": dann,
    "DANN_grad_penalty": dann,
    "CAD": lambda h: CAD(h["lmbda"], h["temperature"]),
    "Transfer": lambda h: Transfer(h["t_lambda"], h["delta"], h["d_steps_per_g"], h["lr_d"]),
}


@pytest.fixture(scope="module")
def more():
    folder = Path(os.environ.get("RISKMATCH_DATA", ""), "reference-trajectories")
    if "RISKMATCH_DATA" not in os.environ or not (folder / "more.npz").is_file():
        pytest.skip("needs the set reference-trajectories in the folder RISKMATCH_DATA")
    return json.loads((folder / "more.json").read_text()), np.load(folder / "more.npz")


def batches_of(settings, arrays):
    sizes = (settings["batch"],) * settings["domains"]
    return [
        Batch(torch.from_numpy(x).flatten(0, 1), torch.from_numpy(y).flatten(), sizes)
        for x, y in zip(arrays["x"], arrays["y"], strict=True)
    ]


def others(arrays, prefix):
    """Weights of the discriminator, and of the adversary."""
    modules, adversary = {}, {}
    for key in arrays.files:
        name = key.removeprefix(f"{prefix}/")
        if key.startswith(f"{prefix}/discriminator."):
            layer, kind = name.removeprefix("discriminator.").rsplit(".", 1)
            modules[f"discriminator.{LAYERS[layer]}.{kind}"] = torch.from_numpy(arrays[key])
        elif key.startswith(f"{prefix}/adv_classifier."):
            kind = name.removeprefix("adv_classifier.")
            adversary[f"adversary/{kind}"] = torch.from_numpy(arrays[key])
    return modules, adversary


@pytest.mark.needs_data
@pytest.mark.parametrize("name", OBJECTIVES)
def test_final_weights_are_the_references(more, name):
    settings, arrays = more
    h = {**settings["hparams"], **{k: v["hparams"] for k, v in settings["variants"].items()}}[name]
    objective, model, memory = OBJECTIVES[name](h), Network().double(), Memory()
    model.load_state_dict(weights(arrays, f"{name}/init"))
    batches = batches_of(settings, arrays)
    prepare(memory, objective, model, batches[0].x, domains=3)
    memory.modules.load_state_dict(others(arrays, f"{name}/init")[0])
    lr, decay = h.get("lr_g", settings["lr"]), h.get("weight_decay_g", settings["weight_decay"])
    history = fit(model, objective, batches, OptimSpec("adam", lr, decay), memory)
    for entry, logged in zip(history, settings["logged"][name], strict=True):
        expected = logged.get("total_loss", next(iter(logged.values())))
        assert entry["loss"] == pytest.approx(expected, abs=1e-10)
        if "bn_loss" in logged:
            assert entry["raw penalty"] == pytest.approx(logged["bn_loss"], abs=1e-10)
    modules, adversary = others(arrays, f"{name}/final")
    found = {**model.state_dict(), **memory.modules.state_dict(), **memory.state}
    expected = {**weights(arrays, f"{name}/final"), **modules, **adversary}
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        torch.testing.assert_close(found[key], value, rtol=0, atol=1e-10)


@pytest.mark.needs_data
def test_weights_and_mean_weights_of_erm_plus_plus_are_the_references(more):
    settings, arrays = more
    h, model = settings["hparams"]["ERMPlusPlus"], Network().double()
    model.load_state_dict(weights(arrays, "ERMPlusPlus/init"))
    # Their mean starts at the weights after the step before sma_start_iter.
    objective = ERMPlusPlus(h["linear_steps"], h["linear_lr"], h["sma_start_iter"] - 1)
    config = RunConfig("toy", ("0",), "erm-plus-plus")
    average = WeightAverage(config, start=objective.averages_from)

    def batches():
        for step, batch in enumerate(batches_of(settings, arrays), 1):
            yield batch
            average.add(step, model)  # after the step on it

    optim = OptimSpec("adam", settings["lr"], settings["weight_decay"])
    history = fit(model, objective, batches(), optim)
    for entry, logged in zip(history, settings["logged"]["ERMPlusPlus"], strict=True):
        assert entry["loss"] == pytest.approx(logged["loss"], abs=1e-10)
    expected = {key.replace("network_sma.", "network_sma/"): arrays[key] for key in arrays.files}
    for prefix, found in (("final", model.state_dict()), ("final/network_sma", average.current())):
        for key, value in weights(expected, f"ERMPlusPlus/{prefix}").items():
            torch.testing.assert_close(found[key], value, rtol=0, atol=1e-10)
