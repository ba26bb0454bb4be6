"""Hyper-parameters outside their valid values are refused before the first step."""

import math
from dataclasses import dataclass, fields

import pytest

from riskmatch import train
from riskmatch.contract import Objective
from riskmatch.defaults import run_config
from riskmatch.engine.assemble import objective
from riskmatch.objectives import methods
from riskmatch.runs.config import RunConfig
from riskmatch.space import Interval, LogUniform, tuned
from riskmatch.sweep import plan_sweep

WRONG = [
    ("andmask", "tau", 1.5, r"in \[0, 1\]"),
    ("lp-ft", "probe_lr", 0.0, "positive"),
    ("sagnet", "weight", -1.0, "at least 0"),
    ("mtl", "ema", -0.1, r"in \[0, 1\]"),
    ("sandmask", "slope", 0.0, "positive"),
    ("rdm", "warmup", -5, "at least 0"),
    ("rdm", "lr_after", 0.0, "positive"),
    ("rdm", "weight", -1.0, "at least 0"),
    ("erm-switch", "warmup", -1, "at least 0"),
    ("fishr", "ema", 2.0, r"in \[0, 1\)"),
    ("eqrm", "quantile", 1.0, r"in \(0, 1\)"),
    ("eqrm", "log_tail", 0.5, "in"),
    ("mixup", "alpha", 0.0, "positive"),
    ("mldg", "meta_test", 0, "at least 1"),
    ("dann", "critic_depth", 1, "at least 2"),
    ("cad", "temperature", 0.0, "positive"),
    ("transfer", "radius", 0.0, "positive"),
]


@pytest.mark.parametrize(("method", "name", "value", "valid"), WRONG)
def test_value_out_of_range_is_refused(method, name, value, valid):
    with pytest.raises(ValueError, match=f"{name} of .* must be {valid}.*got {value}"):
        run_config(method, "colored-digits", ["0.1"], given={name: value})
    with pytest.raises(ValueError, match=f"{name} of .* must be {valid}"):
        objective(method, {name: value})  # as a plan does


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_no_number_of_a_method_may_be_infinite_or_nan(value):
    for name, cls in methods().items():
        for item in fields(cls):
            if isinstance(item.default, float):
                with pytest.raises(ValueError, match=rf"{item.name} .*(finite|must be)"):
                    run_config(name, "colored-digits", ["0.1"], given={item.name: value})
                with pytest.raises(ValueError, match=item.name):
                    cls(**{item.name: value})


@pytest.mark.parametrize(
    "changes",
    [
        {"lr": math.inf},
        {"clip": math.inf},
        {"hparams": {"weight": math.inf}},
        {"data_options": {"p": [1.0, math.nan]}},
        {"model_options": {"scale": {"a": -math.inf}}},
        {"seed": 10**30},
        {"seed": -1},
    ],
)
def test_configuration_has_finite_numbers_and_seeds_that_fit(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        RunConfig("colored-digits", ("0.1",), "erm", **changes)


def test_mldg_holds_out_no_more_domains_than_there_are(tmp_path):
    options = {"steps": 2, "data_options": {"samples": 40}}
    with pytest.raises(ValueError, match=r"meta_test=9.* needs 10 training domains, not 2"):
        train("colored-digits", "mldg", "0.1", out=tmp_path, meta_test=9, **options)
    with pytest.raises(ValueError, match=r"meta_test=9.* needs 10"):
        plan_sweep(tmp_path, "colored-digits", "mldg", choices={"meta_test": 9, **options})
    assert list(tmp_path.iterdir()) == []
    for count in (1, 2):  # what sweeps search
        run = train("colored-digits", "mldg", "0.1", out=tmp_path, meta_test=count, **options)
        assert run.record.status == "done"


def test_method_of_the_users_own_declares_valid_values():
    @dataclass(frozen=True)
    class Own(Objective):
        share: float = tuned(0.5, LogUniform(-1, 0), Interval(0, 1))

        def __call__(self, ev, memory):
            raise NotImplementedError

    assert Own(1.0).share == 1.0
    with pytest.raises(ValueError, match=r"share of Own must be in \[0, 1\], got 1.5"):
        Own(1.5)
