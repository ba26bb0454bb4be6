"""The site builds without warnings, and works in a browser without a network."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")
pytest.importorskip("material")
pytest.importorskip("mkdocstrings")
pytest.importorskip("latex2mathml")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_reference_is_generated(site):
    commands = (site / "command-line.html").read_text("utf-8")
    assert "--leave-two-out" in commands
    assert 'id="riskmatch-sweep-plan"' in commands
    interface = (site / "api.html").read_text("utf-8")
    assert 'id="riskmatch.RiskMatching"' in interface
    assert "<math" in interface
    assert ":func:" not in interface
    assert "$$" not in interface
    gallery = (site / "gallery.html").read_text("utf-8")
    assert 'src="assets/gallery/own_loop.png"' in gallery
    assert 'href="examples/own_loop.html"' in gallery
    assert "../assets/gallery/own_loop.png" in (site / "examples/own_loop.html").read_text("utf-8")
    assert "RiskMatchingNet" in (site / "examples" / "skorch_net.html").read_text("utf-8")


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (420, "light"), (420, "dark")])
def test_pages_open_from_the_disk_and_fit_the_window(site, width, scheme):
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("needs Chromium: apt install chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    faults = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: faults.append(request.url) if is_remote(request) else 0)
        for path in sorted(set(site.rglob("*.html")) - {site / "404.html"}):  # for servers alone
            page.goto(path.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path.name
        page.goto((site / "index.html").as_uri())
        page.keyboard.press("f")
        page.keyboard.type("warm-up")
        page.locator(".md-search-result__link").first.wait_for()
        assert "warm-up" in page.locator(".md-search-result").inner_text()
        browser.close()
    assert faults == []


def is_remote(request):
    return not request.url.startswith(("file:", "data:", "about:"))
