"""Checks of a configuration, and ids of the committed runs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from riskmatch.runs.config import RunConfig, acts_from

RUN = RunConfig("colored-digits", ("0.1",), "erm")
RESULTS = Path(__file__).resolve().parents[2] / "results"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("data", 3, "a string"),
        ("test_domains", "0.1", "a list of strings"),
        ("test_domains", (0.1,), "a list of strings"),
        ("method", None, "a string"),
        ("hparams", [1], "a table"),
        ("model", 3, "a string"),
        ("lr", "abc", "a number"),
        ("lr", True, "a number"),
        ("weight_decay", "0", "a number"),
        ("dropout", None, "a number"),
        ("batch_size", True, "an integer"),
        ("steps", 100.0, "an integer"),
        ("eval_every", "10", "an integer"),
        ("clip", "1", "a number or None"),
        ("amp", 1, "true or false"),
        ("seed", "0", "an integer"),
        ("trial", False, "an integer"),
        ("pretrain", 0.5, "an integer"),
        ("micro_batch", None, "an integer"),
        ("data_options", 3, "a table"),
        ("model_options", "widths", "a table"),
    ],
)
def test_wrong_type_names_field_expected_type_and_value(name, value, expected):
    with pytest.raises(ValueError, match=f"^{name} ") as error:
        replace(RUN, **{name: value})
    assert expected in str(error.value)
    assert repr(value) in str(error.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lr", 0.0),
        ("weight_decay", -1.0),
        ("dropout", 1.0),
        ("batch_size", -1),
        ("steps", 0),
        ("eval_every", 0),
        ("clip", 0.0),
        ("pretrain", 5000),
        ("micro_batch", -1),
    ],
)
def test_value_out_of_range_is_refused(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be .*got {value}"):
        replace(RUN, **{name: value})


def test_unknown_schedule_is_refused():
    with pytest.raises(ValueError, match=r"Unknown schedule 'cosin'\. Did you mean 'cosine'\?"):
        replace(RUN, schedule="cosin")
    with pytest.raises(ValueError, match="Unknown schedule None"):
        replace(RUN, schedule=None)


def test_integers_are_accepted_as_floats():
    assert replace(RUN, lr=1, weight_decay=0, clip=5).lr == 1


@pytest.mark.parametrize("tests", ["sketch", None, 3])
def test_test_domains_must_be_a_list(tests):
    with pytest.raises(ValueError, match=r"^test_domains must be a list of strings"):
        RunConfig.from_json({**RUN.to_json(), "test_domains": tests})


@pytest.mark.parametrize("name", ["records.jsonl", "plan.jsonl"])
def test_committed_runs_keep_their_ids(name):
    entries = [
        (path, json.loads(line))
        for path in RESULTS.rglob(name)
        for line in path.read_text("utf-8").splitlines()
        if '"config": {' in line
    ]
    assert entries
    for path, entry in entries:
        config = RunConfig.from_json(entry["config"])
        assert config.to_json() == entry["config"]
        assert entry.get("id", config.id) == config.id
        assert name == "plan.jsonl" or path.parent.name == config.id


@pytest.mark.parametrize(
    ("method", "hparams", "fields", "expected"),
    [
        ("erm", {}, {"pretrain": 40}, 0),
        ("erm-switch", {"warmup": 500, "lr_after": 1e-4}, {}, 0),
        ("coral", {"weight": 1.0}, {}, 0),
        ("coral", {"weight": 0.0}, {}, None),
        ("rdm", {"weight": 5.0, "warmup": 60}, {}, 60),
        ("rdm", {"weight": 5.0, "warmup": 60}, {"pretrain": 80}, 80),
        ("rdm", {"weight": 5.0, "warmup": 99}, {}, 99),
        ("rdm", {"weight": 5.0, "warmup": 100}, {}, None),
        ("rdm", {"weight": 0.0, "warmup": 60}, {}, None),
        ("eqrm", {"quantile": 0.75, "warmup": 100}, {}, None),
        ("mine.methods:Mine", {"weight": 1.0, "warmup": 10}, {}, 10),
        ("mine.methods:Mine", {"strength": 0.0}, {}, 0),
        # As DomainBed logs them, where an evaluation at step s follows s + 1 updates.
        ("rdm", {"rdm_lambda": 5.0, "rdm_penalty_anneal_iters": 60}, {}, 59),
        ("vrex", {"vrex_penalty_anneal_iters": 1000}, {}, None),
        ("eqrm", {"eqrm_burnin_iters": 0}, {}, 0),
        ("SagNet", {"penalty_anneal_iters": "soon"}, {}, 0),
    ],
)
def test_method_acts_from_the_end_of_its_warm_up(method, hparams, fields, expected):
    run = RunConfig("colored-digits", ("0.1",), method, hparams, steps=100, **fields)
    assert acts_from(run) == expected
