"""Runs with parts of the user's own, by name."""

import json
import sys
import textwrap
from dataclasses import replace

import pytest
from tiny_runs import assert_same_run, tiny

from riskmatch.defaults import SourceChangedError, with_source
from riskmatch.engine.assemble import objective
from riskmatch.engine.run import train
from riskmatch.models import build
from riskmatch.registry import PartError
from riskmatch.runs import records

MODULE = """
    from dataclasses import dataclass

    import torch
    from torch import nn

    from riskmatch.contract import Objective, Terms
    from riskmatch.data import Domain, DomainSet

    @dataclass(frozen=True)
    class Largest(Objective):
        share: float = 0.5

        def __call__(self, ev, memory):
            return Terms({"risk": self.share * ev.risk, "top": ev.domain_risks.max()})

    class Net(nn.Module):
        def __init__(self, input_shape, classes, dropout, *, width: int = 4):
            super().__init__()
            self.body = nn.Sequential(nn.Flatten(), nn.LazyLinear(width), nn.ReLU())
            self.body(torch.zeros(1, *input_shape))
            self.head = nn.Linear(width, classes)

        def forward(self, x):
            features = self.body(x)
            return features, self.head(features)

    def logits_only(input_shape, classes, dropout):
        return nn.Sequential(nn.Flatten(), nn.LazyLinear(classes))

    def no_dropout(input_shape, classes):
        return nn.Identity()

    def nothing(input_shape, classes, dropout):
        return None

    def blobs(*, samples: int = 20):
        generator = torch.Generator().manual_seed(0)
        domains = [
            Domain(name, torch.randn(samples, 3, generator=generator), torch.arange(samples) % 2)
            for name in "abc"
        ]
        return DomainSet("blobs", tuple(domains), classes=2)

    number = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write the module my_parts again, with text appended."""
    folder = tmp_path / "importable"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))

    def write(more="", change=("", "")):
        (folder / "my_parts.py").write_text(textwrap.dedent(MODULE).replace(*change) + more)
        monkeypatch.delitem(sys.modules, "my_parts", raising=False)

    write()
    return write


@pytest.fixture
def config(module):
    return with_source(
        replace(
            tiny(steps=12, eval_every=4),
            data="my_parts:blobs",
            test_domains=("c",),
            data_options={"samples": 30},
            method="my_parts:Largest",
            hparams={"share": 0.25},
            model="my_parts:Net",
            model_options={"width": 5},
            batch_size=8,
        )
    )


def stop(progress):
    if progress.step == 6:
        raise KeyboardInterrupt


def test_run_with_own_parts_is_recorded_and_resumed(config, tmp_path):
    record = train(config, tmp_path / "whole")
    assert record.status == "done"
    assert {kind: part["name"] for kind, part in record.parts.items()} == {
        "data": "my_parts:blobs",
        "method": "my_parts:Largest",
        "model": "my_parts:Net",
    }
    assert len(record.parts["method"]["source"]) == 16
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "parts", on_step=stop)
    train(config, tmp_path / "parts", resume=True)
    assert_same_run(tmp_path / "parts" / config.id, tmp_path / "whole" / config.id)


def test_comments_and_docstrings_are_no_change(config, module, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path, on_step=stop)
    module("# changed\n")
    assert train(config, tmp_path, resume=True).status == "done"


def test_run_of_another_source_is_not_trained(config, module, tmp_path):
    module(change=("risks.max()", "risks.min()"))
    with pytest.raises(SourceChangedError, match="the method my_parts:Largest"):
        train(config, tmp_path)
    assert with_source(config).id != config.id
    assert not (tmp_path / config.id).exists()


def test_built_in_parts_are_not_listed_in_the_record(tmp_path):
    config = tiny(steps=2)
    assert train(config, tmp_path).parts == {}
    first = (tmp_path / config.id / records.FILE).read_text().splitlines()[0]
    assert list(json.loads(first)) == ["kind", "version", "id", "config", "method", "task", "data"]


@pytest.mark.parametrize("name", ["my_parts:Net", "my_parts:blobs", "my_parts:number"])
def test_part_that_is_no_objective_raises(module, name):
    with pytest.raises(PartError, match=f"'{name}' must be a frozen dataclass derived from"):
        objective(name, {})


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("my_parts:number", {}, "my_parts:number is not a network"),
        ("my_parts:no_dropout", {}, r"cannot be called with \(input_shape, classes, dropout"),
        ("my_parts:nothing", {}, "must return a torch.nn.Module, got NoneType"),
        ("my_parts:Net", {"widht": 3}, "Did you mean 'width'"),
        ("my_parts:Net", {"width": "big"}, "width of my_parts:Net must be an integer"),
        ("my_parts:Missing", {}, "my_parts:Missing"),
        ("missing_module:Net", {}, "missing_module"),
    ],
)
def test_invalid_network_raises_in_one_line(module, name, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        build(name, (3,), 2, options=options)
    assert "\n" not in str(caught.value)


def test_network_without_features_raises_before_anything_is_written(config, tmp_path):
    run = with_source(
        replace(config, model="my_parts:logits_only", model_options={}, method="fishr", hparams={})
    )
    with pytest.raises(PartError, match=r"Fishr needs features.*logits_only returns logits"):
        train(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()
