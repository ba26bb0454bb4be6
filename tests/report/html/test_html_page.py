"""HTML text of the page: content without script, escaping, size."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from made_page import HOSTILE, bare, page_data

from riskmatch.report.render import LIMIT, SECTIONS, render


class Reader(HTMLParser):
    """Elements of a page, and its text outside styles and scripts."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.text, self._inside = [], "", ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside not in ("style", "script"):
            self.text += data


def embedded(html):
    return json.loads(html.split('id="page-data">')[1].split("</script>")[0])


def test_text_and_tables_need_no_script():
    text = Reader(render(page_data(runs=3))).text
    for expected in (
        "ERM and RDM on PACS",
        "71.2",
        "9.5 ± 0.4",
        "hparams.weight",
        "Two runs have no",
    ):
        assert expected in text
    assert text.count("riskmatch train pacs --method rdm") == 1
    assert all(text.count(title) == 3 + 1 for title in SECTIONS.values())  # and in the navigation


def test_no_element_requests_anything():
    for tag, attributes in Reader(render(page_data(runs=2))).elements:
        for name in ("src", "href", "action", "srcset", "data", "poster"):
            assert attributes.get(name, "#").startswith(("#", "data:")), (tag, attributes)


def test_policy_allows_the_inlined_style_and_script():
    html = render(page_data())
    policy = re.search('Content-Security-Policy" content="([^"]+)"', html)[1].replace("&#39;", "'")
    assert policy.startswith("default-src 'none'")
    for tag in ("style", "script"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_hostile_names_are_escaped():
    html = render(page_data(runs=2, training=HOSTILE[:4], test=HOSTILE[4:], classes=HOSTILE))
    reader = Reader(html)
    assert [tag for tag, _ in reader.elements].count("script") == 2
    assert not any(
        name.startswith("on") for _, attributes in reader.elements for name in attributes
    )
    assert all(name in reader.text for name in HOSTILE)
    assert embedded(html)["domains"] == list(HOSTILE)


def test_undecodable_file_names_are_replaced():
    data = page_data()
    data["runs"][0]["hardest"]["art"][0]["name"] = "caf\udce9.jpg"
    assert "caf?.jpg" in render(data)


def test_chart_data_have_four_digits():
    data = page_data()
    run, charts = data["runs"][0], embedded(render(data))["runs"][0]
    assert charts["curves"]["steps"] == run["curves"]["steps"]
    for name, given in run["snapshots"][-1]["domains"].items():
        small = charts["snapshots"][-1]["domains"][name]
        assert small["density"] == pytest.approx(given["density"], rel=1e-3)
        assert charts["grids"][small["x"]] == pytest.approx(given["x"], rel=1e-3)
        assert charts["grids"][small["edges"]] == pytest.approx(given["edges"], rel=1e-3)
    assert len(charts["grids"]) == 2  # shared grids are stored once


def test_absent_sections_are_listed_with_the_reason():
    html = render(bare())
    text = " ".join(Reader(html).text.split())
    for expected in (
        "Not shown: Risk distributions, Distance between domains, Matching loss, Confusion, "
        "Calibration, Hardest samples (nothing stored. To get them, train again).",
        "Worst domain, Learning curves, Loss and penalty (the run has no evaluation yet).",
        "Configuration (the record holds no configuration).",
        "Reproduce (the run was imported",
        "RuntimeError: out of memory",
    ):
        assert expected in text
    assert "run-0-risks-title" not in html


def test_large_pages_show_fewer_steps_and_samples():
    data = page_data()
    whole = render(data)
    assert len(whole.encode()) < LIMIT
    assert "fewer steps" not in whole
    limit = len(whole.encode()) * 9 // 10
    small = render(data, limit=limit)
    assert len(small.encode()) <= limit
    assert "fewer steps and samples" in small
    steps = [shot["step"] for shot in embedded(small)["runs"][0]["snapshots"]]
    assert 1 < len(steps) < 6
    assert (steps[0], steps[-1]) == (0, 300)


def test_many_classes_show_the_most_confused_pairs():
    classes = tuple(f"class {number}" for number in range(31))
    data = page_data(training=("art",), classes=classes)
    charts = embedded(render(data))["runs"][0]["confusion"]["art"]
    matrix = data["runs"][0]["confusion"]["art"]
    wrong = sorted((n for i, row in enumerate(matrix) for j, n in enumerate(row) if i != j))
    assert [count for _, _, count, _ in charts["pairs"]] == wrong[: -20 - 1 : -1]
    assert all(matrix[i][j] == n and sum(matrix[i]) == of for i, j, n, of in charts["pairs"])


def test_non_finite_numbers_become_null():
    data = page_data()
    data["runs"][0]["curves"]["loss"][3] = float("nan")
    assert embedded(render(data))["runs"][0]["curves"]["loss"][3] is None
