"""Captions: how a table was made, and what is missing from it."""

from dataclasses import replace

from made_records import evaluation, run
from made_sweep import (
    ERM,
    RDM,
    RUNS,
    cells,
    efficiency_table,
    left_out,
    overview_table,
    per_domain_table,
    runs_of,
    sweep,
    without,
)

from riskmatch.report.selected import Selected
from riskmatch.report.tables import Trials


def test_captions_say_rule_draws_and_trials():
    caption = per_domain_table(RUNS, "toy", "test-val").caption
    assert "Selection: test-val, highest validation accuracy on the test domain" in caption
    assert "Draws: 2. Trials: 2, each with hyper-parameters drawn anew." in caption
    assert "Network: mlp." in caption
    assert "Missing" not in caption


def test_captions_count_runs_with_a_worse_fit_and_those_that_gain_on_the_test_domain():
    first = evaluation(1, a=(50, 50), b=(90, 50), c=(90, 50))
    last = evaluation(2, a=(60, 50), b=(80, 50), c=(80, 50))
    runs = [run("a", first, last, method=method) for method in ("erm", "coral")]
    runs.append(run("a", first, evaluation(2, b=(80, 50), c=(80, 50), a=(50, 50)), method="mmd"))
    caption = per_domain_table(runs, "toy").caption
    assert "gives up a shortcut: CORAL 1 of 1; MMD 1 of 1." in caption
    assert "with a higher accuracy on the test domain: CORAL 1 of 1." in caption


def test_penalty_without_a_gradient_is_marked_and_explained():
    made = [(method, domain) for method in ("erm", "coral", "vrex") for domain in "abc"]
    one = evaluation(1, a=(50, 50), b=(50, 50), c=(50, 50))
    runs = [run(domain, one, method=method) for method, domain in made]
    runs = [replace(r, no_gradient=r.config.method == "coral") for r in runs]
    table = per_domain_table(runs, "toy")
    assert [row[0] for row in table.rows] == ["ERM", "VREx", "CORAL †"]
    assert "† the penalty changes no weight of the network" in table.caption
    assert "CORAL † 3 of 3" in table.caption
    plain = per_domain_table([replace(r, no_gradient=False) for r in runs], "toy")
    assert "†" not in plain.markdown()


def test_captions_tell_replicates_from_trials_that_redraw():
    fixed = sweep("rdm", RDM, fixed=True)
    assert "Trials: 2, replicates with the same hyper-parameters." in (
        per_domain_table(fixed, "toy").caption
    )
    assert (
        "Trials: 2, each with hyper-parameters drawn anew (ERM); 2, replicates with the same "
        "hyper-parameters (RDM)"
    ) in per_domain_table(sweep("erm", ERM) + fixed, "toy").caption
    assert (
        "Draws: 2. Trials: 1."
        in per_domain_table([r for r in RUNS if r.config.trial == 0], "toy").caption
    )


def test_missing_runs_are_named_from_the_plan():
    plan = [r.config for r in RUNS]
    (gone, _) = runs_of("rdm", "b", 1)
    one = per_domain_table(without(gone), "toy", plan=plan)
    assert "Missing: RDM on b 1 of 4 runs (trial 1)." in one.caption
    half = per_domain_table(
        without(*runs_of("rdm", "b", 0), *runs_of("rdm", "b", 1)), "toy", plan=plan
    )
    assert "Missing: RDM on b 4 of 4 runs." in half.caption
    assert cells(half, "RDM")[1:3] == ["None", "None"]
    none = per_domain_table(sweep("erm", ERM), "toy", plan=plan)
    assert "Missing: RDM 8 of 8 runs." in none.caption
    assert cells(none, "RDM")[0] == "None"
    assert "Missing: ERM 8 of 8 runs; RDM 8 of 8 runs." in (
        per_domain_table([], "toy", plan=plan).caption
    )


def test_many_missing_runs_of_a_method_are_counted():
    plan = [r.config for r in RUNS]
    whole = [r for domain in "ab" for r in runs_of("rdm", domain, 0)]
    begun = without(*whole, *(runs_of("rdm", domain, 1)[0] for domain in "ab"))
    caption = per_domain_table(begun, "toy", plan=plan).caption
    assert "Missing: RDM 6 of 8 runs." in caption


def test_missing_runs_are_named_without_a_plan_too():
    table = per_domain_table(without(*runs_of("erm", "a", 0), runs_of("rdm", "b", 1)[0]), "toy")
    assert (
        "Missing: ERM on a 2 of 4 runs (trial 0); RDM on b 1 of 4 runs (trial 1)." in table.caption
    )


