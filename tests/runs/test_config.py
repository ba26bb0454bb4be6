"""Checks of a configuration, and ids of the committed runs."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest

from riskmatch.defaults import run_config
from riskmatch.objectives import methods
from riskmatch.runs.config import RunConfig, acts_from
from riskmatch.runs.method import MethodFacts, declared, facts_of
from riskmatch.space import TRAINING

RUN = RunConfig("colored-digits", ("0.1",), "erm")
RESULTS = Path(__file__).resolve().parents[2] / "results"
DEFAULTS = Path(__file__).with_name("declared_defaults.json")


def declared_defaults():
    run = {name: value for name, value in declared(RunConfig).items() if name not in TRAINING}
    return {"run": run, **{name: declared(cls) for name, cls in methods().items()}}


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
        assert {**entry["config"], **config.to_json()} == config.to_json()
        assert entry.get("id", config.id) == config.id
        assert name == "plan.jsonl" or path.parent.name == config.id
        if "method" in entry:
            about = msgspec.convert(entry["method"], MethodFacts)
            assert RunConfig.from_json(entry["config"], about).id == config.id


def test_declared_defaults_never_change():
    """An id leaves them out, so a changed one would give recorded runs the ids of others.

    A new field is added to the file: run this module as a script.
    """
    known = json.loads(DEFAULTS.read_text())
    now = declared_defaults()
    assert now.keys() == known.keys()
    for name, values in known.items():
        assert now[name] == values, name


def test_a_new_field_changes_no_id():
    @dataclass(frozen=True)
    class Later(RunConfig):
        shuffle: bool = True

    values = run_config("rdm", "pacs", ["photo"]).to_json()
    before, after = RunConfig.from_json(values), Later.from_json(values)
    assert before.id == after.id != replace(after, shuffle=False).id
    about = replace(before.about, defaults={**before.about.defaults, "tail": 0.1})
    longer = {**before.hparams, "tail": 0.1}
    assert replace(before, hparams=longer).with_facts(about).id == before.id
    other = replace(before, hparams={**longer, "tail": 0.2}).with_facts(about)
    assert other.id != before.id


def test_defaults_stated_or_not_give_one_id():
    (given, full) = (RunConfig("d", ("a",), "rdm", hparams) for hparams in ({}, {"weight": 5.0}))
    assert given.id == full.id != RunConfig("d", ("a",), "rdm", {"weight": 4.0}).id
    assert replace(RUN, steps=5000).id == RUN.id != replace(RUN, steps=4999).id


def test_settings_that_depend_on_method_and_data_have_no_default_in_an_id():
    for name in TRAINING:
        assert name in RUN.changed()


def test_facts_about_another_method_do_not_count():
    facts = facts_of("rdm")
    assert RunConfig.from_json({**RUN.to_json(), "method": "vrex"}, facts).about == facts_of("vrex")


def test_a_derived_method_has_a_title_of_its_own():
    facts = facts_of("benchmarks.gradual:GradualRDM")
    assert (facts.title, facts.variants, facts.defaults["ramp"]) == ("GradualRDM", {}, 100)


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
    ],
)
def test_method_acts_from_the_end_of_its_warm_up(method, hparams, fields, expected):
    run = RunConfig("colored-digits", ("0.1",), method, hparams, steps=100, **fields)
    assert acts_from(run) == expected


if __name__ == "__main__":
    DEFAULTS.write_text(json.dumps(declared_defaults(), indent=1) + "\n")
