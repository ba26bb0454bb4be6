"""Runs that do not do what their method or options say."""

from dataclasses import replace

import pytest

from riskmatch.runs.config import RunConfig
from riskmatch.runs.findings import inactive, inactive_runs, replaced_lr

RDM = RunConfig(
    "pacs", ("photo",), "rdm", {"weight": 5.0, "warmup": 60, "lr_after": 1e-5}, lr=1e-3, steps=100
)
DOMAINS = ("photo", "sketch", "cartoon")


def with_hparams(**values):
    return replace(RDM, hparams={**RDM.hparams, **values})


@pytest.mark.parametrize(
    ("config", "domains", "facts"),
    [
        (with_hparams(warmup=100), DOMAINS, ("warmup is 100", "100 steps", "smaller warmup")),
        (with_hparams(weight=0.0), DOMAINS, ("weight 0", "larger weight")),
        (RDM, DOMAINS[:2], ("one training domain", "fewer domains")),
    ],
)
def test_method_that_never_acts_is_named_with_cause_and_cure(config, domains, facts):
    message = inactive(config, domains)
    assert "\n" not in message
    for fact in ("rdm", *facts):
        assert fact in message


@pytest.mark.parametrize("domains", [(), DOMAINS])
def test_method_that_acts_is_not_named(domains):
    assert inactive(RDM, domains) is None
    assert inactive(replace(RDM, method="erm", hparams={}), domains[:2]) is None


def test_inactive_runs_are_counted_by_method_and_cause():
    drawn = [with_hparams(warmup=warmup) for warmup in (40, 99, 100, 2000)]
    erm = replace(RDM, method="erm", hparams={})
    (line,) = inactive_runs([erm, *drawn], DOMAINS)
    for fact in ("2 of 4 rdm runs", "warmup ≥ 100", "smaller warmup or more steps"):
        assert fact in line
    assert len(inactive_runs([*drawn, with_hparams(weight=0.0)])) == 2


@pytest.mark.parametrize(
    ("config", "given", "facts"),
    [
        (RDM, {"lr"}, ("0.001", "until step 60", "lr_after = 1e-05")),
        (with_hparams(warmup=0), {"lr"}, ("never used", "step 0")),
        (RDM, {"lr", "lr_after"}, None),
        (RDM, {"seed"}, None),
        (with_hparams(lr_after=1e-3), {"lr"}, None),
        (with_hparams(warmup=100), {"lr"}, None),
    ],
)
def test_learning_rate_that_lr_after_replaces_is_named(config, given, facts):
    message = replaced_lr(config, given)
    assert (message is None) == (facts is None)
    for fact in facts or ():
        assert fact in message
