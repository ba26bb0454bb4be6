"""riskmatch.train and riskmatch.load_run, with names and with objects."""

import copy
import os
import signal
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from tiny_runs import assert_same_run
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import riskmatch
from riskmatch import load_model, train
from riskmatch.advice.advice import Advice, write_advice
from riskmatch.contract import Objective, Terms
from riskmatch.data import load_data
from riskmatch.deployment.folder import Expected
from riskmatch.engine import InstanceError, UnfinishedError, load_run
from riskmatch.engine import run as runs
from riskmatch.engine.instances import Instances, fingerprint, named_objective
from riskmatch.objectives import IRM, RDM, VREx
from riskmatch.runs import records
from riskmatch.runs.findings import RunWarning


@dataclass(frozen=True, eq=False)
class Weighted(Objective):
    """Mean risk with a weight per class: a field that is no JSON value."""

    weights: Tensor

    def __call__(self, ev, memory):
        return Terms({"risk": (self.weights[ev.batch.y] * ev.risks).mean()})


class Net(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width), nn.ReLU())
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        features = self.drop(self.body(x))
        return features, self.head(features)


def tensors(seed=0, n=40):
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % 2
    shift = 2.0 * y[:, None]
    names = {"A": 0.0, "B": 0.5, "C": -0.5}
    return {k: (torch.randn(n, 3, generator=generator) + shift + v, y) for k, v in names.items()}


def byte_images():
    x = torch.zeros(40, 3, 8, 8, dtype=torch.uint8)
    return dict.fromkeys("ABC", (x, torch.arange(40) % 2))


