import numpy as np
import pytest

from riskmatch.report.density import DensityEstimate, kde
from riskmatch.report.figures import Curve, Densities, Lines
from riskmatch.report.style import BLUE, DASHED, ORANGE, LineStyle


def half_normal(n, seed=0):
    return np.abs(np.random.default_rng(seed).normal(size=n))


def test_kde_of_a_half_normal_is_correct_near_zero():
    grid = np.array([0.0, 0.5, 1.0, 2.0])
    truth = np.sqrt(2 / np.pi) * np.exp(-(grid**2) / 2)
    assert kde(half_normal(200_000), grid) == pytest.approx(truth, abs=0.02)


def test_kde_integrates_to_one():
    grid = np.linspace(0, 8, 4001)
    assert kde(half_normal(500), grid).mean() * 8 == pytest.approx(1, abs=1e-3)


def test_kde_of_constant_values_is_finite():
    assert np.isfinite(kde(np.ones(5), np.array([0.0, 1.0]))).all()


def test_density_estimate_has_mean_and_heights():
    estimate = DensityEstimate.of(np.array([0.1, 0.4, 0.9]), [0, 0.5, 1])
    assert estimate.mean == pytest.approx(1.4 / 3)
    assert estimate.heights == pytest.approx((4 / 3, 2 / 3), rel=1e-5)


def test_curves_share_axes_and_legend(tmp_path):
    x = (0.0, 0.5, 1.0)
    line = Curve("A", x, (1, 2, 3), LineStyle(BLUE), sd=(0.1, 0.2, 0.3))
    other = Curve("B", x, (3, 2, 9), LineStyle(ORANGE, DASHED))
    panels = {"one": [line, other], "two": [line]}
    figure = Lines("all", "p", "", panels, "%", marks={"one": 0.9}).draw(columns=2)
    figure.savefig(tmp_path / "curves.png")
    one, two = figure.axes
    assert one.get_ylim() == two.get_ylim()
    vertical = [
        [line for line in axes.lines if set(line.get_xdata()) == {0.9}] for axes in (one, two)
    ]
    assert list(map(len, vertical)) == [1, 0]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["A", "B"]
    assert [axes.get_title() for axes in figure.axes] == ["one", "two"]


def test_densities_share_axes_and_mark_the_means(tmp_path):
    values = np.random.default_rng(0).exponential(size=300)
    low, high = (DensityEstimate.of(k * values, [0, 1, 2, 3]) for k in (1, 2))
    panels = {"ERM": {"a": low, "b": high}, "RDM": {"a": low, "b": low}}
    styles = {"a": LineStyle(BLUE), "b": LineStyle(ORANGE)}
    figure = Densities("all", "risk", "", panels, styles).draw()
    figure.savefig(tmp_path / "distributions.png")
    erm, rdm = figure.axes
    assert (erm.get_xlim(), erm.get_ylim()) == (rdm.get_xlim(), rdm.get_ylim())
    ticks = [line.get_xdata()[0] for line in erm.lines if len(line.get_xdata()) == 2]
    assert ticks == pytest.approx([low.mean, high.mean])
