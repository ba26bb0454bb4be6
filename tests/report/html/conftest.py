"""Chromium for the tests of HTML reports."""

import shutil

import pytest

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def chromium():
    """Headless Chromium, shared by all tests of a process."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("needs Chromium: apt install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs pip install playwright")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium, tmp_path):
    """Function that opens a page; fails on console messages, errors, dialogs and requests."""
    reports, contexts = [], []

    def visit(html, width=1280, **options):
        file = tmp_path / "report.html"
        file.write_text(html, encoding="utf-8")
        context = chromium.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: reports.append(message.text))
        page.on("pageerror", lambda error: reports.append(str(error)))
        page.on("dialog", lambda dialog: (reports.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: check_request(request.url, file.as_uri()))
        page.goto(file.as_uri())
        return page

    def check_request(url, itself):
        if url != itself and not url.startswith("data:"):
            reports.append(f"request for {url}")

    yield visit
    for context in contexts:
        context.close()
    assert reports == []
