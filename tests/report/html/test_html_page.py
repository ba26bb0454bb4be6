"""The page as text: what it says without its script, and that names cannot break it."""

import base64
import hashlib
import json
import re
import sys
from html.parser import HTMLParser

import pytest
from made_page import HOSTILE, bare, page_data

from riskmatch.report.html import page
from riskmatch.report.html.document import LIMIT, PARTS


class Reader(HTMLParser):
    """The elements of a page, and its text outside of styles and scripts."""

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


def test_the_page_says_the_essential_without_its_script():
    text = Reader(page(page_data(runs=3))).text
    for told in ("ERM and RDM on PACS", "71.2", "9.5 ± 0.4", "hparams.weight", "Two runs have no"):
        assert told in text
    assert text.count("riskmatch train pacs --method rdm") == 1
    assert all(text.count(title) == 3 + 1 for title in PARTS.values())  # and in the contents


def test_nothing_is_asked_of_the_network_by_any_element():
    for tag, attributes in Reader(page(page_data(runs=2))).elements:
        for name in ("src", "href", "action", "srcset", "data", "poster"):
            assert attributes.get(name, "#").startswith(("#", "data:")), (tag, attributes)


def test_the_policy_names_the_style_and_the_script_that_are_there():
    html = page(page_data())
    policy = re.search('Content-Security-Policy" content="([^"]+)"', html)[1].replace("&#39;", "'")
    assert policy.startswith("default-src 'none'")
    for tag in ("style", "script"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_hostile_names_are_text_and_survive_in_the_data():
    html = page(page_data(runs=2, training=HOSTILE[:4], test=HOSTILE[4:], classes=HOSTILE))
    reader = Reader(html)
    assert [tag for tag, _ in reader.elements].count("script") == 2
    assert not any(
        name.startswith("on") for _, attributes in reader.elements for name in attributes
    )
    assert all(name in reader.text for name in HOSTILE)
    assert embedded(html)["domains"] == list(HOSTILE)


def test_a_file_name_that_is_no_text_does_not_stop_the_page():
    data = page_data()
    data["runs"][0]["hardest"]["art"][0]["name"] = "caf\udce9.jpg"
    assert "caf?.jpg" in page(data)


def test_the_data_are_what_was_given_with_four_digits():
    data = page_data()
    run, shown = data["runs"][0], embedded(page(data))["runs"][0]
    assert shown["curves"]["steps"] == run["curves"]["steps"]
    for name, told in run["snapshots"][-1]["domains"].items():
        small = shown["snapshots"][-1]["domains"][name]
        assert small["density"] == pytest.approx(told["density"], rel=1e-3)
        assert shown["grids"][small["x"]] == pytest.approx(told["x"], rel=1e-3)
        assert shown["grids"][small["edges"]] == pytest.approx(told["edges"], rel=1e-3)
    assert len(shown["grids"]) == 2  # what all share is there once


def test_what_is_absent_says_why():
    text = " ".join(Reader(page(bare())).text.split())
    for told in (
        "No risks of single samples were kept",
        "This run was not evaluated",
        "Which class was taken for which is not known",
        "How confident the model was is not known",
        "Which samples are hardest is not known",
        "holds no configuration",
        "No command is known",
        "RuntimeError: out of memory",
        "too little in these records",
    ):
        assert told in text


def test_a_page_that_grows_too_large_shows_fewer_steps_and_examples():
    data = page_data()
    whole = page(data)
    assert len(whole.encode()) < LIMIT
    assert "Fewer steps" not in whole
    limit = len(whole.encode()) * 9 // 10
    small = page(data, limit=limit)
    assert len(small.encode()) <= limit
    assert "Fewer steps and examples are shown" in small
    steps = [shot["step"] for shot in embedded(small)["runs"][0]["snapshots"]]
    assert 1 < len(steps) < 6
    assert (steps[0], steps[-1]) == (0, 300)


def test_with_many_classes_the_most_confused_pairs_take_the_place_of_matrices():
    classes = tuple(f"class {number}" for number in range(31))
    data = page_data(training=("art",), classes=classes)
    shown = embedded(page(data))["runs"][0]["confusion"]["art"]
    matrix = data["runs"][0]["confusion"]["art"]
    wrong = sorted((n for i, row in enumerate(matrix) for j, n in enumerate(row) if i != j))
    assert [count for _, _, count, _ in shown["pairs"]] == wrong[: -20 - 1 : -1]
    assert all(matrix[i][j] == n and sum(matrix[i]) == of for i, j, n, of in shown["pairs"])


def test_numbers_that_are_not_finite_are_gaps():
    data = page_data()
    data["runs"][0]["curves"]["loss"][3] = float("nan")
    data["headline"]["rows"][0][1] = float("inf")
    assert embedded(page(data))["runs"][0]["curves"]["loss"][3] is None


def test_without_jinja_the_cure_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pip install 'riskmatch\[report\]'"):
        page(page_data())
