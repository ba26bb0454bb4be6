"""fit and train on what people have: loaders, plain networks, mappings, losses, optimisers."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny_runs import assert_same_run
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from riskmatch import train
from riskmatch.contract import Eval, Memory, OptimSpec
from riskmatch.data import load_data
from riskmatch.data.domain import Batch, NamedTensors
from riskmatch.engine import InstanceError, StepSettings, fit, load_run
from riskmatch.engine.instances import fingerprint
from riskmatch.models import MLP
from riskmatch.objectives import CORAL, ERM, IRM, MLDG, RDM, Fish, Fishr, GroupDRO, Mixup
from riskmatch.report import write_report
from riskmatch.selection import choose

SGD = OptimSpec("sgd", lr=0.1)
PLAIN = [ERM(), RDM(warmup=0, lr_after=0.05), IRM(warmup=0, weight=1.0), GroupDRO(), MLDG(), Fish()]
"""Methods that need no features."""


def data(n=24, seed=0):
    rng = torch.Generator().manual_seed(seed)
    x, y = torch.randn(n, 3, generator=rng), torch.randint(2, (n,), generator=rng)
    return x, y, torch.randint(3, (n,), generator=rng)


def linear(outputs=2):
    torch.manual_seed(1)
    return nn.Linear(3, outputs)


class Pair(nn.Module):
    """A network that returns features and logits, with the weights of ``linear``."""

    def __init__(self):
        super().__init__()
        self.head = linear()

    def forward(self, x):
        return x, self.head(x)


class Texts(nn.Module):
    """A network called as those of Hugging Face are, with an output like theirs."""

    def __init__(self, outputs=2):
        super().__init__()
        torch.manual_seed(2)
        self.embedding, self.head = nn.Embedding(10, 4), nn.Linear(4, outputs)

    def forward(self, input_ids, attention_mask=None):
        mask = attention_mask[:, :, None]
        mean = (self.embedding(input_ids) * mask).sum(1) / mask.sum(1)
        return SimpleNamespace(logits=self.head(mean))


def texts(n=20, seed=0):
    rng = torch.Generator().manual_seed(seed)
    ids = torch.randint(10, (n, 6), generator=rng)
    mask = (torch.arange(6) < torch.randint(1, 7, (n, 1), generator=rng)).float()
    return {"input_ids": ids, "attention_mask": mask}, ids[:, 0] % 2


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


# Loaders


@pytest.mark.parametrize(
    "form",
    [
        lambda d: d,
        lambda d: d.to(torch.int8),
        lambda d: d.tolist(),
        lambda d: tuple(d.tolist()),
        lambda d: d.numpy(),
        lambda d: ["abc"[k] for k in d],
        lambda d: np.array(["abc"[k] for k in d]),
    ],
    ids=["tensor", "int8", "list", "tuple", "array", "strings", "string array"],
)
def test_samples_in_any_order_are_grouped_by_domain(form):
    x, y, d = data()
    batch = Batch.of(x, y, form(d))
    assert batch.sizes == tuple((d == k).sum().item() for k in range(3))
    assert batch.names in (("0", "1", "2"), ("a", "b", "c"))
    for k, part in enumerate(batch.split()):
        assert torch.equal(part.x, x[d == k])
        assert torch.equal(part.y, y[d == k])


def test_fit_takes_a_data_loader_with_domains():
    x, y, d = data(60)
    loader = DataLoader(
        [(x[k], int(y[k]), "abc"[d[k]]) for k in range(60)], batch_size=20, shuffle=False
    )
    first, second = Pair(), Pair()
    history = fit(first, GroupDRO(eta=0.5), loader, SGD)
    batches = [Batch.of(x[k : k + 20], y[k : k + 20], d[k : k + 20]) for k in (0, 20, 40)]
    numbered = fit(second, GroupDRO(eta=0.5), batches, SGD)
    worst = [step.pop("worst domain") for step in history]
    assert [str("abc".index(name)) for name in worst] == [s.pop("worst domain") for s in numbered]
    assert history == numbered
    assert torch.equal(weights(first), weights(second))


def test_worst_domain_is_named_whichever_domains_a_batch_has():
    x, y = torch.tensor([[1.0, 0.0]] * 4), torch.tensor([0, 0, 1, 1])
    model = nn.Linear(2, 2)
    nn.init.eye_(model.weight)
    history = fit(model, ERM(), [(x, y, list(d)) for d in ("bbcc", "aabb")], OptimSpec("sgd", 0.0))
    assert [step["worst domain"] for step in history] == ["c", "b"]


@pytest.mark.parametrize("domains", ["a", 3, [0, 1], [0.5] * 24, [True] * 24, ["a", 1] * 12])
def test_wrong_domains_raise(domains):
    x, y, _ = data()
    with pytest.raises(ValueError, match="24 of one type"):
        fit(linear(), ERM(), [(x, y, domains)], SGD)


def test_batch_of_another_form_raises():
    x, y, _ = data()
    with pytest.raises(TypeError, match=r"\(x, y, domain\).*tuple of 2"):
        fit(linear(), ERM(), [(x, y)], SGD)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"batches": []}, ValueError, "batches is empty"),
        ({"objective": "rdm"}, TypeError, r"riskmatch.objectives.RDM\(\).*got 'rdm'"),
        ({"optim": "adam"}, TypeError, r"OptimSpec\('adam', lr=.*got 'adam'"),
        ({"y": lambda y: y[:5]}, ValueError, "24 samples x, but 5 labels y"),
        ({"y": lambda y: y.numpy()}, TypeError, r"y of a batch .*torch.as_tensor\(y\)"),
        ({"x": lambda x: x.numpy()}, TypeError, r"x of a batch .*torch.as_tensor\(x\)"),
    ],
    ids=["no batch", "method by name", "optimiser by name", "few labels", "y array", "x array"],
)
def test_argument_of_fit_that_cannot_be_used_names_the_cure(change, error, message):
    x, y, d = data()
    x, y = (change.pop(name, lambda part: part)(part) for name, part in (("x", x), ("y", y)))
    arguments = {"objective": ERM(), "batches": [(x, y, d)], "optim": SGD, **change}
    with pytest.raises(error, match=message):
        fit(linear(), **arguments)


# Networks that return logits alone


@pytest.mark.parametrize("objective", PLAIN, ids=lambda objective: type(objective).__name__)
def test_logits_alone_give_the_same_steps_as_with_features(objective):
    plain, pair = linear(), Pair()
    history = fit(plain, objective, [data(seed=k) for k in range(3)], SGD)
    assert history == fit(pair, objective, [data(seed=k) for k in range(3)], SGD)
    assert torch.equal(weights(plain), weights(pair))


@pytest.mark.parametrize("objective", [CORAL(), Fishr(warmup=0)])
def test_method_that_needs_features_says_how_to_return_them(objective):
    name = type(objective).__name__
    with pytest.raises(ValueError, match=rf"{name} needs features.*\(features, logits\)"):
        fit(linear(), objective, [data()], SGD)


def test_network_that_returns_something_else_raises():
    model = nn.LSTM(3, 2)
    with pytest.raises(ValueError, match=r"logits or a pair.*got tuple"):
        fit(model, ERM(), [data()], SGD)


# Mappings of tensors


@pytest.mark.parametrize("objective", PLAIN, ids=lambda objective: type(objective).__name__)
@pytest.mark.parametrize("micro_batch", [0, 3])
def test_mappings_are_passed_as_keywords_in_pieces_too(objective, micro_batch):
    x, y = texts()
    model = Texts()
    settings = StepSettings(micro_batch=micro_batch)
    history = fit(model, objective, [(x, y, y)] * 3, SGD, settings=settings)
    assert history[2]["loss"] < history[0]["loss"]
    both = torch.cat([x["input_ids"], x["attention_mask"].long()], 1)

    class Tensors(Texts):
        def forward(self, x):
            return super().forward(x[:, :6], x[:, 6:].float())

    as_tensors = Tensors()
    fit(as_tensors, objective, [(both, y, y)] * 3, SGD, settings=settings)
    torch.testing.assert_close(weights(model), weights(as_tensors))


def test_mixup_of_a_mapping_raises():
    x, y = texts()
    with pytest.raises(ValueError, match="Mixup"):
        fit(Texts(), Mixup(), [(x, y, y)], SGD)


def test_named_tensors_of_different_sizes_raise():
    with pytest.raises(ValueError, match=r"'a': 3, 'b': 4"):
        NamedTensors({"a": torch.zeros(3), "b": torch.zeros(4)})


class TextData(Dataset):
    def __init__(self, seed):
        self.x, self.y = texts(seed=seed)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, row):
        return {name: value[row] for name, value in self.x.items()}, self.y[row]


def test_train_on_mappings_equals_train_on_data_sets_of_mappings(tmp_path):
    options = {"steps": 6, "eval_every": 3, "batch_size": 8, "lr": 0.05, "micro_batch": 5}
    options["warmup"] = 2
    pairs = {name: texts(seed=k) for k, name in enumerate("ABC")}
    sets = {name: TextData(k) for k, name in enumerate("ABC")}
    runs = [
        train(source, "vrex", "C", model=Texts(), out=tmp_path / str(k), **options)
        for k, source in enumerate((pairs, sets))
    ]
    assert_same_run(runs[0].folder, runs[1].folder)
    assert runs[0].evaluations["accuracy"].between(0, 1).all()
    logits = runs[0].model()(**pairs["C"][0]).logits
    assert logits.shape == (20, 2)
    changed = {**pairs, "A": texts(seed=9)}
    assert fingerprint(load_data(pairs)) != fingerprint(load_data(changed))


def test_named_network_refuses_mappings(tmp_path):
    pairs = {name: texts(seed=k) for k, name in enumerate("ABC")}
    with pytest.raises(ValueError, match=r"mlp takes one tensor.*model"):
        train(pairs, "erm", "C", out=tmp_path)
    assert not list(tmp_path.iterdir())


# Risks


def focal(logits, y):
    risks = functional.cross_entropy(logits, y, reduction="none")
    return (1 - (-risks).exp()) ** 2 * risks


@pytest.mark.parametrize(
    ("risk", "cure"),
    [
        (functional.cross_entropy, 'reduction="none"'),
        (nn.CrossEntropyLoss(), 'reduction="none"'),
        (lambda logits, y: logits, "squeeze"),
        (lambda logits, y: 0.5, 'reduction="none"'),
    ],
)
def test_risk_of_another_shape_raises(risk, cure):
    with pytest.raises(ValueError, match=rf"shape \(24,\).*{cure}"):
        fit(linear(), ERM(), [data()], SGD, risk=risk)


def test_any_risk_is_minimised():
    x, y, d = data()
    model, plain = linear(), linear()
    fit(model, ERM(), [(x, y, d)], SGD, risk=focal)
    risks = focal(plain(x), y)
    torch.stack([risks[d == k].mean() for k in range(3)]).mean().backward()
    expected = [p.detach() - 0.1 * p.grad for p in plain.parameters()]
    torch.testing.assert_close([p.detach() for p in model.parameters()], expected)


@pytest.mark.parametrize("risk", ["squared", "huber"])
@pytest.mark.parametrize("columns", [0, 1, 2])
def test_regression_has_the_risks_of_torch(risk, columns):
    x, _, d = data()
    shape = (24, columns) if columns else (24,)
    y = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    model = linear(columns or 1)
    (numbers,) = fit(model, ERM(), [(x, y, d)], OptimSpec("sgd", 0.0), risk=risk)
    loss = {"squared": functional.mse_loss, "huber": functional.huber_loss}[risk]
    out = model(x).reshape(y.shape)
    means = [loss(out[d == k], y[d == k]) for k in range(3)]
    assert numbers["risk"] == pytest.approx(torch.stack(means).mean().item(), rel=1e-5)


def test_float_targets_without_a_risk_raise(tmp_path):
    x, _, d = data()
    with pytest.raises(ValueError, match="risk='squared'"):
        fit(linear(), ERM(), [(x, x[:, 0], d)], SGD)
    pairs = dict.fromkeys("ABC", (x, x[:, 0]))
    with pytest.raises(ValueError, match=r"classification needs classes.*float32 of shape \(n\)"):
        train(pairs, "erm", "C", task="classification", out=tmp_path)
    assert not list(tmp_path.iterdir())
    history = fit(linear(1), ERM(), [(x, x[:, 0], d)], SGD, task="regression")
    assert history == fit(linear(1), ERM(), [(x, x[:, 0], d)], SGD, risk="squared")


def test_outputs_that_do_not_match_targets_raise():
    x, _, d = data()
    with pytest.raises(ValueError, match=r"\(24, 2\), targets \(24,\)"):
        fit(linear(), ERM(), [(x, x[:, 0], d)], SGD, risk="squared")


def regression():
    x, _, _ = data(60)
    return {name: (x + k, (x + k) @ torch.tensor([1.0, -2.0, 0.5])) for k, name in enumerate("ABC")}


@pytest.mark.parametrize("model", [None, linear(1)], ids=["named", "own"])
def test_train_on_a_regression(tmp_path, model):
    options = {"steps": 40, "eval_every": 20, "batch_size": 16, "lr": 0.05, "lr_after": 0.05}
    options["warmup"] = 10
    run = train(regression(), "rdm", "C", risk="squared", model=model, out=tmp_path, **options)
    last = run.evaluations[run.evaluations["step"] == 40]
    first = run.evaluations[run.evaluations["step"] == 20]
    assert "accuracy" not in last
    assert last["risk"].mean() < first["risk"].mean()
    rows = run.predictions[run.predictions["step"] == 40]
    np.testing.assert_allclose(rows["risk"], (rows["predicted"] - rows["label"]) ** 2, rtol=1e-3)
    assert rows["confidence"].isna().all()
    loaded = load_run(run.folder, model=model)
    out = loaded.model()(regression()["C"][0])
    assert (out if isinstance(out, torch.Tensor) else out[1]).shape == (60, 1)
    train_val = last[(last["split"] == "val") & ~last["test"]]
    (choice,) = choose(tmp_path).itertuples()
    assert choice.step == 40
    assert (choice.metric, choice.score) == ("rmse", pytest.approx(train_val["rmse"].mean()))
    with pytest.raises(ValueError, match=r"metric 'accuracy'. They have 'mae', 'r2', 'rmse'"):
        choose(tmp_path, metric="accuracy")
    assert write_report([tmp_path], tmp_path / "report.html").exists()


def test_mixed_labels_and_targets_raise():
    x, y, _ = data()
    with pytest.raises(ValueError, match=r"y.float\(\)"):
        load_data({"A": (x, y), "B": (x, x[:, 0])})
    with pytest.raises(ValueError, match=r"'A'.*not a number"):
        load_data({"A": (x, x[:, 0] * torch.nan)})


# Optimisers


def test_optimiser_of_a_factory_takes_the_same_steps_as_torch():
    batches = [data(seed=k) for k in range(4)]
    model, plain = linear(), linear()
    fit(model, ERM(), batches, lambda params: torch.optim.RAdam(params, lr=0.05))
    optimizer = torch.optim.RAdam(plain.parameters(), lr=0.05)
    for batch in batches:
        optimizer.zero_grad()
        Eval(plain, Batch.of(*batch)).risk.backward()
        optimizer.step()
    assert torch.equal(weights(model), weights(plain))


def test_new_phase_calls_the_factory_again_and_scales_every_group():
    model, made = linear(), []

    def factory(params):
        groups = [{"params": params[:1]}, {"params": params[1:], "lr": 0.3}]
        made.append(torch.optim.SGD(groups, lr=0.1))
        return made[-1]

    objective = RDM(warmup=2, lr_after=0.05)
    fit(model, objective, [data(seed=k) for k in range(4)], factory)
    assert len(made) == 3  # one to read the learning rate, one per phase
    rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in made]
    assert rates == [[0.1, 0.3], pytest.approx([0.1, 0.3]), pytest.approx([0.05, 0.15])]


def test_an_optimiser_that_is_made_already_takes_the_same_steps():
    batches = [data(seed=k) for k in range(4)]
    model, plain = linear(), linear()
    mine = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    objective = RDM(warmup=2, lr_after=0.05)
    fit(model, objective, batches, mine)
    fit(plain, objective, batches, lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9))
    assert torch.equal(weights(model), weights(plain))
    assert mine.state  # it took the steps of the first phase
    assert mine.param_groups[0]["lr"] == 0.1


def test_an_optimiser_of_other_weights_is_refused():
    with pytest.raises(ValueError, match="holds other weights"):
        fit(linear(), ERM(), [data()], torch.optim.SGD(linear().parameters(), lr=0.1))


class Named(torch.nn.Module):
    """Returns a mapping."""

    def __init__(self, *names):
        super().__init__()
        self.classifier, self.names = linear(), names

    def forward(self, x):
        out = {"features": x, "logits": self.classifier(x)}
        return {name: out[name] for name in self.names}


@pytest.mark.parametrize("names", [("logits",), ("logits", "features")])
def test_outputs_by_name_give_the_same_steps(names):
    batches, model, plain = [data(seed=k) for k in range(3)], Named(*names), linear()
    optim = OptimSpec("sgd", lr=0.1)
    assert fit(model, RDM(warmup=1), batches, optim) == fit(plain, RDM(warmup=1), batches, optim)
    if "features" in names:
        fit(model, CORAL(), batches, optim)
    else:
        with pytest.raises(ValueError, match="needs features"):
            fit(model, CORAL(), batches, optim)


def test_factory_that_makes_no_optimiser_raises():
    with pytest.raises(TypeError, match=r"torch.optim.Optimizer, got 3"):
        fit(linear(), ERM(), [data()], lambda params: 3)


def radam(params):
    return torch.optim.RAdam(params, lr=0.02, weight_decay=0.01)


def pairs():
    return {name: data(40, seed=k)[:2] for k, name in enumerate("ABC")}


OPTIONS = {"steps": 12, "eval_every": 4, "batch_size": 8, "warmup": 5, "lr_after": 0.01}


def stop(progress):
    if progress.step == 7:
        raise KeyboardInterrupt


def test_run_with_own_risk_and_optimiser_resumes_to_the_same_bits(tmp_path):
    objects = {"risk": focal, "optim": radam}
    whole = train(pairs(), "rdm", "C", out=tmp_path / "a", **objects, **OPTIONS)
    assert (whole.config.lr, whole.config.weight_decay) == (0.02, 0.01)
    assert whole.config.risk.startswith("instance:test_own_loops.focal#")
    assert whole.record.parts["optim"]["source"]
    with pytest.raises(KeyboardInterrupt):
        train(pairs(), "rdm", "C", out=tmp_path / "b", on_step=stop, **objects, **OPTIONS)
    resumed = train(pairs(), "rdm", "C", out=tmp_path / "b", resume=True, **objects, **OPTIONS)
    assert_same_run(whole.folder, resumed.folder)
    assert load_run(whole.folder).model()(torch.zeros(1, 3))[1].shape == (1, 2)
    plain = train(pairs(), "rdm", "C", out=tmp_path / "a", lr=0.02, **OPTIONS)
    assert plain.config.id != whole.config.id


def focal_with(gamma):
    return lambda logits, y: (focal(logits, y) + 1e-6) ** (gamma / 2)


def radam_with(exponent):
    return lambda params: torch.optim.RAdam(params, eps=0.1**exponent)


@pytest.mark.parametrize(("part", "make"), [("risk", focal_with), ("optim", radam_with)])
def test_resuming_with_another_risk_or_optimiser_raises(tmp_path, part, make):
    objects = {"risk": focal, "optim": radam, part: make(2)}
    with pytest.raises(KeyboardInterrupt):
        train(pairs(), "rdm", "C", out=tmp_path, on_step=stop, **objects, **OPTIONS)
    changed = {**objects, part: make(3)}  # of the same name
    with pytest.raises(InstanceError, match=f"another {part}"):
        train(pairs(), "rdm", "C", out=tmp_path, resume=True, **changed, **OPTIONS)


def test_fingerprints_tell_functions_and_losses_apart():
    first, second = (lambda p: torch.optim.RAdam(p)), (lambda p: torch.optim.NAdam(p))
    second.__qualname__ = first.__qualname__
    assert fingerprint(first) != fingerprint(second)
    plain = nn.CrossEntropyLoss(reduction="none")
    smoothed = nn.CrossEntropyLoss(reduction="none", label_smoothing=0.1)
    assert fingerprint(plain) != fingerprint(smoothed)
    assert fingerprint(plain) == fingerprint(nn.CrossEntropyLoss(reduction="none").eval())


def test_optimiser_by_name_is_part_of_the_id(tmp_path):
    runs = [train(pairs(), "erm", "C", out=tmp_path, steps=4, optim=k) for k in ("adam", "sgd")]
    assert runs[0].config.id != runs[1].config.id
    default = train(pairs(), "erm", "C", out=tmp_path, steps=4)
    assert default.config.id == runs[0].config.id


def test_model_in_float64_and_memory_continue():
    memory = Memory()
    model = MLP((3,), 2, widths=(4,)).double()
    x, y, d = data()
    for _ in range(2):
        fit(model, GroupDRO(), [(x.double(), y, d)], SGD, memory)
    assert memory.step == 2
