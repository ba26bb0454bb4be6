"""The page in a browser: no requests, all charts, working controls."""

from dataclasses import replace

import pytest
from made_page import HOSTILE, bare, page_data, without_predictions

from riskmatch.report.render import render
from riskmatch.report.tables import Table


@pytest.fixture(scope="module")
def one_run():
    return render(page_data())


@pytest.fixture(scope="module")
def comparison():
    return render(page_data(runs=3))


def series(page, chart):
    """Domains drawn in a chart of the visible run."""
    marks = page.locator(f"article:visible [data-chart={chart}] [data-series]")
    return set(marks.evaluate_all("nodes => nodes.map(node => node.dataset.series)"))


DRAWN = ("histogram", "cdf", "metric", "risk", "confusion", "calibration")
SCROLLS = "document.documentElement.scrollWidth > innerWidth"


def test_every_section_has_content(visit, comparison):
    page = visit(comparison)
    sections = page.locator("section:visible")
    assert sections.count() == 4 + 11
    for text in sections.all_inner_texts():
        assert len(text) > 90
    for box in page.locator("[data-chart]:visible").all():
        assert box.locator("svg.chart, table").count(), box.get_attribute("data-chart")
    drawn = page.locator("svg.chart:visible")
    assert all(drawn.evaluate_all("nodes => nodes.map(n => n.querySelector('title').textContent)"))
    assert page.locator("img:visible").evaluate_all("all => all.every(i => i.naturalWidth > 0)")


def test_unchecked_domain_disappears_from_all_charts(visit, one_run):
    page = visit(one_run)
    for chart in DRAWN:
        assert series(page, chart) == {"art", "cartoon", "photo", "sketch"}
    page.get_by_role("checkbox", name="photo").uncheck()
    for chart in DRAWN:
        assert series(page, chart) == {"art", "cartoon", "sketch"}
    assert page.locator("[data-chart=mmd] tbody tr").count() == 3
    assert "photo" not in series(page, "worst")
    assert page.get_by_role("heading", name="photo").count() == 0  # in the hardest samples
    page.get_by_role("button", name="none").click()
    assert page.locator("[data-chart=histogram]").inner_text() == "No domain is selected."
    page.get_by_role("button", name="all").click()
    assert series(page, "histogram") == {"art", "cartoon", "photo", "sketch"}


def test_slider_changes_the_step(visit, one_run):
    page = visit(one_run)
    slider = page.get_by_role("slider")
    seen = set()
    for keys, step in (((), 300), (("ArrowLeft",), 240), (("Home",), 0)):
        for key in keys:
            slider.press(key)
        assert page.locator("output").inner_text() == f"step {step}"
        assert slider.get_attribute("aria-valuetext") == f"step {step}"
        assert page.locator("[data-chart=mmd] caption").inner_text().endswith(f"step {step}")
        seen.add(page.locator("[data-chart=histogram] .line[data-series=art]").get_attribute("d"))
    assert len(seen) == 3


def test_table_sorts_by_number_with_missing_values_last(visit):
    values = [9.5, 100.0, None, 23.25, -4.0]
    rows = [[f"method {place}", value, None] for place, value in enumerate(values)]
    headline = Table("c", ("method", "accuracy", "none"), tuple(map(tuple, rows)))
    page = visit(render(page_data(headline=headline)))
    head = page.locator("#headline th", has_text="accuracy")
    for direction, ordered in (
        ("ascending", ["−4.0", "9.5", "23.2", "100.0", "—"]),
        ("descending", ["100.0", "23.2", "9.5", "−4.0", "—"]),
    ):
        head.get_by_role("button").press("Enter")
        assert head.get_attribute("aria-sort") == direction
        assert page.locator("#headline tbody td:nth-child(2)").all_inner_texts() == ordered


def test_select_another_run(visit, comparison):
    page = visit(comparison)
    assert page.get_by_label("Run").locator("option").all_inner_texts()[0] == "ERM without sketch"
    assert page.locator("article:visible h2").all_inner_texts() == ["ERM on PACS without sketch"]
    page.get_by_label("Run").select_option(label="RDM without sketch")
    assert page.locator("article:visible h2").all_inner_texts() == ["RDM on PACS without sketch"]
    assert series(page, "histogram") == {"art", "cartoon", "photo", "sketch"}
    link = page.get_by_role("link", name="Calibration")
    assert page.locator(link.get_attribute("href")).is_visible()


