import json
import shlex

import pytest

from riskmatch.runs.records import FILE

PLAN = shlex.split(
    "sweep plan s --data colored-digits --data-option samples=60 --methods erm,rdm "
    "--test-domain 0.1 --draws 1 --trials 2 --steps 20 --eval-every 10 --option warmup=5 "
    "--model-option widths=[4]"
)


@pytest.fixture
def planned(riskmatch):
    assert riskmatch(*PLAN).code == 0
    return riskmatch


def test_a_sweep_from_its_plan_to_its_table(riskmatch, tmp_path):
    found = riskmatch(*PLAN)
    assert found.out.startswith("4 runs are new in s/plan.jsonl. About 0:")
    assert found.out.endswith("To start: riskmatch sweep run s\n")
    found = riskmatch("sweep", "run", "s", "--jobs", "1")
    assert found.code == 0
    assert "4/4  rdm moments on colored-digits without 0.1, draw 0, trial 1: done" in found.err
    assert found.out == "All 4 runs are done. Their table: riskmatch sweep table s\n"
    status = json.loads(riskmatch("sweep", "status", "s", "--json").out)
    assert (status["done"], status["methods"]["rdm moments"]["done"]) == (4, 2)
    assert status["seconds_left"] == 0
    table = riskmatch("sweep", "table", "s")
    assert table.code == 0
    assert "1 draw in each of 2 trials" in table.out
    assert "ERM" in table.out
    costs = riskmatch("sweep", "table", "s", "--costs", "--json").out
    rows = {row["method"]: row for row in json.loads(costs)[0]["rows"]}
    assert rows.keys() == {"ERM", "RDM (two moments)"}
    assert float(rows["ERM"]["memory (GiB)"]) > 0
    latex = riskmatch("sweep", "table", "s", "--select", "test-val", "--format", "latex").out
    assert r"\begin{tabular}" in latex
    assert (
        "oracle"
        in json.loads(riskmatch("sweep", "table", "s", "--select", "test-val", "--json").out)[0][
            "caption"
        ]
    )


def test_a_plan_is_extended_by_what_it_lacks(planned):
    found = planned(*PLAN, "--draws", "2")
    assert found.out.startswith("4 runs are new in s/plan.jsonl; 4 were there.")
    assert planned(*PLAN, "--draws", "2").out.startswith("0 runs are new in s/plan.jsonl; 8 were")


def test_every_domain_and_pair_is_held_out_unless_some_are_named(riskmatch, tmp_path):
    words = [word for word in PLAN if word not in ("--test-domain", "0.1")]
    riskmatch(*words, "--quiet", "--leave-two-out")
    lines = (tmp_path / "s" / "plan.jsonl").read_text().splitlines()[1:]
    tests = {tuple(json.loads(line)["config"]["test_domains"]) for line in lines}
    assert tests == {("0.9",), ("0.8",), ("0.1",), ("0.9", "0.8"), ("0.9", "0.1"), ("0.8", "0.1")}


def test_failures_are_listed_left_alone_and_tried_again(planned, tmp_path):
    plan = tmp_path / "s" / "plan.jsonl"
    plan.write_text(plan.read_text().replace('"warmup": 5', '"wramup": 5', 1))
    found = planned("sweep", "run", "s", "--jobs", "1", "--quiet")
    assert found.code == 3
    assert "1 of 4 runs failed; the first: rdm moments on colored-digits without 0.1" in found.err
    assert (
        "All of them: riskmatch sweep status s. To try again: riskmatch sweep retry s" in found.err
    )
    status = planned("sweep", "status", "s")
    assert "Unknown hyper-parameter of rdm 'wramup'. Did you mean 'warmup'?" in status.out
    assert planned("sweep", "run", "s", "--jobs", "1").err.startswith(
        "4 runs, 4 of them done before"
    )
    assert planned("sweep", "retry", "s", "--jobs", "1").err.startswith("1 runs, 0 of them")
    missing = planned("sweep", "table", "s").out
    assert "Missing: RDM (two moments) on 0.1, trial 0: 1 of 1 runs" in missing


def test_a_damaged_record_is_told_of_and_the_table_made_of_the_others(planned, tmp_path):
    planned("sweep", "run", "s", "--jobs", "1", "--quiet")
    path = min((tmp_path / "s" / "runs").glob(f"*/{FILE}"))
    path.write_text("{\n")
    found = planned("sweep", "table", "s")
    assert found.code == 0
    assert f"{path.relative_to(tmp_path)}, line 1, is not JSON" in found.err
    assert "Missing" in found.out


def test_nothing_to_retry(planned):
    assert planned("sweep", "retry", "s").out == "No run has failed.\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "sweep run nowhere",
            "nowhere has no plan.jsonl. Plan one with riskmatch sweep",
        ),
        ("sweep plan s", "needs --data"),
        ("sweep plan s --data colored-digtis", "Did you mean 'colored-digits'?"),
        ("sweep plan s --data colored-digits --methods rmd", "Did you mean 'rdm'?"),
        (
            "sweep plan s --data colored-digits --test-domain 0.7",
            "Unknown domain of colored-digits",
        ),
        ("sweep plan s --data colored-digits --option wieght=1", "Did you mean 'weight'?"),
        (
            "sweep plan s --data colored-digits --option schedule=cosin",
            "Unknown schedule 'cosin'. Did you mean 'cosine'? Valid: 'constant', 'cosine', 'cosine",
        ),
        (
            "sweep plan s --data colored-digits --option lr=abc",
            "No run can have lr = 'abc', which is not a number.",
        ),
        (
            "sweep plan s --data colored-digits --option steps=abc",
            "No run can have steps = 'abc', which is not a whole number.",
        ),
        (
            "sweep plan s --data colored-digits --methods rdm --option warmup=abc",
            "Option warmup of rdm: 'abc' is not a whole number.",
        ),
        (
            "sweep plan s --data colored-digits --methods vrex --option weight=abc",
            "Option weight of vrex: 'abc' is not a number.",
        ),
        (
            "sweep plan s --data colored-digits --methods rdm --option divergence=mdm",
            "Unknown divergence of rdm 'mdm'. Did you mean 'mmd'?",
        ),
        ("sweep plan s --data colored-digits --steps 100", "(150 steps)"),
        ("sweep table s --select best", "Valid: 'train-val', 'test-val', 'leave-one-out'"),
    ],
)
def test_mistakes_cost_one_line(riskmatch, words, message):
    found = riskmatch(*shlex.split(words))
    assert found.code == 2
    assert message in found.err
    assert found.err.count("\n") == 1
