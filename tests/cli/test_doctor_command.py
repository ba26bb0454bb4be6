import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL", reason="needs the extra riskmatch[images]")

from pets import draw_pets
from PIL import Image


@pytest.fixture
def pets(riskmatch, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("RISKMATCH_DATA", raising=False)
    return draw_pets(tmp_path / "pets")


def test_folder_without_faults_ends_with_0(riskmatch, pets):
    done = riskmatch("data", "doctor", "pets")
    assert done.code == 0
    assert "pets: 12 images" in done.out
    assert "no fault" in done.out or "No faults" in done.out
    assert "published" not in done.out
    assert done.err == "examining images · 12 images\ncomparing images\n"


def test_faults_end_with_1_and_have_cures(riskmatch, pets):
    Path("pets/oil/cat/0.png").write_bytes(b"")
    shutil.copy("pets/ink/dog/1.png", "pets/photo/dog/same.png")
    done = riskmatch("data", "doctor", "pets")
    assert done.code == 1
    for place in ("oil/cat/0.png", "photo/dog/same.png"):
        assert place in done.out
    quiet = riskmatch("data", "doctor", "pets", "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (1, "", "")
    values = json.loads(riskmatch("data", "doctor", str(pets), "--json", "--quiet").out)
    faults = [finding for finding in values["findings"] if finding["severity"] == "fault"]
    assert "oil/cat/0.png" in {finding["path"] for finding in faults}
    assert all(finding["cure"] for finding in faults)


def test_contact_sheet_has_a_cell_per_class_and_domain(riskmatch, pets):
    done = riskmatch("data", "doctor", "pets", "--sheet", "new/sheet.png")
    assert done.out.endswith("The contact sheet is new/sheet.png\n")
    with Image.open("new/sheet.png") as sheet:
        assert sheet.width > 3 * 90
        assert sheet.height > 2 * 90


def test_suffix_of_the_contact_sheet_may_be_upper_case(riskmatch, pets):
    assert riskmatch("data", "doctor", "pets", "--sheet", "SHEET.PNG").code == 0
    with Image.open("SHEET.PNG") as sheet:
        assert sheet.format == "PNG"


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_report_is_printed_if_the_contact_sheet_cannot_be_written(riskmatch, pets, words):
    Path("sheet.png").mkdir()
    Path("pets/oil/cat/0.png").write_bytes(b"")
    done = riskmatch("data", "doctor", "pets", "--quiet", *words, "--sheet", "sheet.png")
    assert done.code == 2
    assert "sheet.png: Is a directory" in done.err
    done = riskmatch("data", "doctor", "pets", *words, "--sheet", "sheet.png")
    assert "oil/cat/0.png" in done.out
    assert "contact sheet" not in done.out
    assert list(Path().glob("*.tmp")) == []


def test_benchmark_is_compared_with_published_counts(riskmatch, tmp_path):
    for domain in ("art_painting", "cartoon", "photo", "sketch"):
        (tmp_path / "data" / "PACS" / domain / "dog").mkdir(parents=True)
        path = tmp_path / "data" / "PACS" / domain / "dog" / "1.png"
        Image.new("RGB", (9, 9), (domain.partition("_")[2] and "red") or "blue").save(path)
    done = riskmatch("data", "doctor", "pacs", "--data-dir", "data")
    assert done.code == 1
    assert "PACS was published with 9,991" in done.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "riskmatch data doctor needs DATA: "),
        ("pacs", "PACS is not on this machine; "),
        ("pasc", "Unknown data set of images 'pasc'. Did you mean 'pacs'?"),
        (
            "zebras",
            "Unknown data set of images 'zebras'. Valid: 'pacs', 'vlcs', 'officehome', "
            "'terraincognita', 'domainnet'. There is no folder or file 'zebras' either.",
        ),
        ("colored-mnist", "Unknown data set of images 'colored-mnist'. "),
        ("./nowhere", "There is no ./nowhere."),
        ("pets/ink", "pets/ink/cat holds images instead of class folders"),
        ("pets --sheet s.jpg", "Unknown file type of --sheet '.jpg'. Did you mean '.png'?"),
        ("pets --sheet pets/ink/cat/0.png/s.png", "--sheet pets/ink/cat/0.png/s.png: "),
    ],
)
def test_bad_input_is_one_line(riskmatch, pets, words, message):
    done = riskmatch("data", "doctor", *words.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"riskmatch: {message}")
    assert done.err.count("\n") == 1


def make_siblings(folder, number=6):
    """Domains b and c with the same pictures, but for some noise; a has its own."""
    rng = np.random.default_rng(0)
    for domain in "abc":
        (folder / domain / "cat").mkdir(parents=True)
    for k in range(number):
        own, shared = (np.repeat(rng.integers(0, 200, (4, 4, 3)), 9, 0).repeat(9, 1) for _ in "ab")
        for domain, pixels in (("a", own), ("b", shared), ("c", shared + 3)):
            Image.fromarray(pixels.astype(np.uint8)).save(
                folder / domain / "cat" / f"{domain}{k}.png"
            )


def test_domains_with_pictures_in_common_are_to_be_left_out_together(riskmatch, tmp_path):
    make_siblings(tmp_path / "sites")
    done = riskmatch("data", "doctor", "sites")
    assert "sibling-domains  1 warning" in done.out
    assert "b and c have 6 images in common" in done.out
    assert "overestimates" in done.out
    assert "--leave-out-together b+c" in done.out
    assert "published" not in done.out  # there is nothing to compare counts with


def test_report_names_domains_with_pictures_in_common(tmp_path):
    from made_records import evaluation, run

    from riskmatch.report.facts import pictures_in_common
    from riskmatch.report.selected import select_runs
    from riskmatch.runs import records

    make_siblings(tmp_path / "sites")

    def noted(folder, *tests):
        for test in tests:
            one = run(
                test, evaluation(1, **dict.fromkeys("abc", (50, 50))), data=str(tmp_path / "sites")
            )
            records.write(tmp_path / folder / one.config.id, one)
        (one,) = select_runs(tmp_path / folder).by_data
        return list(pictures_in_common(one.main))

    (note,) = noted("apart", "a", "b")
    assert "b and c have 6 images in common" in note
    assert "--leave-out-together b+c" in note
    assert noted("together", "a", "bc") == []
