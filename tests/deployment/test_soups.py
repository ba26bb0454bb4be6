"""Soups: weights are means, members are chosen on training domains, others are refused."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import riskmatch
from riskmatch.deployment.souping import BARRIER, BEST, BETWEEN, ENSEMBLE, SOUP, VALIDATION
from riskmatch.engine.assemble import split_all

sys.path.append(str(Path(__file__).parents[1] / "engine"))

RATES = (1e-2, 3e-2, 0.1, 0.5)


def toy(shift=1.0):
    """Three domains of 90 samples, which a linear network separates in part."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(90) % 3
    return {
        name: (torch.randn(90, 4, generator=generator) + torch.eye(4)[y] + shift * place, y)
        for place, name in enumerate("abc")
    }


def train(out, lr, method="erm", tests=("c",), data=None, **options):
    small = {"steps": 30, "eval_every": 10, "model": "mlp", "model_options": {"widths": [8]}}
    given = {**small, **options}
    if given["model"] == "linear":
        given.pop("model_options")
    return riskmatch.train(data or toy(), method, tests, lr=lr, out=out, **given)


def networks(runs):
    return [run.model(step="train-val") for run in runs]


def accuracy(network, x, y):
    with torch.no_grad():
        return float((network(x)[1].argmax(1) == y).double().mean())


def parts(run, split, *names):
    """Inputs and labels of a split of domains."""
    splits = split_all(riskmatch.load_data(toy()), run.config)
    return [(splits[name][split].x, splits[name][split].y) for name in names]


def validation(network, run):
    return np.mean([accuracy(network, x, y) for x, y in parts(run, "val", "a", "b")])


def mixed(nets, shares):
    mean = {k: sum(s * n.state_dict()[k] for s, n in zip(shares, nets, strict=True))
            for k in nets[0].state_dict()}  # fmt: skip
    network = riskmatch.models.MLP((4,), 3, widths=[8])
    network.load_state_dict(mean)
    return network.eval()


def mixed_evenly(nets):
    return mixed(nets, [1 / len(nets)] * len(nets))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("sweep") / "runs"
    return [train(out, lr) for lr in RATES]


def test_a_soup_of_one_run_is_that_run(tmp_path):
    run = train(tmp_path / "runs", 0.01)
    made = riskmatch.soup(run, "greedy")
    assert made.folders == (tmp_path / "soups" / run.config.id,)
    model, expected = riskmatch.load_model(made.folders[0]), run.model(step="train-val")
    for name, value in expected.state_dict().items():
        assert torch.equal(model.network.state_dict()[name], value)
    (one,) = made.soups
    assert one.rows[BEST] == one.rows[SOUP] == one.rows[ENSEMBLE]
    assert BARRIER not in one.rows
    assert one.config == run.config


def test_a_soup_of_linear_heads_is_their_mean(tmp_path):
    heads = [train(tmp_path / "runs", lr, model="linear") for lr in RATES]
    made = riskmatch.soup(heads, "uniform", out=tmp_path / "models")
    network = riskmatch.load_model(made.folders[0]).network
    for name, value in network.state_dict().items():
        mean = torch.stack([head.state_dict()[name] for head in networks(heads)]).mean(0)
        torch.testing.assert_close(value, mean)
    x = toy()["c"][0]
    logits = torch.stack([head(x)[1] for head in networks(heads)]).mean(0)
    torch.testing.assert_close(network(x)[1], logits)
    (one,) = made.soups
    assert one.rows[SOUP] == one.rows[ENSEMBLE]  # outputs are linear in the weights


@pytest.mark.parametrize("how", ["uniform", "greedy"])
def test_members_metrics_and_barrier_follow_a_plain_loop(runs, how, tmp_path):
    made = riskmatch.soup(runs, how, out=tmp_path)
    nets = networks(runs)
    order = sorted(range(len(runs)), key=lambda k: -validation(nets[k], runs[k]))
    by_score = sorted(runs, key=lambda run: run.config.id)  # ties: by id
    order.sort(key=lambda k: (-validation(nets[k], runs[k]), by_score.index(runs[k])))
    members = order if how == "uniform" else order[:1]
    for k in order[1:] if how == "greedy" else ():
        before, after = (mixed_evenly([nets[m] for m in them]) for them in (members, [*members, k]))
        if validation(after, runs[0]) >= validation(before, runs[0]):
            members = [*members, k]
    (one,) = made.soups
    assert list(one.members) == [runs[k].config.id for k in members]
    ((x, y),) = parts(runs[0], "train", "c")
    soup = mixed_evenly([nets[k] for k in members])
    assert one.rows[SOUP]["c"] == pytest.approx(accuracy(soup, x, y))
    assert one.rows[SOUP][VALIDATION] == pytest.approx(validation(soup, runs[0]))
    assert one.rows[BEST]["c"] == pytest.approx(accuracy(nets[order[0]], x, y))
    outputs = sum(nets[k](x)[1] for k in members)
    assert one.rows[ENSEMBLE]["c"] == pytest.approx(float((outputs.argmax(1) == y).double().mean()))
    first, second = nets[order[0]], nets[order[1]]
    below = [
        (1 - t) * accuracy(first, x, y) + t * accuracy(second, x, y)
        - accuracy(mixed([first, second], [1 - t, t]), x, y)
        for t in BETWEEN
    ]  # fmt: skip
    assert one.rows[BARRIER]["c"] == pytest.approx(max(0, *below), abs=1e-9)
    saved = riskmatch.load_model(made.folders[0])
    torch.testing.assert_close(saved.network(x)[1], soup(x)[1])
    assert saved.values["run"]["members"] == dict(one.members)
    assert f"mean of those of {len(members)} runs" in (made.folders[0] / "README.md").read_text()


