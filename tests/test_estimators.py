"""The estimators follow scikit-learn's conventions and train with RDM."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from riskmatch import RiskMatchingClassifier, RiskMatchingRegressor

FAST = {"max_iter": 60, "warmup": 20, "hidden_layer_sizes": (16,), "lr": 0.01, "random_state": 0}
SITES = np.repeat(["north", "south", "west"], [30, 40, 50])


@pytest.fixture(scope="module")
def samples():
    """Two classes; a shortcut column agrees with them at two sites and not at the third."""
    generator = np.random.default_rng(0)
    y = generator.integers(2, size=120)
    noise = generator.random((2, 120)) < np.stack(
        [np.full(120, 0.25), 0.1 + 0.8 * (SITES == "west")]
    )
    return np.stack([y ^ noise[0], y ^ noise[1]], 1) + 0.1 * generator.normal(size=(120, 2)), y


@pytest.mark.filterwarnings("ignore:.*matches nothing and is ERM")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        make(max_iter=80, hidden_layer_sizes=(32,), lr=0.003, early_stopping=early)
        for make, early in ((RiskMatchingClassifier, False), (RiskMatchingRegressor, True))
    ]
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_without_domains_it_is_erm_and_says_so(samples):
    X, y = samples
    with pytest.warns(UserWarning, match=r"ERM.*one domain.*domains="):
        matched = RiskMatchingClassifier(weight=5.0, **FAST).fit(X, y)
    erm = RiskMatchingClassifier(weight=0.0, **FAST).fit(X, y)
    assert np.array_equal(matched.predict_proba(X), erm.predict_proba(X))


def test_a_warmup_of_all_steps_is_named(samples):
    with pytest.warns(UserWarning, match="warmup=60.*max_iter=60"):
        RiskMatchingClassifier(**{**FAST, "warmup": 60}).fit(*samples, domains=SITES)


def spread(estimator, X, y):
    """Difference of the largest and the smallest mean risk of the domains."""
    losses = -np.log(estimator.predict_proba(X)[np.arange(len(y)), y])
    return np.ptp([losses[site == SITES].mean() for site in np.unique(SITES)])


@pytest.mark.parametrize("match", ["worst", "variance"])
def test_the_penalty_brings_the_risks_of_the_domains_together(samples, match):
    options = {**FAST, "max_iter": 200, "divergence": "moments", "match": match}
    erm, matched = (
        RiskMatchingClassifier(weight=weight, **options).fit(*samples, domains=SITES)
        for weight in (0.0, 20.0)
    )
    assert spread(matched, *samples) < 0.5 * spread(erm, *samples)


def test_the_order_of_domains_and_their_other_name_change_nothing(samples):
    X, y = samples
    codes = np.unique(SITES, return_inverse=True)[1]
    by_name = RiskMatchingRegressor(**FAST).fit(X, y, domains=codes)
    other = RiskMatchingRegressor(**FAST).fit(X, y, sample_domain=list(codes))
    assert np.array_equal(by_name.predict(X), other.predict(X))
    assert by_name.domains_.tolist() == [0, 1, 2]


def test_negative_sample_domains_are_targets_and_left_out(samples):
    X, y = samples
    source = SITES != "west"
    labels = np.where(source, np.where(SITES == "north", 1, 2), -3)
    masked = np.where(source, y.astype(float), np.nan)  # as skada masks the labels of a target
    given = RiskMatchingRegressor(**FAST).fit(X, masked, sample_domain=labels)
    expected = RiskMatchingRegressor(**FAST).fit(X[source], y[source], domains=labels[source])
    assert np.array_equal(given.predict(X), expected.predict(X))


@pytest.mark.parametrize("dtype", ["Int64", object, float])
def test_negative_sample_domains_of_any_type_are_targets(samples, dtype):
    X, y = samples
    labels = pd.Series(np.repeat([1, 2, -3], [30, 40, 50])).astype(dtype)
    fitted = RiskMatchingClassifier(**FAST).fit(X, y, sample_domain=labels)
    assert fitted.domains_.tolist() == [1, 2]


def test_a_seed_fixes_the_result_and_leaves_the_stream_of_torch_alone(samples):
    X, y = samples
    state = torch.get_rng_state()
    first, second = (RiskMatchingClassifier(**FAST).fit(X, y, domains=SITES) for _ in range(2))
    other = clone(first).set_params(random_state=1).fit(X, y, domains=SITES)
    loaded = pickle.loads(pickle.dumps(first))
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(first.predict_proba(X), second.predict_proba(X))
    assert np.array_equal(first.predict_proba(X), loaded.predict_proba(X))
    assert not np.array_equal(first.predict_proba(X), other.predict_proba(X))


def test_the_network_takes_inputs_and_gives_targets_in_their_units(samples):
    X, y = samples
    units = RiskMatchingRegressor(**FAST).fit(X, y, domains=SITES)
    others = RiskMatchingRegressor(**FAST).fit(X * [10, 1e-3] - 7, 100 * y + 40, domains=SITES)
    with torch.no_grad():
        predicted = others.network_(torch.tensor(X * [10, 1e-3] - 7))[1][:, 0].numpy()
    assert predicted == pytest.approx(100 * units.predict(X) + 40, abs=1e-2)


def test_class_weights_move_predictions_to_the_rare_class():
    generator = np.random.default_rng(0)
    y = np.repeat(["common", "rare"], [110, 10])
    X, sites = generator.normal(size=(120, 1)) + (y == "rare")[:, None], np.arange(120) % 2
    plain, balanced, given = (
        np.mean(
            RiskMatchingClassifier(class_weight=weight, **FAST)
            .fit(X, y, domains=sites)
            .predict_proba(X)[:, 1]
        )
        for weight in (None, "balanced", {"common": 1.2, "rare": 13.2})
    )
    assert plain < 0.15 < 0.3 < balanced
    assert given == pytest.approx(balanced)  # the same ratio, whatever their scale


def test_early_stopping_returns_to_the_weights_of_the_lowest_validation_risk():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(60, 8)), generator.integers(2, size=60)  # nothing to learn
    options = {**FAST, "warmup": 0, "max_iter": 400, "validation_fraction": 0.5}
    sites = np.arange(60) % 2
    stopped = RiskMatchingClassifier(early_stopping=True, n_iter_no_change=30, **options)
    stopped.fit(X, y, domains=sites)
    overfitted = RiskMatchingClassifier(**options).fit(X, y, domains=sites)
    assert stopped.n_iter_ < 400 == overfitted.n_iter_
    assert stopped.score(X, y) < overfitted.score(X, y) == 1
    # Evaluations are 10 steps apart, so training to the chosen step gives the same weights.
    chosen = stopped.n_iter_ - 30
    options["max_iter"] = chosen
    again = RiskMatchingClassifier(early_stopping=True, **options).fit(X, y, domains=sites)
    assert np.array_equal(again.predict_proba(X), stopped.predict_proba(X))


@pytest.mark.parametrize("routing", [True, False])
def test_domains_reach_the_estimator_in_a_pipeline_under_a_grid_search(samples, routing):
    X, y = samples
    with sklearn.config_context(enable_metadata_routing=routing):
        estimator = RiskMatchingClassifier(**FAST)
        params = {"riskmatchingclassifier__domains": SITES}
        if routing:
            estimator.set_fit_request(domains=True)
            params = {"domains": SITES}
        pipeline = make_pipeline(MinMaxScaler(), estimator)
        grid = {"riskmatchingclassifier__weight": [0.0, np.float64(2.0)]}
        search = GridSearchCV(pipeline, grid, cv=LeaveOneGroupOut())
        search.fit(X, y, groups=SITES, **params)
        assert search.best_estimator_[-1].domains_.tolist() == ["north", "south", "west"]


def test_cross_validation_leaves_one_domain_out(samples):
    X, y = samples
    with sklearn.config_context(enable_metadata_routing=True):
        scores = cross_validate(
            RiskMatchingRegressor(**FAST).set_fit_request(sample_domain=True),
            X,
            y,
            cv=LeaveOneGroupOut(),
            params={"sample_domain": SITES, "groups": SITES},
            return_estimator=True,
        )
    trained = [estimator.domains_.tolist() for estimator in scores["estimator"]]
    assert trained == [["south", "west"], ["north", "west"], ["north", "south"]]


@pytest.mark.parametrize(
    ("options", "fit", "facts"),
    [
        ({"weight": -1.0}, {}, "weight == -1.0"),
        ({"lr": 0.0}, {}, "lr == 0.0"),
        ({"match": "wrost"}, {}, "'worst'"),
        ({"divergence": "mdd"}, {}, "'mmd'"),
        ({"class_weight": {0: 1.0, 1: -1.0}}, {}, "class_weight must be .*at least 0.*-1.0"),
        ({"class_weight": {0: 1.0, 1: math.nan}}, {}, "class_weight must be .*nan"),
        ({"class_weight": {0: math.inf, 1: 1.0}}, {}, "class_weight must be finite.*inf"),
        ({"class_weight": {0: 0.0, 1: 0.0}}, {}, "class_weight must be .*positive for some"),
        ({"hidden_layer_sizes": ()}, {}, r"hidden_layer_sizes.*\(\)"),
        ({"device": "tpu7"}, {}, "tpu7.*cpu"),
        ({}, {"domains": SITES[1:]}, "119"),
        ({}, {"domains": [None, *SITES[1:]]}, "domains has 1 missing"),
        ({}, {"sample_domain": SITES}, "domains or sample_domain"),
        ({}, {"domains": None, "sample_domain": -np.ones(120, int)}, "no source domain"),
        ({"early_stopping": True}, {"domains": ["a", *SITES[1:]]}, "'a' has 1 sample"),
    ],
)
def test_wrong_values_are_named(samples, options, fit, facts):
    with pytest.raises(ValueError, match=facts):
        RiskMatchingClassifier(**{**FAST, **options}).fit(*samples, **{"domains": SITES, **fit})


def test_labels_of_several_columns_are_tags():
    generator = np.random.default_rng(0)
    X, site = generator.normal(size=(200, 3)), np.repeat([0, 1], 100)
    y = (X[:, :2] + 0.3 * generator.normal(size=(200, 2)) > 0).astype(int)
    classifier = RiskMatchingClassifier(**{**FAST, "max_iter": 200}).fit(X, y, domains=site)
    p = classifier.predict_proba(X)
    outputs = classifier.network_(torch.tensor(X))[1]
    np.testing.assert_allclose(p, torch.sigmoid(outputs).detach())
    np.testing.assert_array_equal(classifier.predict(X), p > 0.5)
    assert ((classifier.predict(X) == y).mean(0) > 0.85).all()
    with pytest.raises(ValueError, match=r"class_weight.*tags"):
        RiskMatchingClassifier(**FAST, class_weight="balanced").fit(X, y, domains=site)


def test_early_stopping_holds_out_whole_groups():
    random = np.random.default_rng(0)
    patient = np.arange(240) // 4
    X = random.normal(size=(60, 20))[patient] + 0.01 * random.normal(size=(240, 20))
    y, site = random.integers(2, size=60)[patient], np.array(["north", "south"])[patient % 2]
    options = {**FAST, "max_iter": 300, "hidden_layer_sizes": (64,), "early_stopping": True}
    classifier = RiskMatchingClassifier(**options, n_iter_no_change=50)
    by_visit = classifier.fit(X, y, site).n_iter_
    groups = (patient, [f"p{k}" for k in patient], patient.astype(float))
    by_patient, *_ = (classifier.fit(X, y, site, sample_group=group).n_iter_ for group in groups)
    assert by_patient < 150 < by_visit  # the risk of visits of known patients falls on
    assert classifier.fit(X, y, site, sample_group=groups[2]).n_iter_ == by_patient
    for given, facts in (
        (np.zeros(240, int), ("'north'", "1 group", "validation_fraction")),
        ([None, *patient[1:]], ("sample_group", "row 1")),
    ):
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            classifier.fit(X, y, site, sample_group=given)
        for fact in facts:
            assert fact in str(caught.value)
