"""Make the pictures of the site again: those of the gallery and the screenshot of a report.

Run: python docs/pictures.py [NAME …]   (make pictures); a name is that of an example, or report.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "assets" / "gallery"
SWEEP = ROOT / "results" / "pacs" / "frozen"
"""Runs of the report on the screenshot."""


def gallery() -> list[Path]:
    """Scripts under examples/ that draw a picture."""
    scripts = sorted((ROOT / "examples").glob("*.py"))
    return [path for path in scripts if "[PNG]" in path.read_text("utf-8")]


def screenshot(path: Path) -> None:
    """Write the first screen of the report of a sweep; needs Chromium."""
    from playwright.sync_api import sync_playwright

    from riskmatch.report import write_report

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page = write_report(SWEEP, Path(folder) / "report.html")
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        view = browser.new_page(viewport={"width": 1280, "height": 1000}, color_scheme="light")
        view.goto(Path(page).as_uri())
        view.wait_for_load_state("networkidle")
        view.screenshot(path=path)
        browser.close()


def main(names: list[str]) -> None:
    """Make the pictures with these names, or all."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for script in gallery():
        if not names or script.stem in names:
            print(script.name, flush=True)
            command = [sys.executable, str(script), str(PICTURES / f"{script.stem}.png")]
            subprocess.run(command, check=True)
    if not names or "report" in names:
        print("report", flush=True)
        screenshot(PICTURES.parent / "report.png")


if __name__ == "__main__":
    main(sys.argv[1:])
