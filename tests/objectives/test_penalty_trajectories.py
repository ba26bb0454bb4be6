"""Penalties, masks and embeddings against float64 trajectories of the reference code."""

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
from riskmatch.objectives import IBIRM, MTL, RSC, SD, ANDMask, SelfReg

OBJECTIVES = {
    "SD": lambda h: SD(h["sd_reg"]),
    "IB_IRM": lambda h: IBIRM(
        h["irm_lambda"],
        h["irm_penalty_anneal_iters"],
        h["ib_lambda"],
        h["ib_penalty_anneal_iters"],
    ),
    "ANDMask": lambda h: ANDMask(h["tau"]),
    "RSC": lambda h: RSC(h["rsc_f_drop_factor"], h["rsc_b_drop_factor"]),
    "SelfReg": lambda h: SelfReg(),
    "SelfReg_fitted": lambda h: SelfReg(),
    "MTL_no_noise": lambda h: MTL(h["mtl_ema"]),
}
RAW = {"penalty": "penalty", "IRM_penalty": "penalty", "IB_penalty": "variance"}
"""Their names of penalties, and ours."""


@pytest.fixture(scope="module")
def more():
    folder = Path(os.environ.get("RISKMATCH_DATA", ""), "reference-trajectories")
    if "RISKMATCH_DATA" not in os.environ or not (folder / "more.npz").is_file():
        pytest.skip("needs the set reference-trajectories in the folder RISKMATCH_DATA")
    return json.loads((folder / "more.json").read_text()), np.load(folder / "more.npz")


def state(arrays, prefix):
    """Weights of the network, and of the module that the method brings."""
    network, modules, width = weights(arrays, prefix), {}, 16
    top = network["classifier.weight"]
    if top.shape[1] > width:  # features beside an embedding
        modules = {"marginal.weight": top[:, width:]}
        network["classifier.weight"] = top[:, :width]
    for key in arrays.files:
        if key.startswith(f"{prefix}/cdpl."):
            name = key.removeprefix(f"{prefix}/cdpl.")
            modules[f"projector.{name}"] = torch.from_numpy(np.asarray(arrays[key]))
    return network, modules


def replay(arrays, name):
    """Replaces the random choices of SelfReg by those of the reference, a step at a time."""
    draws = {key: arrays[f"{name}/draws/{key}"] for key in ("lam", "order", "shuffle_1")}
    steps = iter(zip(*draws.values(), arrays[f"{name}/draws/shuffle_2"], strict=True))

    def draw(self, y, generator):
        share, order, *shuffles = next(steps)
        partners = [np.empty_like(order) for _ in shuffles]
        for partner, shuffle in zip(partners, shuffles, strict=True):
            partner[order] = order[shuffle]
            assert torch.equal(y[partner], y)
        return (share, *map(torch.from_numpy, partners))

    return draw


@pytest.mark.needs_data
@pytest.mark.parametrize("name", OBJECTIVES)
def test_final_weights_are_the_references(more, name, monkeypatch):
    settings, arrays = more
    h = {**settings["hparams"], **{k: v["hparams"] for k, v in settings["variants"].items()}}[name]
    objective, model, memory = OBJECTIVES[name](h), Network().double(), Memory()
    if name.startswith("SelfReg"):
        monkeypatch.setattr(SelfReg, "draw", replay(arrays, name))
    sizes = (settings["batch"],) * settings["domains"]
    batches = [
        Batch(torch.from_numpy(x).flatten(0, 1), torch.from_numpy(y).flatten(), sizes)
        for x, y in zip(arrays["x"], arrays["y"], strict=True)
    ]
    network, modules = state(arrays, f"{name}/init")
    model.load_state_dict(network)
    prepare(memory, objective, model, batches[0].x, domains=3)
    memory.modules.load_state_dict({**memory.modules.state_dict(), **modules})
    optim = OptimSpec("adam", settings["lr"], settings["weight_decay"])
    history = fit(model, objective, batches, optim, memory)
    for entry, logged in zip(history, settings["logged"][name], strict=True):
        if name != "SD":  # whose loss is logged without the penalty
            assert entry["loss"] == pytest.approx(logged["loss"], abs=1e-10)
        for theirs, ours in RAW.items():
            if theirs in logged and f"raw {ours}" in entry:
                assert entry[f"raw {ours}"] == pytest.approx(logged[theirs], abs=1e-10)
    for module, expected in zip(
        (model, memory.modules), state(arrays, f"{name}/final"), strict=True
    ):
        for key, value in expected.items():
            torch.testing.assert_close(module.state_dict()[key], value, rtol=0, atol=1e-10)
    if name.startswith("MTL"):
        embeddings = memory.recall_domains("embedding", "012", torch.zeros(3, 16).double())
        expected = torch.from_numpy(arrays[f"{name}/final/embeddings"])
        torch.testing.assert_close(embeddings, expected, rtol=0, atol=1e-10)
        mean = memory.modules["marginal"].mean
        torch.testing.assert_close(mean, expected.mean(0), rtol=0, atol=1e-10)