class Bags(nn.Module):
    """Embeddings of ten tokens."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(10, 4), nn.Linear(4, 2)

    def forward(self, ids):
        return self.head(self.embedding(ids).mean(1))


def tokens(highest):
    ids = torch.full((40, 6), highest)
    return dict.fromkeys("ABC", ({"ids": ids}, torch.arange(40) % 2))


def objects(seed=0):
    torch.manual_seed(seed)
    return {
        "data": tensors(),
        "method": Weighted(torch.tensor([1.0, 2.0])),
        "test_domains": "C",
        "model": Net(),
    }


FAST = {"steps": 12, "eval_every": 4, "batch_size": 8, "lr": 0.01}


def stop_at(step):
    def on_step(progress):
        if progress.step == step:
            raise KeyboardInterrupt

    return on_step


def test_run_by_names_has_frames_and_a_model(tmp_path):
    calls = []
    run = train(
        "colored-digits",
        "rdm",
        ["0.1"],
        out=tmp_path,
        data_options={"samples": 60},
        model_options={"widths": [8]},
        warmup=4,
        lr_after=1e-3,
        on_evaluation=lambda config, evaluation: calls.append(evaluation.step),
        **{**FAST, "batch_size": 0},
    )
    assert run.config.hparams["warmup"] == 4
    assert calls == [4, 8, 12]
    again = load_run(tmp_path / run.config.id / records.FILE)
    assert (again.config, again.record) == (run.config, run.record)
    last = run.evaluations[lambda frame: frame["step"] == 12].set_index(["domain", "split"])
    assert last.loc[("0.1", "val"), "test"]
    score = run.record.evaluations[-1].scores["0.1"]["val"]
    assert last.loc[("0.1", "val"), "accuracy"] == score.metrics["accuracy"]
    assert last.loc[("0.1", "val"), "risk_q0.5"] == score.quantiles[3]
    rows = again.predictions[lambda frame: frame["step"] == 12]
    assert list(rows) == [
        *("step", "domain", "split", "index", "label", "predicted", "confidence", "risk")
    ]
    right = (rows["label"] == rows["predicted"]).groupby([rows["domain"], rows["split"]]).mean()
    assert right["0.1", "val"] == score.metrics["accuracy"]
    model = again.model()
    assert not model.training
    assert model(torch.zeros(5, 2, 8, 8))[1].shape == (5, 2)
    with pytest.raises(InstanceError, match=r"mlp, .*leave out network"):
        again.model(Net())


def test_run_with_objects_trains_and_leaves_them_unchanged(tmp_path):
    parts = objects()
    before = copy.deepcopy(parts["model"].state_dict())
    run = train(**parts, **FAST, out=tmp_path)
    assert run.record.status == "done"
    assert run.config.data == "instance:riskmatch.data.domain.DomainSet"
    assert run.config.model.startswith("instance:")
    assert run.config.model.endswith("test_train_call.Net")
    assert run.config.method.endswith("test_train_call.Weighted")
    assert run.config.hparams == {"fingerprint": fingerprint(parts["method"])}
    assert set(run.record.parts) == {"data", "method", "model"}
    state = parts["model"].state_dict()
    assert all(torch.equal(state[name], value) for name, value in before.items())
    assert parts["model"].training
    model = run.model()
    assert not torch.equal(model.head.weight, state["head.weight"])
    assert load_run(run.folder).config == run.config
    for other in (
        load_run(run.folder, model=parts["model"]).model(),
        load_run(run.folder).model(parts["model"]),
    ):
        assert torch.equal(other.head.weight, model.head.weight)


def test_interrupted_run_with_objects_resumes_to_the_same_bits(tmp_path):
    whole = train(**objects(), **FAST, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(**objects(), **FAST, out=tmp_path / "parts", on_step=stop_at(6))
    with pytest.raises(UnfinishedError):
        train(**objects(), **FAST, out=tmp_path / "parts")
    resumed = train(**objects(), **FAST, out=tmp_path / "parts", resume=True)
    assert_same_run(whole.folder, resumed.folder)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_run_with_objects_resumes_to_the_same_bits(tmp_path):
    def die(progress):
        if progress.step == 7:
            os.kill(os.getpid(), signal.SIGKILL)

    settings = {**FAST, "checkpoint_every": 3}
    pid = os.fork()
    if not pid:
        train(**objects(), **settings, out=tmp_path / "parts", on_step=die)
        os._exit(1)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    resumed = train(**objects(), **settings, out=tmp_path / "parts", resume=True)
    whole = train(**objects(), **settings, out=tmp_path / "whole")
    assert_same_run(whole.folder, resumed.folder)


def test_missing_object_raises_and_names_it(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(**objects(), **FAST, out=tmp_path, on_step=stop_at(6))
    (record,) = records.read_all(tmp_path)
    parts = objects()
    passed = {name: parts[name] for name in ("method", "model")}
    passed["data"] = load_data(parts["data"])
    for missing in passed:
        others = Instances(**{k: v for k, v in passed.items() if k != missing})
        with pytest.raises(InstanceError, match=f"The {missing} of run .*pass the same object"):
            runs.train(record.config, tmp_path, resume=True, instances=others)
    record = runs.train(record.config, tmp_path, resume=True, instances=Instances(**passed))
    assert record.status == "done"


def test_model_of_a_run_with_a_network_object_asks_for_it(tmp_path):
    run = train(**objects(), **FAST, out=tmp_path)
    with pytest.raises(InstanceError, match=r"is an instance of .*Net.*load_run\(…, model=…\)"):
        load_run(run.folder).model()
    with pytest.raises(InstanceError, match=r"fingerprint .* pass the object that the run"):
        load_run(run.folder).model(objects(seed=1)["model"])


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("model", Net()),
        ("method", Weighted(torch.tensor([3.0, 2.0]))),
        ("data", tensors(seed=1)),
    ],
)
def test_resuming_with_another_object_raises(tmp_path, part, other):
    with pytest.raises(KeyboardInterrupt):
        train(**objects(), **FAST, out=tmp_path, on_step=stop_at(6))
    with pytest.raises(InstanceError, match=f"was trained with another {part}: pass the same"):
        train(**{**objects(), part: other}, **FAST, out=tmp_path, resume=True)


def test_pretraining_shares_the_erm_phase_with_objects(tmp_path):
    run = train(**objects(), **FAST, out=tmp_path, pretrain=6)
    assert run.evaluations["step"].unique().tolist() == [8, 12]
    phase = load_run(tmp_path / run.config.erm_phase().id)
    assert (phase.config.method, phase.config.model) == ("erm", run.config.model)


def test_objective_with_plain_fields_is_named(tmp_path):
    by_object = train(tensors(), VREx(weight=3.0, warmup=2), "C", out=tmp_path / "a", **FAST)
    by_name = train(tensors(), "vrex", "C", out=tmp_path / "b", weight=3.0, warmup=2, **FAST)
    assert by_object.config == by_name.config
    assert named_objective(RDM())[0] == "rdm"
    assert named_objective(Weighted(torch.zeros(2))) is None


def test_objective_of_numpy_numbers_is_that_of_python_numbers():
    arrays = RDM(weight=np.float32(0.1), warmup=np.int64(2))
    assert named_objective(arrays) == named_objective(RDM(weight=0.1, warmup=2))
    assert type(arrays.warmup) is int


def test_data_are_accepted_in_every_form(tmp_path):
    pairs = tensors()
    sets = {name: TensorDataset(x, y) for name, (x, y) in pairs.items()}
    first = train(pairs, "erm", "C", out=tmp_path / "a", **FAST)
    assert train(sets, "erm", "C", out=tmp_path / "b", **FAST).config == first.config


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"stesp": 3}, ValueError, "'stesp'. Did you mean 'steps'"),
        ({"method": "rdm", "wieght": 3}, ValueError, "'wieght'. Did you mean 'weight'"),
        ({"method": "rmd"}, ValueError, "Unknown method 'rmd'. Did you mean 'rdm'"),
        ({"method": VREx}, TypeError, "method must be a name or an Objective"),
        ({"method": VREx(), "weight": 1.0}, ValueError, "Set weight on the objective"),
        ({"model": Net}, TypeError, "model must be a name or a torch.nn.Module"),
        ({"model": "mlpp"}, ValueError, "Unknown network 'mlpp'. Did you mean 'mlp'"),
        ({"model": Net(), "dropout": 0.1}, ValueError, "Set dropout in the network"),
        ({"model": Net(), "frozen": True}, ValueError, "frozen needs a backbone by name"),
        ({"model": nn.Linear(3, 2), "method": "coral"}, ValueError, "CORAL needs features"),
        ({"model": nn.Linear(3, 5)}, ValueError, r"logits \(n, 2\).*got logits \(2, 5\)"),
        (
            {"model": nn.Linear(5, 2)},
            ValueError,
            r"Linear.*inputs \(2, 3\) of float32.*2x3 and 5x2",
        ),
        (
            {"model": Bags(), "data": tokens(50)},
            ValueError,
            r"inputs ids \(2, 6\) of int64.*layers",
        ),
        ({"model_options": 5}, ValueError, "model_options must map names to values.*got 5"),
        ({"data": "colored-digits", "data_options": "x"}, ValueError, "data_options must map"),
        ({"resume": True, "restart": True}, ValueError, "resume.*restart.*give one"),
        ({"risk": "square"}, ValueError, "Unknown risk .square.. Did you mean .squared."),
        ({"risk": 3}, TypeError, "risk must be a name or a function, got 3"),
        ({"optim": lambda weights: 3}, TypeError, "torch.optim.Optimizer, got 3"),
        ({"optim": torch.optim.RAdam, "lr": 0.1}, ValueError, "Set lr in the optimiser"),
        ({"data": [1, 2]}, TypeError, "riskmatch.fit"),
        ({"data_options": {"samples": 3}}, ValueError, "data_options are for data sets by name"),
        ({"test_domains": "D"}, ValueError, "'D'"),
        ({"data": byte_images()}, ValueError, r"mlp does not resize.*or pass floats: x.float"),
        ({"test_domains": 0.5}, ValueError, "'0.5'"),
        ({"test_domains": None}, TypeError, "test_domains must be a name .* got None"),
        ({"test_domains": [None]}, TypeError, "test_domains must be a name .* got None"),
        ({"checkpoint_every": 0}, ValueError, "checkpoint_every must be at least 1 .*got 0"),
        ({"checkpoint_every": -1}, ValueError, "checkpoint_every must be at least 1 .*got -1"),
        ({"lr": -1.0}, ValueError, "lr must be positive, got -1"),
        *(
            ({"method": method, "batch_size": 1}, ValueError, "needs 2 samples .*1 of 'A'.*Raise")
            for method in ("rdm", "irm", "fishr", "coral")
        ),
        ({"preset": "papre", "method": "rdm"}, ValueError, "Did you mean 'paper'"),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, dict) else None,
)
def test_invalid_arguments_raise_before_anything_is_written(tmp_path, changes, error, message):
    arguments = {"data": tensors(), "method": "erm", "test_domains": "C", **changes}
    with pytest.raises(error, match=message) as caught:
        train(**arguments, out=tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("test", [2, [2], (2,), np.int64(2), np.array([2]), "2"])
def test_number_names_the_domain_of_its_text(tmp_path, test):
    by_number = dict(enumerate(tensors().values()))
    run = train(by_number, "erm", test, **{**FAST, "steps": 1}, out=tmp_path)
    assert run.config.test_domains == ("2",)


@pytest.mark.parametrize(
    "method", [RDM(variance_weight=0.0, warmup=0), IRM(estimate="whole", warmup=0)]
)
def test_method_that_acts_on_single_samples_is_trained_on_them(tmp_path, method):
    run = train(tensors(), method, "C", out=tmp_path, batch_size=1, steps=2)
    assert set(run.record.evaluations[-1].terms) >= {"risk"}
    assert len(run.record.evaluations[-1].terms) == 2


def test_fingerprint_depends_on_the_state():
    net = Net()
    assert fingerprint(net) == fingerprint(copy.deepcopy(net))
    frozen = copy.deepcopy(net)
    frozen.head.weight.requires_grad_(False)
    other = copy.deepcopy(net)
    other.drop.p = 0.5
    assert len({fingerprint(value) for value in (net, frozen, other, Net())}) == 4
    attribute = copy.deepcopy(net)
    attribute.temperature = 7
    assert fingerprint(attribute) != fingerprint(net)
    scale = 2.0
    functions = [lambda x: x + 1, lambda x: x + 2, lambda x: x * scale]
    assert len({fingerprint({"f": function}) for function in functions}) == 3


def test_a_trained_run_tells_where_its_settings_come_from(tmp_path):
    options = {"steps": 2, "data_options": {"samples": 40}, "out": tmp_path}
    run = train("colored-digits", "vrex", "0.1", warmup=1, **options)
    assert run.settings["steps"] == (2, "given")
    assert run.settings["lr"] == (1e-3, "default on colored-digits")
    assert run.settings["weight"] == (1e4, "vrex's default on colored-digits")
    values = {name: run.settings[name].value for name in ("lr", "batch_size", "dropout", "seed")}
    assert values == {name: getattr(run.config, name) for name in values}


def test_one_call_follows_an_advice_logs_and_saves_the_model(tmp_path):
    small = {"steps": 4, "warmup": 1, "eval_every": 2, "data_options": {"samples": 40}}
    advice = Advice(
        "colored-digits", "vrex", {"weight": 2.0}, {"lr": 0.01}, Expected(0.7, 0.5, 0.9)
    )
    write_advice(advice, tmp_path / "advice.json")
    options = {"advice": tmp_path / "advice.json", "out": tmp_path / "runs", **small}
    run = train("colored-digits", log=["csv"], save=True, licence="MIT", **options)
    assert (run.config.method, run.config.hparams["weight"], run.config.lr) == ("vrex", 2.0, 0.01)
    assert run.settings["weight"] == (2.0, "the advice")
    assert run.settings["steps"] == (4, "given")
    assert (run.folder / "evaluations.csv").read_text().count("\n") > 2
    assert load_model(run.folder / "model").expected == advice.expected
    with pytest.warns(RunWarning, match="lr is given"):
        train("colored-digits", lr=0.02, save=tmp_path / "model", **options)
    assert load_model(tmp_path / "model").expected is None


def test_cost_takes_the_arguments_of_train(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, y = torch.randn(40, 3), torch.arange(40) % 2
    cost = riskmatch.cost({"A": (x, y), "B": (x + 1, y)}, VREx(warmup=3), "B", steps=10)
    assert (cost.steps_after_warmup, cost.seconds > 0) == (7, True)
    assert list(tmp_path.iterdir()) == []
