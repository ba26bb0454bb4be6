"""Layout and files of all figures."""

from itertools import combinations

import pytest
from matplotlib.text import Text
from stored_runs import HOSTILE, stored_run

from riskmatch.report.figures import FIGURES, Curve, Lines, save
from riskmatch.report.style import BLUE, INCHES, SERIES, LineStyle, domain_style, line_styles

NAMES = [name for name in FIGURES if name != "ablation"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    return {
        "RDM on PACS without sketch": stored_run(out),
        "ERM on PACS without sketch": stored_run(out, "erm"),
    }


def boxes(figure):
    """Bounding boxes of all texts after layout."""
    figure.draw_without_rendering()
    parts = [text for text in figure.texts if text.get_text()] + figure.legends
    for axes in figure.axes:
        if axes.get_visible():
            parts += [axes.title, axes.xaxis.label, axes.yaxis.label]
    parts = [p for p in parts if not isinstance(p, Text) or p.get_text()]
    return {str(part): part.get_window_extent() for part in parts}


@pytest.mark.parametrize("width", ["column", "page"])
@pytest.mark.parametrize("name", NAMES)
def test_texts_are_readable_and_do_not_overlap(runs, name, width):
    figure = FIGURES[name].per_run(runs).draw(width)
    texts = boxes(figure)
    assert figure.get_figwidth() == INCHES[width]
    for text in figure.findobj(Text):
        assert not text.get_text() or text.get_fontsize() >= 7
    for (one, here), (other, there) in combinations(texts.items(), 2):
        assert not here.overlaps(there), (one, other)
    for name, box in texts.items():
        assert box.x0 >= -1, name
        assert box.x1 <= figure.bbox.x1 + 1, name


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_equal_figures_give_equal_bytes_without_a_date(runs, tmp_path, suffix):
    for name in ("one", "two"):
        save(FIGURES["curves"].per_run(runs).draw(), tmp_path / f"{name}.{suffix}")
    data = (tmp_path / f"one.{suffix}").read_bytes()
    assert data == (tmp_path / f"two.{suffix}").read_bytes()
    assert b"CreationDate" not in data
    assert b"<dc:date>" not in data


def test_svg_keeps_text_and_pdf_embeds_fonts(runs, tmp_path):
    figure = FIGURES["curves"].per_run(runs).draw()
    save(figure, tmp_path / "a.svg")
    save(figure, tmp_path / "a.pdf")
    assert ">sketch (test)</text>" in (tmp_path / "a.svg").read_text("utf-8")
    assert b"/FontFile2" in (tmp_path / "a.pdf").read_bytes()


def test_hostile_names_are_escaped(tmp_path):
    run = stored_run(tmp_path, domains=HOSTILE, tests=HOSTILE[:1], worst=HOSTILE[1:3])
    for name in NAMES:
        if name not in ("gap", "matching"):
            save(FIGURES[name].per_run({HOSTILE[3]: run}).draw("column"), tmp_path / f"{name}.svg")
    text = (tmp_path / "curves.svg").read_text("utf-8")
    for escaped in (
        "$x^{$ (test)",
        " _hidden",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "line break",
    ):
        assert f">{escaped}</text>" in text
    assert "<script>" not in text
    assert "ü" * 20 in text
    assert "ü" * 100 not in text


def test_user_settings_of_matplotlib_are_ignored(runs):
    import matplotlib

    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black"}):
        figure = FIGURES["curves"].per_run(runs).draw()
    assert figure.axes[0].xaxis.label.get_fontsize() < 9
    assert figure.axes[0].get_facecolor() == (1, 1, 1, 1)


@pytest.mark.parametrize(("top", "label"), [(0.04, "0.02"), (100.0, "1")])
def test_log_axis_has_at_least_two_plain_numbers(top, label):
    plot = Lines(
        "all", "x", "", {"": [Curve("a", (1, 2), (0.015, top), LineStyle(BLUE))]}, "y", log=True
    )
    axes = plot.draw().axes[0]
    axes.figure.draw_without_rendering()
    low, high = axes.get_ylim()
    labels = axes.yaxis.get_ticklabels() + axes.yaxis.get_ticklabels(minor=True)
    inside = [t.get_text() for t in labels if t.get_text() and low <= float(t.get_text()) <= high]
    assert label in inside
    assert len(inside) >= 2


def test_panels_are_arranged_in_equal_rows():
    line = [Curve("a", (1, 2), (1, 2), LineStyle(BLUE))]
    for number, columns in ((1, 1), (3, 3), (4, 2), (5, 3), (6, 3)):
        plot = Lines("all", "x", "", {str(k): line for k in range(number)}, "y")
        assert plot.draw("page").axes[0].get_gridspec().ncols == columns


def test_line_styles_differ():
    assert len({style.color for style in line_styles("abcd").values()}) == 4
    assert len({style.color for style in SERIES}) == len(SERIES)


def test_domains_keep_their_colours_and_test_domains_stand_out():
    pacs = ("art", "cartoon", "photo", "sketch")
    for name in pacs:
        plain, tested = domain_style(name, pacs), domain_style(name, pacs, test=True)
        assert (plain.color, plain.dashes) == (tested.color, tested.dashes)
        assert tested.width > plain.width
    assert len({domain_style(name, pacs).color for name in pacs}) == 4