def test_a_domain_that_was_never_left_out_is_missing_and_there_is_no_average():
    table = per_domain_table(left_out("a", "b"), "toy")
    assert cells(table, "ERM") == ["60.0", "60.0", "None", "None"]
    assert "Missing: ERM on c 1 of 1 runs." in table.caption
    assert cells(overview_table(left_out("a", "b")), "ERM") == ["None", "None"]


def test_domains_that_no_run_trains_on_are_not_missed():
    assert per_domain_table(left_out("a"), "toy").columns == ("method", "a", "average")
    alone = [run(d, evaluation(1, **{d: (60, 50), "c": (1, 50)})) for d in "ab"]
    table = per_domain_table(alone, "toy")
    assert table.columns == ("method", "a", "b", "average")
    assert "Missing" not in table.caption


def test_runs_with_two_test_domains_alone_make_no_table():
    pairs = [run(pair, evaluation(1, **dict.fromkeys("abc", (60, 50)))) for pair in ("ab", "bc")]
    for table in (
        per_domain_table(pairs, "toy"),
        overview_table(pairs),
        efficiency_table(pairs, "toy"),
    ):
        assert "no run holds out exactly one domain" in table.caption
        assert {*cells(table, "ERM")} <= {"None"}


def test_leave_one_out_counts_the_draws_it_could_choose_and_names_missing_pairs():
    draws = [*left_out("a", "b", "c", draw=1), *left_out("a", "b", "c", draw=2)]
    pairs = [
        run(pair, evaluation(1, **dict.fromkeys("abc", (60, 50))), draw=1)
        for pair in ("ab", "ac", "bc")
    ]
    caption = per_domain_table(draws + pairs, "toy", "leave-one-out").caption
    assert "held out too, over draws and steps. Draws: 1. Trials: 1." in caption
    assert "Missing: ERM on a and b 1 of 2 runs; ERM on a and c 1" in caption


def test_methods_are_named_where_their_draws_or_trials_differ():
    runs = RUNS + sweep("vrex", {("a", 0): 60.0, ("b", 0): 61.0})
    assert (
        "Draws: 2. Trials: 2, each with hyper-parameters drawn anew (ERM, RDM); 1 (VREx)."
    ) in per_domain_table(runs, "toy").caption


def test_nothing_is_said_of_trials_that_may_or_may_not_be_replicates():
    begun = [
        r
        for r in sweep("rdm", RDM, fixed=True)
        if r.config.trial == 0 or r.config.hparams["draw"] == 1
    ]
    caption = per_domain_table(begun, "toy").caption
    assert "Draws: 1 to 2. Trials: 2." in caption


def test_methods_whose_runs_differ_in_more_than_their_draw_are_named():
    longer = [replace(r, config=replace(r.config, steps=9)) for r in runs_of("rdm", "a", 0)]
    other = [
        replace(r, config=replace(r.config, model_options={"n": 1})) for r in runs_of("erm", "a", 0)
    ]
    assert (
        "Chosen among runs that differ in more than their draw: steps (RDM); model options (ERM)."
    ) in per_domain_table(RUNS + longer + other, "toy").caption
    assert "differ in more" not in per_domain_table(RUNS, "toy").caption


def test_a_trial_without_every_domain_has_no_average():
    table = overview_table(without(*runs_of("erm", "a", 0)))
    assert cells(table, "ERM")[0] == str(Trials((67.25,)))


def test_unfinished_runs_are_named():
    unfinished = sweep("erm", ERM, status="unfinished")
    assert "Unfinished, counted with the steps they have: ERM 8 of 8." in (
        per_domain_table(unfinished, "toy").caption
    )


def test_leave_one_out_names_what_it_cannot_choose():
    caption = per_domain_table(RUNS, "toy", "leave-one-out").caption
    assert "No eligible run: ERM 4 of 4;" in caption


def test_the_number_of_passes_over_the_cases_does_not_grow_with_the_runs(monkeypatch):
    passes, part = [], Selected.part

    def counted(self, key, frame):
        passes.append(key)
        return part(self, key, frame)

    monkeypatch.setattr(Selected, "part", counted)

    def count(runs):
        passes.clear()
        per_domain_table(runs, "toy", "test-val")
        return len(passes)

    more = [
        replace(r, config=replace(r.config, hparams={"draw": draw}))
        for r in RUNS
        for draw in range(10, 14)
    ]
    assert count(RUNS) == count([*RUNS, *more])
