import math

import pytest
from runs_on_file import run_on_file

from riskmatch.report.figures import Curve, Lines, read_plot, save
from riskmatch.report.figures.kinds import KINDS
from riskmatch.report.style import BLUE, DASHED, Look


@pytest.mark.parametrize("name", [name for name in KINDS if name != "ablation"])
def test_the_json_of_a_figure_gives_the_same_figure(tmp_path, name):
    text = KINDS[name].make({"RDM": run_on_file(tmp_path)}).json()
    again = read_plot(text)
    assert again.json() == text
    for file in ("one", "two"):
        save(read_plot(text).draw(), tmp_path / f"{file}.png")
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_what_is_not_a_number_stays_so():
    curve = Curve("a", (1, 2), (math.nan, 0.5), Look(BLUE, DASHED), sd=None)
    plot = Lines("all", "x", "", {"": [curve]}, "y")
    (again,) = read_plot(plot.json()).panels[""]
    assert math.isnan(again.y[0])
    assert (again.y[1], again.sd, again.look) == (0.5, None, curve.look)


def test_one_panel_is_a_column_and_two_are_a_page():
    line = [Curve("a", (1, 2), (1, 2), Look(BLUE))]
    for panels, inches in (({"": line}, 3.3), ({"a": line, "b": line}, 6.9)):
        assert Lines("all", "x", "", panels, "y").draw().get_figwidth() == inches


@pytest.mark.parametrize("text", ["[]", "{", "{}", '{"kind": "lines", "panels": {}}'])
def test_another_json_is_refused(text):
    with pytest.raises(ValueError, match="not the JSON of a figure"):
        read_plot(text)
    with pytest.raises(ValueError, match="but of 'pie'"):
        read_plot('{"kind": "pie", "panels": {}}')
