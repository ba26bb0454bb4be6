"""The command of a run, read back by the command line."""

import shlex
from dataclasses import replace

import pytest

from riskmatch.cli.request import read
from riskmatch.defaults import run_config
from riskmatch.objectives import methods
from riskmatch.report.findings.reproduce import command
from riskmatch.runs.config import RunConfig


def usual(method, data, frozen=False, **values):
    return run_config(method, data, ("0.1",), frozen=frozen, given=values)


def again(config):
    words = shlex.split(command(config))
    assert words[:2] == ["riskmatch", "train"]
    return read(words[2:]).config


USUAL = [*((name, "colored-mnist", False) for name in sorted(methods())), ("rdm", "pacs", True)]


@pytest.mark.parametrize(("method", "data", "frozen"), USUAL)
def test_defaults_are_left_out_of_the_command(method, data, frozen):
    config = usual(method, data, frozen)
    expected = f"riskmatch train {data} --method {method} --test-domain 0.1"
    assert command(config) == expected + " --frozen" * frozen
    assert again(config) == config


@pytest.mark.parametrize(
    "config",
    [
        usual("rdm", "colored-mnist", weight=1 / 3, rescale=False, clip=1.0, seed=7, trial=2),
        usual("rdm", "pacs", frozen=True, weight=1e-7, lr=0.1 + 0.2, schedule="cosine"),
        usual("eqrm", "colored-mnist", log_tail=-1000.0, warmup=0, amp=True),
        usual("eqrm", "colored-mnist", log_tail=None, pretrain=400),
        usual("erm", "colored-digits", data_options={"samples": 100, "seed": 3}),
        usual("erm", "colored-mnist", data_options={"preset": "authors-code", "p": [0.1, 0.2]}),
        usual("erm", "colored-digits", model_options={"widths": [8], "init": None}),
        usual("erm", "colored-digits", model="lite0", model_options={"weights": "true"}),
        usual("erm", "colored-digits", model="cnn"),
        replace(usual("erm", "colored-mnist"), test_domains=("0.9", "test 0.1", "-1")),
    ],
    ids=lambda config: config.id,
)
def test_a_command_gives_the_same_run(config):
    assert again(config) == config


def test_an_unknown_method_has_no_command():
    assert command(RunConfig("pacs", ("photo",), "sagnet")) == ""


def test_an_imported_run_has_no_command():
    config = RunConfig("pacs", ("photo",), "erm", {"resnet18": False, "hparams_seed": 3})
    assert command(config) == ""