def test_theme_follows_the_system_until_toggled(visit, one_run):
    ground = "getComputedStyle(document.body).backgroundColor"
    page = visit(one_run, color_scheme="dark")
    dark, button = page.evaluate(ground), page.get_by_role("button", name="Dark")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    light = page.evaluate(ground)
    assert button.get_attribute("aria-pressed") == "false"
    assert sum(map(int, light[4:-1].split(","))) > 600 > 150 > sum(map(int, dark[4:-1].split(",")))


def test_hostile_names_are_text_and_fit(visit):
    page = visit(render(page_data(training=HOSTILE[:4], test=HOSTILE[4:], classes=HOSTILE)))
    for name in HOSTILE:
        assert page.locator("article .about:visible bdi").get_by_text(name, exact=True).count()
    assert series(page, "metric") == set(HOSTILE)
    for summary in page.locator(".numbers summary:visible").all():
        summary.click()
    assert page.locator(".numbers table:visible").count() >= 4
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 900})
        assert not page.evaluate(SCROLLS)


@pytest.mark.parametrize(
    "make",
    [
        bare,
        lambda: page_data(training=("only",), test=(), classes=("no", "yes")),
        lambda: page_data(training=tuple(f"domain {k}" for k in range(30)), classes=("a", "b")),
    ],
    ids=["nothing", "one domain", "thirty domains"],
)
def test_narrow_screen_with_little_and_much_data(visit, make):
    page = visit(render(make()), 360)
    assert not page.evaluate(SCROLLS)


def test_page_without_script_and_in_print(visit, comparison):
    page = visit(comparison, java_script_enabled=False, color_scheme="dark")
    assert page.locator("article").count() == 3 == page.locator("article:visible").count()
    assert not page.get_by_role("slider").is_visible()
    printed = visit(comparison, color_scheme="dark")
    printed.emulate_media(media="print", color_scheme="dark")
    assert not printed.locator("header").is_visible()
    ink = printed.evaluate("getComputedStyle(document.body).color")
    assert sum(map(int, ink[4:-1].split(","))) < 150


TEN = tuple(f"class number {k}" for k in range(10))
SIZES = [(width, scheme) for width in (1400, 420) for scheme in ("light", "dark")]


PREDICTED = ("Risk distributions", "Matching loss", "Confusion", "Calibration", "Hardest samples")


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_run_without_predictions_has_one_note_and_no_empty_sections(visit, width, scheme):
    data = page_data(runs=2)
    without_predictions(data["runs"][0])
    page = visit(render(data), width, color_scheme=scheme)

    def in_menu(title):
        return page.get_by_role("link", name=title, exact=True).is_visible()

    (note,) = page.locator("article:visible .absent").all_inner_texts()
    assert "train again" in note
    assert not any(map(in_menu, PREDICTED))
    assert all(map(in_menu, ("Learning curves", "Configuration")))
    assert all(title in note for title in PREDICTED)
    assert not page.locator("article:visible h3", has_text="Confusion").count()
    page.get_by_label("Run").select_option("1")
    assert all(map(in_menu, PREDICTED))
    assert page.locator("article:visible .absent").count() == 0
    assert series(page, "histogram") == {"art", "cartoon", "photo", "sketch"}
    page.get_by_label("Run").select_option("0")
    assert not any(map(in_menu, PREDICTED))
    assert not page.evaluate(SCROLLS)


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_nothing_is_clipped_without_a_hint(visit, width, scheme):
    data = page_data(runs=2, classes=TEN)
    name = "RDM (every domain, L) on sites without a and b, weight decay 0.1"
    first, *others = data["headline"].rows
    data["headline"] = replace(data["headline"], rows=((name, *first[1:]), *others))
    page = visit(render(data), width, color_scheme=scheme)
    page.locator(".card summary", has_text="Recall").first.click()
    page.wait_for_function("document.querySelector('.card .scroll[data-tall]')")
    boxes = page.locator(".scroll:visible").evaluate_all(
        """nodes => nodes.map(node => ({
            wide: node.scrollWidth > node.clientWidth + 1,
            tall: node.scrollHeight > node.clientHeight + 1,
            hint: getComputedStyle(node, "::before").content,
            confusion: Boolean(node.querySelector(".confusion")),
        }))"""
    )
    assert any(box["confusion"] for box in boxes)
    assert all(("columns" in box["hint"]) == box["wide"] for box in boxes)
    assert all(("rows" in box["hint"]) == box["tall"] for box in boxes)
    labels = page.locator(".confusion:visible bdi")
    assert labels.evaluate_all("all => all.every(n => n.scrollHeight <= n.clientHeight + 1)")
    assert any(box["wide"] for box in boxes) == (width < 500)
    heads = page.locator("#headline .sort").evaluate_all("all => all.map(b => b.offsetHeight)")
    assert len(set(heads)) == 1  # "test-val" stays on one line
    names = page.locator("#headline tbody th bdi")
    assert names.evaluate_all("all => all.every(n => n.scrollHeight <= n.clientHeight + 1)")
    assert not page.evaluate(SCROLLS)


