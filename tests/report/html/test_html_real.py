"""Reports of runs on real data, in the browser."""

import os
import shlex
import tarfile
from pathlib import Path

import pytest

from riskmatch.cli import main

pytestmark = pytest.mark.needs_data


def real_data(name):
    file = Path(os.environ.get("RISKMATCH_DATA", "")) / name
    if "RISKMATCH_DATA" not in os.environ or not file.exists():
        pytest.skip(f"needs {name} in the folder that RISKMATCH_DATA names")
    return file


def command(line):
    assert main([*shlex.split(line), "--quiet"]) == 0


def check_all_sections(page):
    assert page.locator(".absent").all_inner_texts() == []
    for text in page.locator("section:visible").all_inner_texts():
        assert len(text) > 50
    for box in page.locator("[data-chart]:visible").all():
        assert box.locator("svg.chart, table").count(), box.get_attribute("data-chart")


def test_report_of_a_run_on_pacs(visit, tmp_path, monkeypatch):
    pytest.importorskip("efficientnet_lite_pytorch", reason="needs the extra riskmatch[images]")
    archive, taken = real_data("PACS.tar"), {}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    with tarfile.open(archive) as tar:
        for member in tar:
            parts = Path(member.name).parts
            place = parts[-3:-1]
            if member.isfile() and parts[-2] in ("dog", "guitar") and taken.get(place, 0) < 5:
                taken[place] = taken.get(place, 0) + 1
                target = tmp_path.joinpath("some", *parts[-3:])
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(tar.extractfile(member).read())
    command(
        "train some --method rdm --test-domain sketch --frozen --steps 6 --eval-every 2 --warmup 2"
    )
    command("report runs -o pacs.html")
    page = visit(Path("pacs.html").read_text("utf-8"))
    check_all_sections(page)
    pictures = page.locator("#run-0-hardest img")
    assert pictures.count() >= 4
    assert pictures.evaluate_all("all => all.every(image => image.naturalWidth > 0)")
    page.get_by_role("checkbox", name="cartoon").uncheck()
    assert page.locator("[data-chart=histogram] [data-series]").count() == 3
    page.get_by_role("slider").press("Home")
    assert page.locator("output").inner_text() == "step 2"


def test_report_of_a_comparison_on_colored_mnist(visit, tmp_path, monkeypatch):
    real_data("mnist")
    monkeypatch.chdir(tmp_path)
    size = "--test-domain 0.9 --steps 4 --eval-every 2 --batch-size 64 --model-option widths=[8]"
    for method in ("erm", "rdm --warmup 1"):
        for seed in (0, 1):
            command(f"train colored-mnist --method {method} {size} --seed {seed}")
    command("report runs -o comparison.html")
    page = visit(Path("comparison.html").read_text("utf-8"), 360)
    check_all_sections(page)
    assert page.locator("[data-chart=differences] .interval").count() == 1
    assert page.get_by_label("Run").locator("option").count() == 4
    head = page.locator("#headline th", has_text="test-val").first
    head.get_by_role("button").click()
    column = head.evaluate("head => head.cellIndex + 1")
    cells = page.locator(f"#headline tbody tr > :nth-child({column})").all_inner_texts()
    assert [float(cell) for cell in cells] == sorted(float(cell) for cell in cells)
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
