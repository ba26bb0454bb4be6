import json
import os
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from PIL import Image
from random_images import random_image, write_images

from riskmatch.cli.data import print_examination
from riskmatch.data.doctor import contact_sheet, examine_data
from riskmatch.data.doctor.findings import BLANK, CELL, GAP, HEAD, MARGIN
from riskmatch.data.doctor.survey import survey
from riskmatch.data.images.index import index_folder


@pytest.fixture
def tree(tmp_path):
    return write_images(tmp_path / "pets")


def found(examination):
    return {(f.kind, f.severity, f.path) for f in examination.findings}


@pytest.fixture
def printed(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def read(examination):
        print_examination(examination)
        return capsys.readouterr().out

    return read


def test_sound_tree_has_no_findings(tree, printed):
    examination = examine_data(tree)
    assert examination.findings == ()
    assert examination.exit_code == 0
    assert len(examination) == 150
    assert "No faults, warnings or notes." in printed(examination)


def test_misplaced_files_are_reported_with_their_place(tree):
    for path in ("1.png", "a/2.png", "a/cat/deep/er/3.png"):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        random_image(1000 + len(path)).save(tree / path)
    (tree / "README.md").write_text("pets")
    (tree / "b/cow/notes.txt").write_text("a cow")
    (tree / "b/cow/.DS_Store").write_text("junk")
    random_image(2000).save(tree / "c/cat/lost.dat", "PNG")
    os.symlink(tree / "a", tree / "a/cat/round", target_is_directory=True)
    examination = examine_data(tree)
    assert found(examination) == {
        ("misplaced", "fault", "1.png"),
        ("misplaced", "fault", "a/2.png"),
        ("misplaced", "fault", "a/cat/deep/er/3.png"),
        ("stray", "note", "README.md"),
        ("stray", "warning", "b/cow/notes.txt"),
        ("wrong-extension", "fault", "c/cat/lost.dat"),
    }
    cures = {f.path: f.cure for f in examination.findings}
    assert cures["1.png"] == "Move it to DOMAIN/CLASS/, or out of the data set."
    assert cures["a/2.png"] == "Move it to a/CLASS/, or out of the data set."
    assert cures["a/cat/deep/er/3.png"] == "Move it to a/cat/, or out of the data set."
    assert cures["c/cat/lost.dat"] == "Rename it to c/cat/lost.png."


def test_empty_folders_are_reported(tree):
    for path in ("d", "e/cat", "a/owl", "b/owl", "a/cat/deep/er", "c/.hidden"):
        (tree / path).mkdir(parents=True)
    (tree / "b/owl/.DS_Store").write_text("junk")
    examination = examine_data(tree)
    assert found(examination) == {
        ("empty-folder", "fault", "d"),
        ("empty-folder", "fault", "e"),
        ("empty-folder", "warning", "e/cat"),
        ("empty-folder", "warning", "a/owl"),
        ("empty-folder", "warning", "b/owl"),
        ("empty-folder", "fault", "a/cat/deep"),
    }
    cures = {f.path: f.cure for f in examination.findings}
    assert cures["d"] == cures["a/owl"]
    assert "Add its images" in cures["d"]
    assert cures["a/cat/deep"].startswith("Delete it")


@contextmanager
def without_rights():
    """Run as an unprivileged user: root can read everything."""
    if os.geteuid() != 0:
        yield
        return
    try:
        os.seteuid(65534)
    except OSError as error:
        pytest.skip(f"cannot change the user: {error}")
    try:
        yield
    finally:
        os.seteuid(0)


def test_unreadable_folder_is_a_fault():
    with TemporaryDirectory() as folder:  # tmp_path is private to its user
        os.chmod(folder, 0o755)
        tree = write_images(Path(folder) / "pets", each=1)
        os.chmod(tree / "b/cow", 0)
        try:
            with without_rights():
                index, (fault,) = survey(tree)
        finally:
            os.chmod(tree / "b/cow", 0o755)
    assert index.counts()["b"] == {"cat": 1, "cow": 0}
    assert (fault.kind, fault.severity, fault.path) == ("unreadable", "fault", "b/cow")
    assert "Permission denied" in fault.message
    assert f"chmod u+rx {tree / 'b/cow'}" in fault.cure


def test_tree_without_image_extensions_is_examined(tmp_path, printed):
    (tmp_path / "a/cat").mkdir(parents=True)
    random_image(0).save(tmp_path / "a/cat/1.jfif", "JPEG")
    examination = examine_data(tmp_path)
    assert found(examination) == {
        ("wrong-extension", "fault", "a/cat/1.jfif"),
        ("no-images", "fault", None),
    }
    assert "0 images" in printed(examination)
    contact_sheet(examination.index, tmp_path / "sheet.png")


@pytest.mark.parametrize("domains", [("only",), ("a", "b")])
def test_tree_without_domain_level_is_refused(tmp_path, domains):
    for domain in domains:
        (tmp_path / domain).mkdir()
        random_image(0).save(tmp_path / domain / "1.png")
    with pytest.raises(ValueError, match=r"level of domains .* missing"):
        examine_data(tmp_path)
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        examine_data(tmp_path / "nowhere")


def test_images_of_a_manifest_are_examined(tree):
    (tree / "a/cat/0.png").write_bytes(b"")
    rows = [f"{e.parent.parent.name}/{e.parent.name}/{e.name}" for e in tree.glob("*/*/*.png")]
    lines = [f"{path},{path.split('/')[1]},{path.split('/')[0]}" for path in rows]
    (tree / "pets.csv").write_text("\n".join(["path,label,domain", *lines]))
    assert found(examine_data(tree / "pets.csv")) == {("empty", "fault", "a/cat/0.png")}


def test_missing_labels_of_a_manifest_are_counted_and_the_others_examined(tree):
    lines = ["a/cat/0.png,cat,a", "a/cat/1.png,,a", "b/cow/1.png,cow,b", "b/cat/2.png, ,b"]
    (tree / "pets.csv").write_text("\n".join(["path,label,domain", *lines]))
    examination = examine_data(tree / "pets.csv")
    missing = [f for f in examination.findings if f.kind == "missing-label"]
    assert [(f.severity, f.domain) for f in missing] == [("fault", "a"), ("fault", "b")]
    assert "--drop-missing-labels" in missing[0].cure
    assert len(examination) == 2


def test_missing_files_of_a_manifest_are_reported(tree):
    (tree / "a/cat/0.png").write_bytes(b"")
    lines = ["path,label,domain", "a/cat/0.png,cat,a", "a/cat/1.png,cat,a", "b/no.png,cat,b"]
    (tree / "pets.csv").write_text("\n".join([*lines, "b/cow/1.png,cow,b", "b,cat,b"]))
    examination = examine_data(tree / "pets.csv")
    assert len(examination) == 3
    assert {row for row in found(examination) if row[1] == "fault"} == {
        ("empty", "fault", "a/cat/0.png"),
        ("missing-file", "fault", "b/no.png"),
        ("missing-file", "fault", "b"),
    }
    (missing,) = (f for f in examination.findings if f.path == "b/no.png")
    assert "pets.csv, line 4" in missing.message
    assert "remove it from pets.csv" in missing.cure


def test_manifest_with_only_missing_files(tree):
    (tree / "pets.csv").write_text("path,label,domain\nno.png,cat,a\n")
    assert found(examine_data(tree / "pets.csv")) == {
        ("missing-file", "fault", "no.png"),
        ("no-images", "fault", None),
    }


def test_progress_counts_every_image(tree):
    calls = []
    examine_data(tree, on_progress=lambda *call: calls.append(call), jobs=2)
    assert calls[:-1] == [("examining images", done, 150) for done in range(1, 151)]
    assert calls[-1] == ("comparing images", 0, None)


def test_json_holds_counts_and_findings(tree):
    (tree / "a/cat/0.png").write_bytes(b"")
    examination = examine_data(tree)
    assert examination.exit_code == 1
    content = json.loads(examination.to_json())
    assert content["counts"]["a"] == {"cat": 25, "cow": 25}
    assert content["tally"] == {"fault": 1, "warning": 0, "note": 0}
    assert content["findings"] == [
        {
            "kind": "empty",
            "severity": "fault",
            "message": "has zero bytes",
            "cure": "Get the file again, or delete it.",
            "path": "a/cat/0.png",
            "other": None,
            "column": None,
            "domain": "a",
        }
    ]


def test_printed_findings_are_grouped_with_a_common_cure(tree, printed):
    for number in range(3):
        (tree / f"a/cat/{number}.png").write_bytes(b"")
    (tree / "b/cow/[red]\x1b[2J.png").write_bytes(b"")
    text = printed(examine_data(tree))
    assert "empty  4 faults" in text
    assert text.count("Get the file again, or delete it.") == 1
    assert "b/cow/[red]\\x1b[2J.png has zero bytes" in text
    assert text.endswith("4 faults.\n")
    assert re.search(r"domain +images +classes +smallest class +largest class", text)


def test_control_characters_are_escaped_in_print(tmp_path, printed):
    root = tmp_path / "pe\x1bts"
    write_images(root, domains=("a\x1bb",), classes=("c\x07t", "cow"))
    (root / "a\x1bb/cow/0.png").rename(root / "a\x1bb/cow/\x9b\udce4.dat")
    examination = examine_data(root)
    text = printed(examination)
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    assert "pe\\x1bts: 49 images" in text
    assert "c\\x07t 25" in text
    assert "Rename it to a\\x1bb/cow/\\x9b\\udce4.png." in text
    assert json.loads(examination.to_json())["findings"][0]["path"] == "a\x1bb/cow/\x9b\udce4.dat"


def test_warnings_do_not_change_the_exit_code(tree, printed):
    (tree / "a/cat/0.png").rename(tree / "a/cat/0.jpg")
    examination = examine_data(tree)
    assert [f.severity for f in examination.findings] == ["warning"]
    assert examination.exit_code == 0
    assert printed(examination).endswith("1 warning; no fault.\n")


def test_contact_sheet_shows_classes_by_domains(tmp_path):
    colours = {"a/cat": "#ff0000", "a/owl 狗\n": "#00ff00", "b/cat": "#0000ff"}
    for folder, colour in colours.items():
        (tmp_path / "in" / folder).mkdir(parents=True)
        (tmp_path / "in" / folder / "0.png").write_bytes(b"not decodable")
        Image.new("RGB", (50, 20), colour).save(tmp_path / "in" / folder / "1.png")
    (tmp_path / "in/b" / ("x" * 100)).mkdir()
    (tmp_path / "in/b" / ("x" * 100) / "1.png").write_bytes(b"")
    contact_sheet(index_folder(tmp_path / "in"), tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size == (MARGIN + 2 * (CELL + GAP), HEAD + 3 * (CELL + GAP))

        def at(label, domain):
            step, half = CELL + GAP, CELL // 2
            pixel = sheet.getpixel((MARGIN + domain * step + half, HEAD + label * step + half))
            return "#{:02x}{:02x}{:02x}".format(*pixel)

        shown = [[at(label, domain) for domain in range(2)] for label in range(3)]
    assert shown == [["#ff0000", "#0000ff"], ["#00ff00", BLANK], [BLANK, BLANK]]


def test_missing_pillow_is_reported_with_the_cure(tree, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"pip install 'riskmatch\[images\]'"):
        examine_data(tree)
    with pytest.raises(ImportError, match=r"pip install 'riskmatch\[images\]'"):
        contact_sheet(index_folder(tree), tree / "sheet.png")