def test_test_domain_has_the_number_of_the_headline(visit):
    data = page_data(classes=TEN)
    (run,) = data["runs"]
    curve = run["curves"]["metric"]["sketch"]
    curve["train"][-3], curve["val"][-3] = 125 / 126, 1.0
    page = visit(render(data))
    chart = page.locator("[data-chart=metric]")
    assert "80 % part 99.2" in chart.locator(".legend li", has_text="sketch").inner_text()
    titles = chart.locator(".mark title").evaluate_all("all => all.map(t => t.textContent)")
    assert any(title.startswith("sketch, step 270: 99.2") for title in titles)
    assert not any(title.startswith("sketch, step 270: 100") for title in titles)
    row = page.locator("#run-0-curves tbody tr", has_text="sketch")
    assert "99.2 (125 of 126)" in row.inner_text()
    assert chart.locator(".chosen title").text_content() == "chosen step 270"
    for section in ("confusion", "calibration", "hardest"):
        assert "50 of 60 samples right, 83.3 %" in page.locator(f"#run-0-{section}").inner_text()


def test_charts_round_like_tables(visit):
    data = page_data()
    (run,) = data["runs"]
    shares = {"art": 260 / 320, "cartoon": 0.8054601, "photo": 0.80546, "sketch": 0.8175}
    for name, share in shares.items():
        for part in ("train", "val"):
            run["curves"]["metric"][name][part][-3] = share
    run["sizes"] = {}
    page = visit(render(data))
    rows = page.locator("#run-0-curves .sortable tbody tr").all_inner_texts()
    legend = page.locator("[data-chart=metric] .legend li").all_inner_texts()
    printed = ["81.2", "80.5", "80.5", "81.8"]
    assert [row.split()[2] for row in rows] == printed
    assert [item.split()[-1] for item in legend] == printed
    page.locator("[data-chart=metric] summary").click()
    values = page.locator("[data-chart=metric] .numbers tbody tr", has_text="270").inner_text()
    assert values.split() == ["270", *printed]


def test_curves_mark_the_step_from_which_the_method_acts(visit, one_run):
    page = visit(one_run)
    for section, charts in (
        ("curves", ("metric", "risk")),
        ("terms", ["terms"]),
        ("matching",) * 2,
    ):
        assert (
            "step 105, from which the method acts" in page.locator(f"#run-0-{section}").inner_text()
        )
        for chart in [charts] if isinstance(charts, str) else charts:
            titles = page.locator(f"[data-chart={chart}] .start title")
            assert set(titles.all_text_contents()) == {"step 105: the method starts to act"}
    assert "has not acted on the chosen model" not in page.locator("#run-0-curves").inner_text()
    data = page_data()
    data["runs"][0]["curves"]["start"] = data["runs"][0]["chosen_step"]
    assert "has not acted on the chosen model" in render(data)