def test_labels_of_the_test_domain_choose_no_member(runs, tmp_path):
    chosen = riskmatch.soup(runs, out=tmp_path / "a").soups[0].members
    broken = toy()
    broken["c"] = (broken["c"][0], (broken["c"][1] + 1) % 3)
    swapped = [train(tmp_path / "runs", lr, data=broken) for lr in RATES]
    other = riskmatch.soup(swapped, out=tmp_path / "b").soups[0]
    rates = {run.config.id: run.config.lr for run in (*runs, *swapped)}
    assert [rates[id] for id in other.members] == [rates[id] for id in chosen]


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"seed": 1}, ("started from different weights", "seed 0, 1")),
        ({"model_options": {"widths": [9]}}, ("different architectures", "[9]")),
        ({"data": toy(2.0)}, ("different data", "data_options")),
        ({"metric": "macro-f1"}, ("different tasks", "macro-f1")),
    ],
)
def test_runs_that_do_not_share_their_start_are_refused(runs, tmp_path, changes, facts):
    other = train(tmp_path, 0.01, **changes)
    with pytest.raises(ValueError, match="cannot be averaged") as error:
        riskmatch.soup([runs[0], other], out=tmp_path / "models")
    assert all(fact in str(error.value) for fact in (*facts, other.config.id))
    assert not (tmp_path / "models").exists()


def test_each_set_of_test_domains_and_trial_is_a_soup(tmp_path):
    runs = [
        train(tmp_path / "runs", lr, tests=test, trial=trial, seed=trial)
        for test in "bc"
        for trial in (0, 1)
        for lr in (0.01, 0.5)
    ]
    made = riskmatch.soup(runs, "uniform")
    cases = [(*one.config.test_domains, one.config.trial) for one in made.soups]
    assert sorted(cases) == [("b", 0), ("b", 1), ("c", 0), ("c", 1)]
    means = [
        np.mean([one.rows[SOUP][test] - one.rows[BEST][test] for one in of_test])
        for test in "bc"
        for of_test in [[one for one in made.soups if one.config.test_domains == (test,)]]
    ]
    cells = dict(zip(made.table.columns, made.table.rows[1], strict=True))
    mean, half = cells["gain over the best member"].replace("−", "-").split(" ± ")
    assert float(mean) == pytest.approx(100 * np.mean(means), abs=0.06)
    assert float(half) > 0
    assert "these domains" in made.table.caption
    chosen = riskmatch.soup(runs, "uniform", test_domains="b", trial=1, out=tmp_path / "m")
    assert [one.config.id for one in chosen.soups] == [made.soups[cases.index(("b", 1))].config.id]
    with pytest.raises(ValueError, match="No finished run"):
        riskmatch.soup(runs, methods=["rdm"])


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6))
        self.classifier = nn.Linear(6, 3)

    def forward(self, x):
        features = self.body(x)
        return features, self.classifier(features)


def test_statistics_of_batch_norm_are_those_of_the_soup(tmp_path):
    torch.manual_seed(0)
    network, pair = Normalised(), []
    options = {"steps": 20, "eval_every": 10, "batch_size": 0, "out": tmp_path}
    for lr in RATES[:2]:
        pair.append(riskmatch.train(toy(), "erm", "c", model=network, lr=lr, **options))
    (one,) = riskmatch.soup(pair, "uniform", out=tmp_path / "m").soups
    x = torch.cat([x for x, _ in parts(pair[0], "train", "a", "b")])
    hidden = one.model(network).body[0](x)
    torch.testing.assert_close(one.weights["body.1.running_mean"], hidden.mean(0))
    torch.testing.assert_close(one.weights["body.1.running_var"], hidden.var(0))


def test_a_method_with_a_prediction_of_its_own(tmp_path):
    pair = [train(tmp_path, lr, "corrected:Corrected") for lr in (0.01, 0.03)]
    (one,) = riskmatch.soup(pair, "uniform", out=tmp_path / "m").soups
    first, second = (run.model(step="train-val").state_dict() for run in pair)
    assert any(name.startswith("brought.") for name in first)
    for name, value in one.model().state_dict().items():
        torch.testing.assert_close(value, (first[name] + second[name]) / 2)
    with pytest.raises(ValueError, match="different architectures"):
        riskmatch.soup([pair[0], train(tmp_path, 0.01)], out=tmp_path / "m")


def test_a_model_for_all_domains_is_judged_on_validation_samples(tmp_path):
    runs = [train(tmp_path, lr, tests=()) for lr in (0.01, 0.03)]
    made = riskmatch.soup(runs, out=tmp_path / "m")
    assert made.table.columns[1:4] == ("a", "b", "c")
    assert "validation samples" in made.table.caption
    assert riskmatch.load_model(made.folders[0]).domains == ("a", "b", "c")
