"""Summary sentences of small examples."""

import pytest
from made_page import bare, page_data

from riskmatch.report.html.summary import best_difference, closest_run, distance_change, summary


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


def test_run_that_harms_the_fit_is_named_first_and_its_distances_are_no_success():
    one = {**run(shot(0, 0.5, 0.01), shot(300, 0.1, 0.2)), "findings": ["rdm harms the fit: …"]}
    first, *others = summary({"comparison": None, "runs": [one]})
    assert first == "rdm harms the fit: …"
    assert not any("pairs" in sentence for sentence in others)
    several = summary({"comparison": None, "runs": [one, run(title="ERM")]})
    assert several[0] == "“it”: rdm harms the fit: …"


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


def test_methods_name_the_difference_with_the_highest_lower_end():
    rows = [("EQRM", 20.0, -1.0, 41.0, 3), ("RDM", 19.5, 9.5, 29.5, 3), ("MMD", 0.5, 0.25, 0.75, 3)]
    names = ("method", "mean", "low", "high", "pairs")
    differences = [dict(zip(names, row, strict=True), against="ERM") for row in rows]
    assert best_difference({"differences": differences}) == (
        "On the test domains RDM is 19.5 points above ERM; the 95 % interval, 9.5 to 29.5 over "
        "3 pairs, excludes zero."
    )
    alone = [{**differences[0], "mean": -2.0, "low": None, "high": None, "pairs": 1}]
    assert best_difference({"differences": alone}) == (
        "On the test domains EQRM is 2.0 points below ERM; no confidence interval from 1 pair."
    )


def test_without_predictions_the_common_worst_domain_is_named():
    data = page_data(runs=3)
    for one, worst in zip(data["runs"], ("art", "photo", "photo"), strict=True):
        one["snapshots"], one["curves"]["worst"] = [], ["cartoon", worst]
    assert summary(data)[1] == (
        "The training domain “photo” is the worst at the end of 2 of 3 runs."
    )


def test_too_few_evaluations():
    assert "too few evaluations" in summary(bare())[0]
