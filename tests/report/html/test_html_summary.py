"""The two sentences at the top, against numbers counted by hand."""

import pytest
from made_page import bare, page_data

from riskmatch.report.html.summary import closest, difference, matching, summary


def shot(step, value, p):
    """Three domains, of which "t" is tested on; a and b are ``value`` apart."""
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


def test_of_a_run_it_names_the_worst_domain_and_how_the_domains_moved():
    data = {"comparison": None, "runs": [run(shot(0, 0.5, 0.01), shot(300, 0.125, 0.2))]}
    assert summary(data) == [
        "The worst training domain at the end is “b”; it was worst in 2 of 3 evaluations.",
        "The risks of the training domains moved closer together: their mean MMD² fell from 0.5 at "
        "step 0 to 0.125 at step 300; 0 of 1 pairs can still be told apart (p < 0.05).",
    ]


@pytest.mark.parametrize(
    ("shots", "told"),
    [
        ([shot(0, 0.1, 0.5), shot(9, 0.2, 0.01)], "moved further apart: their mean MMD² rose"),
        ([shot(0, 0.1, 0.5), shot(9, 0.10001, 0.01)], "stayed at 0.1; 1 of 1 pairs"),
        ([shot(9, 0.2, None)], "The mean MMD² between training domains is 0.2."),
        ([], ""),
    ],
)
def test_how_the_domains_moved(shots, told):
    assert told in matching(run(*shots))
    assert bool(matching(run(*shots))) == bool(told)


def test_of_several_runs_it_names_the_closest():
    runs = [run(shot(9, value, 0.5), title=f"λ {value}") for value in (0.5, 0.25, 1.0)]
    assert closest(runs) == (
        "At the last step the risks of the training domains are closest in “λ 0.25” (mean MMD² "
        "0.25) and furthest apart in “λ 1.0” (1)."
    )


def test_of_methods_it_names_the_surest_gain():
    rows = [("EQRM", 20.0, -1.0, 41.0, 3), ("RDM", 19.5, 9.5, 29.5, 3), ("MMD", 0.5, 0.25, 0.75, 3)]
    names = ("method", "mean", "low", "high", "pairs")
    differences = [dict(zip(names, row, strict=True), against="ERM") for row in rows]
    assert difference({"differences": differences}) == (
        "On the test domains RDM is 19.5 points above ERM; the 95 % interval, 9.5 to 29.5 over "
        "3 pairs, excludes zero."
    )
    alone = [{**differences[0], "mean": -2.0, "low": None, "high": None, "pairs": 1}]
    assert difference({"differences": alone}) == (
        "On the test domains EQRM is 2 points below ERM; with 1 pair there is no interval."
    )


def test_without_risks_it_falls_back_on_the_worst_domain():
    data = page_data(runs=3)
    for one, worst in zip(data["runs"], ("art", "photo", "photo"), strict=True):
        one["snapshots"], one["curves"]["worst"] = [], ["cartoon", worst]
    assert summary(data)[1] == (
        "The training domain that most runs leave worst is “photo”: 2 of 3 do."
    )


def test_of_nothing_it_says_so():
    assert summary(bare()) == ["There is too little in these records to say how matching went."]
