"""Numbers of the figures, against plain loops."""

from dataclasses import replace
from statistics import fmean, pstdev

import made_records
import numpy as np
import pytest
from stored_runs import STEPS, TRAINING, risks_at, stored_run

from riskmatch.report.density import DensityEstimate
from riskmatch.report.figures.risks import NoPredictions, cdf, densities, density_plot
from riskmatch.report.figures.training import (
    ablation,
    curves,
    gap,
    matching,
    matching_losses,
    terms,
    worst_domains,
)
from riskmatch.report.style import DOMAIN_COLOURS
from riskmatch.runs.frame import frame_of

GAMMAS = [10.0**power for power in range(-4, 4)]


def mean_kernel(a, b):
    """Mean over all pairs of the kernel of the released code."""
    return np.mean([[sum(np.exp(-g * (s - t) ** 2) for g in GAMMAS) for t in b] for s in a])


def mmd2_to_pool(x, samples):
    """Squared MMD between a sample and the mixture of samples with equal weights."""
    to_pool = np.mean([mean_kernel(x, y) for y in samples])
    within_pool = np.mean([[mean_kernel(y, z) for y in samples] for z in samples])
    return mean_kernel(x, x) - 2 * to_pool + within_pool


def test_matching_losses_follow_their_definitions():
    rng = np.random.default_rng(0)
    samples = [rng.exponential(scale, size) for scale, size in ((1, 5), (2, 8), (0.3, 6))]
    distances = [mmd2_to_pool(values, samples) for values in samples]
    farthest = max(range(3), key=lambda k: samples[k].mean())
    assert matching_losses(samples) == pytest.approx(
        (np.mean(distances), distances[farthest]), rel=1e-6
    )


def test_gap_uses_training_samples_of_training_domains(tmp_path):
    lines = gap({"RDM": stored_run(tmp_path)}, start=20).panels["RDM"]
    risks = [[risks_at(step, d, "train").astype(float) for d in TRAINING] for step in (20, 30)]
    truth = list(map(matching_losses, risks))
    assert [list(line.x) for line in lines] == [[20, 30]] * 2
    assert lines[1].y == pytest.approx([variance for variance, _ in truth])
    assert lines[0].y == pytest.approx([worst for _, worst in truth])


@pytest.mark.parametrize("figure", [curves, terms, gap, matching])
def test_curves_mark_the_step_at_which_the_method_acts(tmp_path, figure):
    runs = {"RDM": stored_run(tmp_path), "ERM": stored_run(tmp_path, "erm")}
    assert figure(runs).marks == {"RDM": 10.0}
    assert "starts to act" in figure(runs).note
    assert "starts to act" not in figure({"ERM": runs["ERM"]}).note


def test_matching_shows_both_splits(tmp_path):
    train, val = matching({"RDM": stored_run(tmp_path)}).panels["RDM"]
    for line, split in ((train, "train"), (val, "val")):
        assert list(line.x) == list(STEPS)
        last = matching_losses([risks_at(30, d, split).astype(float) for d in TRAINING])[1]
        assert line.y[-1] == pytest.approx(last)


def test_risks_are_from_validation_at_the_last_step(tmp_path):
    panel = densities({"RDM": stored_run(tmp_path)}).panels["RDM"]
    assert list(panel) == ["art", "photo", "sketch (test)"]
    for label, estimate in panel.items():
        truth = risks_at(30, label.removesuffix(" (test)"), "val")
        assert estimate.mean == pytest.approx(truth.mean())


def test_risks_over_many_decades_use_a_log_axis():
    values = 10 ** np.random.default_rng(0).uniform(-4, 1, 4000)
    plot = density_plot({"RDM": {"a": values, "b": values[:50]}}, "title", "note", "ab")
    assert plot.log
    estimate = plot.panels["RDM"]["a"]
    widths = np.diff(np.log10(estimate.edges))
    assert np.dot(estimate.heights, widths) == pytest.approx(1, abs=1e-3)
    assert estimate.density[100] == pytest.approx(1 / 5, rel=0.1)  # uniform over five decades
    assert plot.draw().axes[0].get_xscale() == "log"
    assert not density_plot({"RDM": {"a": values + 5}}, "title", "note", "a").log


def test_density_per_decade_with_zero_risks():
    estimate = DensityEstimate.per_decade(np.array([0.0, 0.0, 0.5]), [0.1, 1.0])
    assert estimate.heights == (1.0,)
    assert np.isfinite(estimate.density).all()


def test_cdf_counts_the_samples_below(tmp_path):
    art = cdf({"RDM": stored_run(tmp_path)}).panels["RDM"][0]
    truth = np.sort(risks_at(30, "art", "val"))
    x, y = np.array(art.x), np.array(art.y)
    assert (np.diff(x) >= 0).all()
    for risk in truth[[3, 17, 31]] + 1e-4:
        assert y[x <= risk][-1] == pytest.approx((truth <= risk).mean(), abs=0.005)


def test_accuracy_uses_validation_except_on_test_domains(tmp_path):
    art, _, sketch = curves({"RDM": stored_run(tmp_path)}).panels["RDM"]
    for line, domain, split in ((art, "art", "val"), (sketch, "sketch", "train")):
        truth = [100 * (risks_at(step, domain, split) <= 1).mean() for step in STEPS]
        assert list(line.y) == pytest.approx(truth)


