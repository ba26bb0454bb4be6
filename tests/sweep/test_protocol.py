from collections import defaultdict

import pytest

from riskmatch.defaults import recipe, space_of
from riskmatch.sweep.protocol import Protocol, held_out

PACS = ("art_painting", "cartoon", "photo", "sketch")
TESTS = tuple((name,) for name in PACS)


def hyper_parameters(config, data="pacs"):
    """What a search may change, by name."""
    values = {**config.to_json(), **config.hparams}
    return {name: values[name] for name in space_of(config.method, data)}


def test_the_usual_sweep_has_twenty_draws_and_three_trials_of_each_domain():
    runs = Protocol("pacs", ("rdm", "coral"), TESTS).runs()
    assert len(runs) == 20 * 3 * 4 * 2
    config = runs[0].config
    assert (config.steps, config.eval_every) == (5000, 300)
    assert Protocol("domainnet", ("erm",), (("real",),)).runs()[0].config.eval_every == 1000


def test_the_first_draw_is_the_defaults_and_the_others_lie_in_their_ranges():
    usual = recipe("rdm", "pacs")
    for run in Protocol("pacs", ("rdm",), TESTS).runs():
        found = hyper_parameters(run.config)
        if run.draw == 0:
            assert found == {name: usual[name] for name in found}
        else:
            assert all(
                found[name] in entry.range for name, entry in space_of("rdm", "pacs").items()
            )


def drawn(fixed):
    """The hyper-parameters of each draw and trial."""
    found = defaultdict(set)
    for run in Protocol("pacs", ("vrex",), TESTS, fixed_draws=fixed).runs():
        values = hyper_parameters(run.config)
        found[run.draw, run.config.trial].add(tuple(sorted(values.items())))
    assert all(len(values) == 1 for values in found.values())  # the same for all test domains
    return {place: values.pop() for place, values in found.items()}


def test_trials_draw_anew_but_for_the_defaults():
    found = drawn(fixed=False)
    assert len({found[0, trial] for trial in range(3)}) == 1
    assert len(set(found.values())) == 1 + 19 * 3


def test_replicates_have_the_same_draws_in_every_trial():
    found = drawn(fixed=True)
    assert len(set(found.values())) == 20
    assert found[7, 0] == found[7, 2] == drawn(fixed=False)[7, 0]


def test_more_draws_and_trials_add_runs_and_change_none():
    few = {run.config.id for run in Protocol("pacs", ("erm",), TESTS, 3, 1).runs()}
    many = {run.config.id for run in Protocol("pacs", ("erm", "rdm"), TESTS, 4, 2).runs()}
    assert few < many


def test_a_trial_has_its_own_splits_and_weights_which_methods_share():
    runs = Protocol("pacs", ("erm", "rdm"), TESTS[:1], draws=1).runs()
    assert [(run.config.trial, run.config.seed) for run in runs] == [
        (trial, trial) for trial in (0, 1, 2) for _ in range(2)
    ]


def test_whoever_stops_early_has_all_methods_and_trials_of_the_first_draws():
    places = [run.draw for run in Protocol("pacs", ("erm", "rdm"), TESTS, 3).runs()]
    assert places == sorted(places)


def test_what_is_chosen_is_not_drawn_and_goes_to_the_methods_that_have_it():
    choices = {"weight": 2.0, "lr": 1e-4, "model_options": {"frozen": True}}
    for run in Protocol("pacs", ("erm", "rdm"), TESTS[:1], 3, 1, choices=choices).runs():
        assert run.config.lr == 1e-4
        assert run.config.model_options == {"frozen": True}
        assert run.config.hparams.get("weight") == (2.0 if run.config.method == "rdm" else None)


def test_equal_runs_are_one():
    fixed = {name: recipe("erm", "pacs")[name] for name in space_of("erm", "pacs")}
    assert len(Protocol("pacs", ("erm",), TESTS, 5, 1, choices=fixed).runs()) == 4


def test_pairs_are_each_two_domains_once():
    tests = held_out(PACS, pairs=True)
    assert len(tests) == len(set(map(frozenset, tests))) == 4 + 6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": ("rmd",)}, "Unknown method 'rmd'. Did you mean 'rdm'?"),
        ({"draws": 0}, "one of its draws or more, not 0"),
        ({"choices": {"wieght": 1}}, "Unknown option of rdm 'wieght'. Did you mean 'weight'?"),
        ({"choices": {"trial": 1}}, "Unknown option of rdm 'trial'"),
    ],
)
def test_mistakes_are_named(changes, message):
    with pytest.raises(ValueError, match=r"Unknown|one of") as error:
        Protocol(**{"data": "pacs", "methods": ("rdm",), "tests": TESTS, **changes})
    assert message in str(error.value)


def test_a_warm_up_that_never_ends_is_refused():
    with pytest.raises(ValueError, match="rdm would never leave its warm-up of 1500 steps within"):
        Protocol("pacs", ("rdm",), TESTS, choices={"steps": 500}).runs()
