"""What commands say of methods that never act, and of choices before a method acts."""

import json
import re
import shlex

from tiny import train

PLAN = shlex.split(
    "sweep plan s --data colored-digits --data-option samples=60 --methods erm,rdm --draws 1 "
    "--trials 1 --steps 20 --eval-every 10 --model-option widths=[4] --test-domain 0.1"
)


def test_training_warns_once_and_the_summary_repeats_it(riskmatch):
    done = riskmatch(*train("rdm", "--warmup", "20"))
    assert done.code == 0
    lines = [line for line in done.err.splitlines() if line.startswith("riskmatch:")]
    assert len(lines) == 1
    assert "warmup is 20" in lines[0]
    assert "warning: rdm never leaves its warm-up" in done.out
    assert "(last, train-val)" in done.out
    assert re.search(r"evaluation \d+% of 0:\d\d", done.out)
    assert "riskmatch:" not in riskmatch(*train("rdm", "--warmup", "5")).err
    quiet = riskmatch(*train("rdm", "--warmup", "30", "--quiet", "--json"))
    assert quiet.err == ""
    assert "warmup is 30" in json.loads(quiet.out)["warnings"][0]


def test_training_warns_before_it_reads_data(riskmatch, tmp_path):
    words = ["--method", "rdm", "--test-domain", "a", "--warmup", "20", "--steps", "20"]
    done = riskmatch("train", str(tmp_path / "nowhere.npz"), *words)
    assert done.code == 2
    assert [("warmup is 20" in line, "nowhere" in line) for line in done.err.splitlines()] == [
        (True, False),
        (False, True),
    ]


def test_training_warns_of_a_learning_rate_that_is_replaced(riskmatch):
    done = riskmatch(*train("rdm", "--warmup", "5", "--lr", "0.01"))
    (line,) = (line for line in done.err.splitlines() if "lr_after" in line)
    assert "0.01 is used until step 5" in line


def test_one_training_domain_is_warned_about(riskmatch):
    done = riskmatch(*train("vrex", "--warmup", "5", "--test-domain", "0.8"))
    assert "one training domain" in done.err


def test_plan_status_and_table_count_runs_that_never_act(riskmatch, tmp_path):
    assert riskmatch(*PLAN, "--option", "warmup=5").err == ""
    path = tmp_path / "s" / "plan.jsonl"
    lines = path.read_text().splitlines()
    changed = lines[-1].replace('"warmup": 5', '"warmup": 20').replace('"draw": 0', '"draw": 1')
    path.write_text("\n".join([*lines, changed]) + "\n")
    assert riskmatch("sweep", "run", "s", "--jobs", "1", "--quiet").err == ""
    count = "1 of 2 rdm moments runs never leave their warm-up (warmup ≥ 20 steps)"
    assert count in riskmatch("sweep", "status", "s").out.replace("\n", " ")
    assert count in json.loads(riskmatch("sweep", "status", "s", "--json").out)["inactive"][0]
    (table,) = json.loads(riskmatch("sweep", "table", "s", "--json").out)
    assert "RDM (two moments) 1 of 2." in table["caption"]
    assert "Chosen before the method acts: " in table["caption"]
    (table,) = json.loads(riskmatch("sweep", "table", "s", "--after-warmup", "--json").out)
    assert "Left out, as the method has not acted: RDM (two moments) 1 of 2." in table["caption"]
    assert "Chosen before the method acts: 0 of 2." in table["caption"]
    assert "Chosen before the method acts: " in riskmatch("show", "s").out


def test_plan_counts_the_draws_that_never_act(riskmatch):
    result = riskmatch(*PLAN, "--option", "weight=0.0", "--option", "warmup=5")
    assert (
        "1 of 1 rdm moments runs have a penalty of weight 0: choose a larger weight" in result.err
    )


def test_json_of_a_table_has_numbers_and_nulls(riskmatch):
    assert riskmatch(*PLAN, "--option", "warmup=5", "--quiet").code == 0
    assert riskmatch("sweep", "run", "s", "--jobs", "1", "--quiet").code == 0
    (table,) = json.loads(riskmatch("sweep", "table", "s", "--json").out)
    erm = table["rows"][0]
    assert isinstance(erm["0.1 mean"], float)
    assert (erm["method"], erm["0.1 se"], erm["0.1 n"]) == ("ERM", None, 1)
    missing = riskmatch("sweep", "table", "s", "--select", "leave-one-out")
    assert (missing.code, missing.out) == (2, "")
    assert "--leave-two-out" in missing.err
