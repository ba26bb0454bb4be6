import math

import pytest
from stored_runs import stored_run

from riskmatch.report.figures import FIGURES, Curve, Lines, draw_figure, read_plot, save
from riskmatch.report.style import BLUE, DASHED, LineStyle


@pytest.mark.parametrize("name", [name for name in FIGURES if name != "ablation"])
def test_json_restores_the_figure(tmp_path, name):
    text = FIGURES[name].per_run({"RDM": stored_run(tmp_path)}).json()
    again = read_plot(text)
    assert again.json() == text
    for file in ("one", "two"):
        save(read_plot(text).draw(), tmp_path / f"{file}.png")
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_json_keeps_nan():
    curve = Curve("a", (1, 2), (math.nan, 0.5), LineStyle(BLUE, DASHED), sd=None)
    plot = Lines("all", "x", "", {"": [curve]}, "y")
    (again,) = read_plot(plot.json()).panels[""]
    assert math.isnan(again.y[0])
    assert (again.y[1], again.sd, again.style) == (0.5, None, curve.style)


def test_a_run_and_a_path_of_numbers_are_drawn(tmp_path):
    stored, numbers = stored_run(tmp_path), tmp_path / "curves.json"
    assert draw_figure("curves", stored, numbers).axes
    assert draw_figure(numbers).axes
    with pytest.raises(ValueError, match=r"Unknown width 'wide'.*'column', 'page'"):
        draw_figure(numbers, width="wide")


def test_default_width_depends_on_the_number_of_panels():
    line = [Curve("a", (1, 2), (1, 2), LineStyle(BLUE))]
    for panels, inches in (({"": line}, 3.3), ({"a": line, "b": line}, 6.9)):
        assert Lines("all", "x", "", panels, "y").draw().get_figwidth() == inches


@pytest.mark.parametrize("text", ["[]", "{", "{}", '{"kind": "lines", "panels": {}}'])
def test_other_json_is_rejected(text):
    with pytest.raises(ValueError, match="not the JSON of a figure"):
        read_plot(text)
    with pytest.raises(ValueError, match="unknown kind 'pie'"):
        read_plot('{"kind": "pie", "panels": {}}')
