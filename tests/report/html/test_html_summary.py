"""Summary sentences of small examples."""

import pytest
from made_page import bare, page_data

from riskmatch.report.html.summary import closest_run, distance_change, summary


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


def run(*shots, worst=("a", "b", "b"), title="it"):
    return {
        "title": title,
        "training_domains": ["a", "b"],
        "snapshots": shots,
        "findings": [],
        "lost": False,
        "curves": {"worst": list(worst)},
    }


def test_single_run_names_the_worst_domain_and_the_change_of_distance():
    data = {"comparison": None, "runs": [run(shot(0, 0.5, 0.01), shot(300, 0.125, 0.2))]}
    assert summary(data) == [
        "The worst training domain at the end is “b”; it was worst in 2 of 3 evaluations.",
        "The risk distributions of the training domains moved closer together: their mean MMD² "
        "fell from 0.5 at step 0 to 0.125 at step 300; 0 of 1 pairs differ significantly "
        "(p < 0.05).",
    ]


def test_lost_run_is_named_first_and_its_distances_are_no_success():
    shots = shot(0, 0.5, 0.01), shot(300, 0.1, 0.2)
    lost = {**run(*shots), "findings": ["rdm harms the fit: …"], "lost": True}
    first, *others = summary({"comparison": None, "runs": [lost]})
    assert first == "rdm harms the fit: …"
    assert not any("pairs" in sentence for sentence in others)
    several = summary({"comparison": None, "runs": [lost, *[run(*shots, title="ERM")] * 2]})
    assert several[0] == "“it”: rdm harms the fit: …"
    assert not any("closest" in sentence for sentence in several)
    shortcut = {**run(*shots), "findings": ["rdm fits …"]}
    assert "0 of 1 pairs" in summary({"comparison": None, "runs": [shortcut]})[-1]


@pytest.mark.parametrize(
    ("shots", "expected"),
    [
        ([shot(0, 0.1, 0.5), shot(9, 0.2, 0.01)], "moved further apart: their mean MMD² rose"),
        ([shot(0, 0.1, 0.5), shot(9, 0.10001, 0.01)], "stayed at 0.1; 1 of 1 pairs"),
        ([shot(9, 0.2, None)], "The mean MMD² between training domains is 0.2."),
        ([], ""),
    ],
)
def test_change_of_distance(shots, expected):
    assert expected in distance_change(run(*shots))
    assert bool(distance_change(run(*shots))) == bool(expected)


def test_several_runs_name_the_closest():
    runs = [run(shot(9, value, 0.5), title=f"λ {value}") for value in (0.5, 0.25, 1.0)]
    assert closest_run(runs) == (
        "At the last step the risk distributions of the training domains are closest in “λ 0.25” "
        "(mean MMD² 0.25) and furthest apart in “λ 1.0” (1)."
    )


def test_without_predictions_the_common_worst_domain_is_named():
    data = page_data(runs=3)
    for one, worst in zip(data["runs"], ("art", "photo", "photo"), strict=True):
        one["snapshots"], one["curves"]["worst"] = [], ["cartoon", worst]
    assert summary(data) == [
        "2 of the 3 runs in detail end with “photo” as the worst training domain."
    ]


def test_too_few_evaluations():
    assert "too few evaluations" in summary(bare())[0]
