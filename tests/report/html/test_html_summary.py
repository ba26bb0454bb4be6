"""The table of runs in detail."""

import pytest
from made_page import bare, page_data

from riskmatch.report.run_tables import runs_table


def shot(step, value, p):
    """Three domains: t is a test domain; the distance of a and b is ``value``."""
    far = 9.0
    return {
        "step": step,
        "domains": {},
        "mmd": {
            "domains": ["t", "a", "b"],
            "value": [[0.0, far, far], [far, 0.0, value], [far, value, 0.0]],
            "p": [[None, 0.001, 0.001], [0.001, None, p], [0.001, p, None]],
        },
    }


def run(*shots, worst=("a", "b", "b"), title="it", lost=False):
    return {
        "title": title,
        "training_domains": ["a", "b"],
        "snapshots": shots,
        "lost": lost,
        "curves": {"worst": list(worst)},
    }


def facts(*runs):
    """Texts of the cells of each run by column."""
    table = runs_table(runs)
    return [dict(zip(table.columns, map(str, row), strict=True)) for row in table.rows]


def test_worst_domain_and_distances_of_training_domains():
    assert facts(run(shot(0, 0.5, 0.01), shot(300, 0.125, 0.2))) == [
        {
            "run": "it",
            "worst domain": "b (2 of 3)",
            "MMD² at first": "0.5",
            "MMD² at last": "0.125",
            "pairs that differ": "0 of 1",
        }
    ]


def test_distances_of_a_lost_network_are_no_success():
    shots = shot(0, 0.5, 0.01), shot(300, 0.1, 0.2)
    lost, other = facts(run(*shots, lost=True), run(*shots))
    assert (lost["MMD² at last"], lost["pairs that differ"]) == ("None", "None")
    assert other["MMD² at last"] == "0.1"
    assert "MMD² at last" not in facts(run(*shots, lost=True))[0]


@pytest.mark.parametrize(("p", "pairs"), [(0.01, "1 of 1"), (0.5, "0 of 1")])
def test_pairs_that_differ_at_the_last_step(p, pairs):
    assert facts(run(shot(0, 0.1, 0.5), shot(9, 0.2, p)))[0]["pairs that differ"] == pairs


def test_without_predictions_and_evaluations():
    data = page_data(runs=2)
    for one in data["runs"]:
        one["snapshots"], one["curves"]["worst"] = [], ["cartoon", "photo"]
    assert facts(*data["runs"])[1]["worst domain"] == "photo (1 of 2)"
    assert runs_table(bare()["runs"]).columns == ("run",)