def test_terms_are_nan_before_they_are_switched_on(tmp_path):
    lines = {line.label: line for line in terms({"RDM": stored_run(tmp_path)}).panels["RDM"]}
    assert list(lines) == ["loss", "risk", "matching", "matching, unweighted"]
    assert np.isnan(lines["matching"].y[0])
    assert lines["matching, unweighted"].y[1:] == pytest.approx([0.001, 0.02 / 30])


def test_worst_domain_spans_until_the_next_evaluation(tmp_path):
    spans = worst_domains({"RDM": stored_run(tmp_path, worst=("photo", "art"))}).panels["RDM"]
    assert spans == {"art": [(10, 30)], "photo": [(0, 10)]}


def varied(name, values):
    """RDM runs on the domains a and b with two trials per value, and their accuracies."""
    rng, runs, truth = np.random.default_rng(0), [], {}
    for value in values:
        for trial in (0, 1):
            for test in "ab":
                train, val = rng.uniform(50, 90, 2)
                scores = {d: (train if d == test else 70, val) for d in "ab"}
                record = made_records.run(
                    test, made_records.evaluation(10, **scores), method="rdm", trial=trial
                )
                config = record.config
                changed = (
                    replace(config, hparams={"weight": value})
                    if name == "weight"
                    else replace(config, batch_size=value)
                )
                runs.append(replace(record, config=changed))
                truth.setdefault(value, {}).setdefault(trial, []).append(train)
    return runs, truth


@pytest.mark.parametrize(
    ("name", "values"), [("weight", (0.1, 5.0, 2.5)), ("batch_size", (10, 70))]
)
def test_ablation_averages_domains_and_trials(name, values):
    runs, truth = varied(name, values)
    (line,) = ablation(frame_of(runs)).panels["toy"]
    assert list(line.x) == sorted(values)
    for x, y, error in zip(line.x, line.y, line.sd, strict=True):
        trials = [fmean(values) for values in truth[x].values()]
        assert (y, error) == pytest.approx((fmean(trials), pstdev(trials) / 2**0.5))


def test_ablation_of_one_trial_has_no_error_bars():
    runs, _ = varied("weight", (0.1, 5.0))
    first = [run for run in runs if run.config.trial == 0]
    for given, error in ((runs, True), (first, False), ([*first, runs[2]], False)):
        plot = ablation(frame_of(given))
        assert (plot.panels["toy"][0].sd is not None) is error
        assert ("± standard error over trials" in plot.note) is error


def test_ablation_ignores_steps_of_the_warmup():
    runs = []
    for weight in (1.0, 2.0):
        early, late = (
            made_records.evaluation(step, a=(60 + step, 90 - step), b=(70, 90 - step))
            for step in (10, 20)
        )
        record = made_records.run("a", early, late, method="rdm")
        config = replace(record.config, hparams={"weight": weight, "warmup": 10})
        runs.append(replace(record, config=config))
    (line,) = ablation(frame_of(runs)).panels["toy"]
    assert list(line.y) == [80, 80]


def test_ablation_refuses_runs_that_differ_in_more(tmp_path):
    runs, _ = varied("weight", (0.1, 5.0))
    runs[0] = replace(runs[0], config=replace(runs[0].config, lr=0.5, batch_size=8))
    with pytest.raises(ValueError, match="differ in batch_size, lr besides weight"):
        ablation(frame_of(runs))


def test_ablation_says_how_the_step_is_chosen():
    runs, _ = varied("weight", (0.1, 5.0))
    assert "Step: the one with the best mean validation accuracy" in ablation(frame_of(runs)).note


def test_a_domain_has_one_colour_in_all_runs_and_figures(tmp_path):
    first = stored_run(tmp_path / "one")
    other = stored_run(tmp_path / "two", tests=("art",), worst=("photo", "sketch"))
    runs = {"one": first, "two": other}
    colours = {}
    for plot in (curves(runs), cdf(runs)):
        for panel in plot.panels.values():
            for curve in panel:
                name = curve.label.removesuffix(" (test)")
                colours.setdefault(name, set()).add(curve.style.color)
    for label, style in {**densities(runs).styles, **worst_domains(runs).styles}.items():
        colours[label.removesuffix(" (test)")].add(style.color)
    assert list(colours) == ["art", "photo", "sketch"]
    assert list(colours.values()) == [{colour} for colour in DOMAIN_COLOURS[:3]]


def test_ablation_needs_runs_of_one_method_that_differ():
    (runs, _), (others, _) = varied("weight", (0.1,)), varied("weight", (5.0,))
    unrelated = [
        replace(one, config=replace(one.config, method="coral", batch_size=8)) for one in others
    ]
    for given in (runs, [*runs, *unrelated]):
        with pytest.raises(ValueError, match=r"same weight and batch_size.*one method"):
            ablation(frame_of(given))
    (line,) = ablation(frame_of([*runs, *others, *unrelated])).panels["toy"]
    assert list(line.x) == [0.1, 5.0]


def test_missing_predictions_name_the_cure(tmp_path):
    run = stored_run(tmp_path, kept=False)
    for make in (gap, matching):
        with pytest.raises(NoPredictions, match=r"holds no predictions.*riskmatch train"):
            make({"RDM": run})
    for make in (densities, cdf):
        with pytest.raises(NoPredictions, match=r"neither predictions nor a checkpoint.*again"):
            make({"RDM": run})
    assert curves({"RDM": run}).panels
