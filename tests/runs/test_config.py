"""What no run can be, refused in a line; what is on file loads, with its id."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from riskmatch.runs.config import RunConfig

RUN = RunConfig("colored-digits", ("0.1",), "erm")
RESULTS = Path(__file__).resolve().parents[2] / "results"


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("data", 3, "a text"),
        ("test_domains", "0.1", "a list of texts"),
        ("test_domains", (0.1,), "a list of texts"),
        ("method", None, "a text"),
        ("hparams", [1], "a table"),
        ("model", 3, "a text"),
        ("lr", "abc", "a number"),
        ("lr", True, "a number"),
        ("weight_decay", "0", "a number"),
        ("dropout", None, "a number"),
        ("batch_size", True, "a whole number"),
        ("steps", 100.0, "a whole number"),
        ("eval_every", "10", "a whole number"),
        ("clip", "1", "a number or null"),
        ("amp", 1, "true or false"),
        ("seed", "0", "a whole number"),
        ("trial", False, "a whole number"),
        ("pretrain", 0.5, "a whole number"),
        ("micro_batch", None, "a whole number"),
        ("data_options", 3, "a table"),
        ("model_options", "widths", "a table"),
    ],
)
def test_a_value_of_the_wrong_type_is_told_with_its_field(name, value, kind):
    with pytest.raises(ValueError, match="No run can have") as refused:
        replace(RUN, **{name: value})
    assert str(refused.value) == f"No run can have {name} = {value!r}, which is not {kind}."


def test_a_schedule_is_one_of_those_there_are():
    with pytest.raises(ValueError, match=r"Unknown schedule 'cosin'\. Did you mean 'cosine'\?"):
        replace(RUN, schedule="cosin")
    with pytest.raises(ValueError, match="Unknown schedule None"):
        replace(RUN, schedule=None)


def test_a_whole_number_is_a_number():
    assert replace(RUN, lr=1, weight_decay=0, clip=5).lr == 1


@pytest.mark.parametrize("tests", ["sketch", None, 3])
def test_test_domains_on_file_are_a_list(tests):
    with pytest.raises(ValueError, match="No run can have test_domains = "):
        RunConfig.from_json({**RUN.to_json(), "test_domains": tests})


@pytest.mark.parametrize("name", ["records.jsonl", "plan.jsonl"])
def test_every_run_on_file_loads_and_keeps_its_id(name):
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
