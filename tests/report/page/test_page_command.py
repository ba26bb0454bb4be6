"""Commands that repeat a run, parsed by the command line."""

import shlex
from dataclasses import replace

import pytest

from riskmatch.cli.train import Train
from riskmatch.defaults import run_config
from riskmatch.objectives import methods
from riskmatch.report.details import train_command
from riskmatch.runs.config import RunConfig


def config_of(method, data, frozen=False, **values):
    return run_config(method, data, ("0.1",), frozen=frozen, given=values)


def parsed(config):
    words = shlex.split(train_command(config))
    assert words[:2] == ["riskmatch", "train"]
    return Train.parse("train", words[2:]).config


DEFAULTS = [*((name, "colored-mnist", False) for name in sorted(methods())), ("rdm", "pacs", True)]


@pytest.mark.parametrize(("method", "data", "frozen"), DEFAULTS)
def test_defaults_are_left_out_of_the_command(method, data, frozen):
    config = config_of(method, data, frozen)
    expected = f"riskmatch train {data} --method {method} --test-domain 0.1"
    assert train_command(config) == expected + " --frozen --patience 0" * frozen
    assert parsed(config) == config


@pytest.mark.parametrize(
    "config",
    [
        config_of("rdm", "colored-mnist", weight=1 / 3, rescale=False, clip=1.0, seed=7, trial=2),
        config_of("rdm", "pacs", frozen=True, weight=1e-7, lr=0.1 + 0.2, schedule="cosine"),
        config_of("eqrm", "colored-mnist", log_tail=-1000.0, warmup=0, amp=True),
        config_of("eqrm", "colored-mnist", log_tail=None, pretrain=400),
        config_of("erm", "colored-digits", data_options={"samples": 100, "seed": 3}),
        config_of("erm", "colored-mnist", data_options={"preset": "authors-code", "p": [0.1, 0.2]}),
        config_of("erm", "colored-digits", model_options={"widths": [8], "init": None}),
        config_of("erm", "colored-digits", model="lite0", model_options={"weights": "true"}),
        config_of("erm", "colored-digits", model="cnn"),
        replace(config_of("erm", "colored-mnist"), test_domains=("0.9", "test 0.1", "-1")),
    ],
    ids=lambda config: config.id,
)
@pytest.mark.filterwarnings("ignore:lr = 0.3 is used until")
def test_parsing_the_command_gives_the_same_config(config):
    assert parsed(config) == config


def test_an_unknown_method_has_no_command():
    assert train_command(RunConfig("pacs", ("photo",), "no-such-method")) == ""


def test_an_imported_run_has_no_command():
    config = RunConfig("pacs", ("photo",), "erm", {"resnet18": False, "hparams_seed": 3})
    assert train_command(config) == ""