def test_a_start_before_the_first_evaluation_is_told_but_not_drawn(visit):
    data = page_data()
    curves = data["runs"][0]["curves"]
    curves["steps"] = [step + 400 for step in curves["steps"]]
    page = visit(render(data))
    text = page.locator("#run-0-curves").inner_text()
    assert "acts from step 105, before the first evaluation" in text
    assert "solid vertical line" not in text
    assert page.locator("[data-chart=metric] .start").count() == 0


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_long_names_of_methods_and_settings_are_whole(visit, width, scheme):
    data = page_data(runs=3)
    for row, against in zip(data["differences"], ("ERM, mlp", "ERM, cnn"), strict=True):
        row |= {"method": "RDM (two moments), mlp", "against": against}
    data["runs"][0]["config"]["test_domains"] = [f"test {k / 10}" for k in range(11)]
    page = visit(render(data), width, color_scheme=scheme)
    names = page.locator("[data-chart=differences] text.name").evaluate_all(
        "all => all.map(node => [node.firstChild.data, node.getBBox().x])"
    )
    assert len(names) == 2
    assert all(left >= 0 for _, left in names)
    if width > 500:
        assert {name for name, _ in names} == {"RDM (two moments), mlp"}
    values = page.locator("#run-0-configuration td bdi")
    assert values.evaluate_all("all => all.every(n => n.scrollHeight <= n.clientHeight + 1)")


def test_the_list_of_domains_shows_all_of_thirteen(visit):
    names = tuple(f"site {k}" for k in range(13))
    page = visit(render(page_data(training=names[:3], test=names[3:])), 1400)
    boxes = page.locator("#domains .boxes")
    assert boxes.evaluate("node => node.scrollHeight <= node.clientHeight + 1")


def test_classes_have_recall_and_precision_with_counts(visit, one_run):
    page = visit(one_run)
    card = page.locator(".card", has_text="sketch")
    card.get_by_text("Recall and precision").click()
    cells = card.locator(".numbers tbody tr").first.inner_text()
    matrix = page_data()["runs"][0]["confusion"]["sketch"]
    right, shown = matrix[0][0], sum(row[0] for row in matrix)
    assert f"({right} of 60)" in cells
    assert f"({right} of {shown})" in cells


def test_slider_is_named_only_where_there_is_one(visit):
    data = page_data()
    data["runs"][0]["snapshots"] = data["runs"][0]["snapshots"][-1:]
    page = visit(render(data))
    assert page.get_by_role("slider").count() == 0
    assert "slider" not in page.locator("#run-0-mmd").inner_text()
    assert "at step 300" in page.locator("#run-0-mmd").inner_text()


def test_verdict_hyperparameters_and_matching_are_drawn(visit, comparison):
    page = visit(comparison)
    assert page.locator(".summary p").first.inner_text() == "Better than ERM: no method."
    assert "Rule: intervals." in page.locator(".summary").inner_text()
    assert page.locator(".summary .caution").inner_text() == "b and c have 6 images in common."
    methods = page.locator("#hyperparameters .method")
    assert methods.count() == 2
    assert methods.first.locator("svg.chart").count() == 2
    assert methods.first.locator("svg.chart").first.locator(".mark").count() == 5
    methods.nth(1).locator("summary").click()
    methods.nth(1).locator("svg.chart").nth(1).wait_for()
    assert methods.nth(1).locator("svg.chart").count() == 2
    assert page.locator("article:visible [data-chart=matching] [data-line]").count() == 2


def test_right_but_unsure_samples_are_said_to_be_right(visit):
    data = page_data()
    data["runs"][0]["hardest"]["sketch"][0] |= {"label": "dog", "predicted": "dog"}
    text = visit(render(data)).locator("#run-0-hardest").inner_text()
    assert "dog, right but unsure" in text
    assert "dog, predicted dog" not in text


def test_colours_are_those_of_the_place_in_the_data_set(visit):
    data = page_data(runs=2)
    for run, test in zip(data["runs"], ("art", "sketch"), strict=True):
        others = [name for name in run["domains"] if name != test]
        run["training_domains"], run["test_domains"] = others, [test]
    page = visit(render(data))
    seen = []
    for number in (0, 1):
        page.get_by_label("Run").select_option(str(number))
        seen.append(
            page.locator("article:visible [data-chart=metric] path[data-series]").evaluate_all(
                "all => all.map(p => [p.dataset.series, p.classList[1], "
                "getComputedStyle(p).stroke])"
            )
        )
    first, second = ({name: rest for name, *rest in one} for one in seen)
    assert first == second
    assert [first[name][0] for name in data["runs"][0]["domains"]] == [f"hue-{k}" for k in range(4)]
    assert first["art"][1] == "rgb(0, 114, 178)"  # the blue of figures
