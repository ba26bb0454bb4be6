"""Runs that do not do what their method or options say."""

from dataclasses import replace

import pytest

from riskmatch.runs.config import RunConfig
from riskmatch.runs.findings import (
    Point,
    compare_fits,
    describe_fit,
    findings,
    inactive,
    inactive_runs,
    replaced_lr,
    worse_fit_runs,
)
from riskmatch.runs.frame import results_of
from riskmatch.runs.lines import LEVELS, DataIdentity, Evaluation, Score
from riskmatch.runs.records import RunRecord

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


def made_run(
    points, method="rdm", weight=5.0, warmup=60, classes="abcdefg", gradients=None, photo=(0.0,) * 9
):
    """A run whose training domains have the given risk and accuracy at the given steps.

    ``photo`` are the accuracies on the test domain.
    """
    evaluations = [
        Evaluation(
            step,
            {
                domain: {
                    "train": Score({"accuracy": acc}, r, QUANTILES),
                    "val": Score({"accuracy": 0.5}, 0.5, QUANTILES),
                }
                for domain, (r, acc) in {
                    "photo": (9.0, test),
                    "art": (risk - 0.1, accuracy), "sketch": (risk + 0.1, accuracy),
                }.items()
            },
            risk, {}, {}, "art", 1.0, 0.1, 1, gradients if gradients and step >= warmup else {},
        )
        for (step, risk, accuracy), test in zip(points, photo, strict=False)
    ]  # fmt: skip
    hparams = {} if method == "erm" else {"weight": weight, "warmup": warmup}
    config = RunConfig("toy", ("photo",), method, hparams, steps=100)
    identity = DataIdentity(tuple(classes), {}) if classes else None
    return RunRecord(config, tuple(evaluations), "done", data=identity)


QUANTILES = (0.0,) * len(LEVELS)
WORSE = {
    "risk of guessing": ([(60, 0.5, 0.8), (100, 1.94, 0.2)], ("1.94", "1.95", "0.5 at step 60")),
    "above guessing, evaluated once": ([(100, 2.1, 0.2)], ("2.1", "1.95")),
    "accuracy": ([(60, 0.5, 0.8), (80, 0.6, 0.79), (100, 0.7, 0.74)], ("80.0 %", "74.0 %")),
    "loss": ([(60, 0.1, 0.99), (80, 0.2, 0.98), (100, 0.5, 0.97)], ("0.2 at step 80", "0.5")),
}


@pytest.mark.parametrize("name", WORSE)
def test_method_that_lowers_the_fit_is_named(name):
    points, facts = WORSE[name]
    record = made_run(points)
    message = describe_fit(record)
    for fact in ("rdm", "weight below 5", *facts):
        assert fact in message
    (fit,) = results_of([record]).runs["fit"]
    (counted,) = worse_fit_runs([("rdm", fit)])
    assert "1 of 1 rdm runs" in counted
    assert findings(record) == [message]
    lost = "guessing" in name
    for line in (message, counted):
        assert ("shortcut" in line) == (not lost)
        assert "test domain" not in line
    assert ("harms the fit" in message) == lost


def test_method_without_a_warm_up_is_named_where_the_risk_is_far_above_that_of_guessing():
    message = describe_fit(made_run([(50, 20.0, 0.3), (100, 19.0, 0.3)], warmup=0))
    assert "harms the fit: the training risk is 19 at step 100, that of guessing is 1.95" in message


def test_method_whose_penalty_keeps_the_risk_of_guessing_from_the_first_step_is_named():
    steps = [Point(100, 1.943, 0.17, 75.1), Point(1000, 1.943, 0.17, 156.9)]
    fit = compare_fits(steps, 0, 7)
    assert fit.lost
    assert "1.94 at step 1000, that of guessing is 1.95" in fit.what
    short = [point._replace(loss=5.8) for point in steps]  # three risks, of a run that is too short
    assert compare_fits(short, 0, 7) is None


def test_fall_on_training_domains_that_raises_the_accuracy_on_the_test_domain_is_no_harm():
    points, _ = WORSE["accuracy"]
    record = made_run(points, photo=(0.12, 0.4, 0.7))
    (fit,) = results_of([record]).runs["fit"]
    message, (counted,) = describe_fit(record), worse_fit_runs([("rdm", fit)])
    assert "on the test domain rose from 12.0 % to 70.0 %" in message
    assert "1 of them with a higher accuracy on the test domain" in counted
    for line in (message, counted):
        assert "harm" not in line
        assert "expected where a method gives up a shortcut" in line


@pytest.mark.parametrize(
    "record",
    [
        made_run([(60, 0.5, 0.8), (100, 0.6, 0.78)]),
        made_run([(20, 1.9, 0.3), (60, 0.5, 0.8)]),
        made_run([(60, 1.94, 0.2), (100, 1.9, 0.2)]),
        made_run([(60, 0.5, 0.8), (100, 2.5, 0.1)], method="erm"),
        made_run([(60, 0.5, 0.8), (100, 2.5, 0.1)], warmup=100),
        made_run([(100, 2.5, 0.3)], classes=""),
        made_run([(100, 2.5, 0.1)], warmup=0),
    ],
)
def test_run_that_fits_or_never_acts_is_not_named(record):
    assert describe_fit(record) is None
    assert list(results_of([record]).runs["fit"]) == [""]


def test_worse_fits_are_counted_by_method():
    lines = worse_fit_runs([("rdm", "worse"), ("erm", ""), ("irm", "lost"), ("rdm", "")])
    assert [line.partition(" runs")[0] for line in lines] == ["1 of 1 irm", "1 of 2 rdm"]


def test_weight_is_suggested_from_the_ratio_of_the_gradients():
    points, _ = WORSE["accuracy"]
    message = describe_fit(made_run(points, gradients={"risk": 0.2, "penalty": 5.0}))
    assert "a weight of about 0.2, not 5" in message
    assert "25 times" in message
