"""The audit of imported logs, against plain loops over their lines."""

import os
import random
import runpy
from pathlib import Path
from statistics import fmean

import pytest
from domainbed_tree import line, random_sweep, write

from riskmatch.runs.domainbed import read_domainbed
from riskmatch.runs.frame import results_of

AUDIT = Path(__file__).parents[2] / "benchmarks" / "audit.py"
WARMUP = 300
BATCHES = (88, 60, 101)


def audited(folder):
    audit_tables = runpy.run_path(str(AUDIT))["audit_tables"]
    protocol, ranges, rules, draws = audit_tables(results_of(read_domainbed(folder).runs))
    return {
        "protocol": {row[0]: row[1:] for row in protocol.rows},
        "ranges": {row[0]: row[1:] for row in ranges.rows},
        "rules": {row[0]: row[1:] for row in rules.rows},
        "draws": {row[0]: row[1:] for row in draws.rows},
    }


def made_sweep(folder):
    """RDM with every test domain, two trials and three draws; return all lines."""
    rng, written = random.Random(0), []
    for test in range(4):
        for trial in (0, 1):
            for draw, batch in enumerate(BATCHES):
                hparams = {"rdm_lambda": 1.0 + draw, "batch_size": batch, "rdm_lr": 1e-5}
                hparams["rdm_penalty_anneal_iters"] = WARMUP
                args = {"algorithm": "RDM", "hparams_seed": draw, "trial_seed": trial}
                lines = [
                    line(step, [(rng.random(), rng.random()) for _ in range(4)], (test,), hparams,
                         steps=601, seed=draw, **args)
                    for step in (0, 300, 600)
                ]  # fmt: skip
                write(folder / f"{test}-{trial}-{draw}", lines)
                written += lines
    return written


def best(lines, test, trial):
    """The line of a test environment and trial with the best validation on the others."""
    own = [
        r for r in lines if r["args"]["test_envs"] == [test] and r["args"]["trial_seed"] == trial
    ]
    return max(own, key=lambda r: fmean(r[f"env{e}_out_acc"] for e in range(4) if e != test))


def accuracy(lines, test):
    """Mean over trials of the accuracy that validation chooses, in per cent."""
    return fmean(100 * best(lines, test, trial)[f"env{test}_in_acc"] for trial in (0, 1))


def test_rules_report_what_plain_loops_find_before_and_after_the_switch(tmp_path):
    lines = made_sweep(tmp_path)
    rules = audited(tmp_path)["rules"]
    parts = {
        "train-val": lines,
        "train-val, once the method acts": [r for r in lines if r["step"] >= WARMUP],
        "train-val, before the method acts": [r for r in lines if r["step"] < WARMUP],
    }
    for rule, part in parts.items():
        assert [cell.mean for cell in rules[rule][:4]] == pytest.approx(
            [accuracy(part, test) for test in range(4)]
        )
    chosen = [best(lines, test, trial) for test in range(4) for trial in (0, 1)]
    assert rules["train-val"][5] == f"{sum(r['step'] >= WARMUP for r in chosen)} of 8"
    assert rules["train-val, before the method acts"][5] == "0 of 8"


def test_protocol_and_ranges_count_what_lies_outside(tmp_path):
    made_sweep(tmp_path)
    found = audited(tmp_path)
    assert found["protocol"]["trials"] == ("2", "10")
    assert found["protocol"]["draws in a trial"] == ("3", "20")
    ranges = found["ranges"]
    # Draw 0 of each of 8 cases is the default; of the two others, 60 and 101 lie outside.
    assert ranges["batch_size"] == ("88", "60 to 101", "88", *("U(70, 100)", 16) * 2)
    assert ranges["weight"][:5] == ("1", "2 to 3", "5.0", "U(0.1, 10)", 0)
    assert ranges["warmup"][:5] == ("300", "300", "1500", "U(800, 2700)", 16)


def test_spread_over_draws_is_that_of_each_draw_at_its_best_step(tmp_path):
    lines = made_sweep(tmp_path)
    row = audited(tmp_path)["draws"]["cartoon, trial 1"]
    by_draw = [
        100 * best([r for r in lines if r["args"]["hparams_seed"] == draw], 1, 1)["env1_in_acc"]
        for draw in range(3)
    ]
    low, middle, high = sorted(by_draw)
    assert row[0] == 3
    assert row[1:6] == pytest.approx(
        (low, middle, high, high - low, 100 * best(lines, 1, 1)["env1_in_acc"])
    )


def test_methods_without_published_ranges_are_audited_too(tmp_path):
    random_sweep(tmp_path, draws=2, algorithm="Sideways", dataset="SVIRO")
    found = audited(tmp_path)
    assert found["protocol"]["draws in a trial"] == ("2", None)
    assert found["ranges"]["lr"][2:] == (None,) * 5
    assert "leave-one-out" in found["rules"]


@pytest.mark.needs_data
def test_authors_logs_reproduce_every_printed_number():
    root = Path(os.environ.get("RISKMATCH_DATA", "")) / "authors-logs" / "PACS"
    if "RISKMATCH_DATA" not in os.environ or not root.exists():
        pytest.skip("authors-logs is not there: set RISKMATCH_DATA")
    found = audited(root)
    assert found["protocol"]["trials"] == ("2", "10")
    assert found["rules"]["train-val"][-2:] == ("8 of 8", "10 of 10")
    assert found["ranges"]["batch_size"][:2] == ("80", "60 to 96")
    assert found["ranges"]["batch_size"][4] == 8
