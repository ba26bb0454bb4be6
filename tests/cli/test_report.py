from pathlib import Path

import pytest
from tiny import train


def test_report_is_one_file(riskmatch):
    riskmatch(*train("rdm"), "--quiet")
    done = riskmatch("report", "runs", "-o", "out/look.html")
    assert done.code == 0
    assert done.out == "out/look.html (0.1 MB): open it in a browser\n"
    html = Path("out/look.html").read_text("utf-8")
    assert html.startswith("<!doctype html>")
    assert "riskmatch report runs -o out/look.html" in html
    assert [path.name for path in Path("out").iterdir()] == ["look.html"]


def test_several_folders_are_compared(riskmatch):
    for method in ("erm", "rdm"):
        riskmatch(*train(method), "--quiet", "--out", method)
    done = riskmatch("report", "erm", "rdm", "--quiet")
    assert (done.code, done.out) == (0, "")
    assert "Paired differences" in Path("report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            (),
            "riskmatch report needs DIR: Folder of a run or of a sweep; several are compared.",
        ),
        (("gone",), "gone does not exist."),
        ((".", "-o", "x.pdf"), "Unknown file type of --out '.pdf'. Valid: '.html'."),
        ((".", "--ouput", "x.html"), "Unknown option '--ouput'. Did you mean '--out'?"),
    ],
)
def test_errors_are_one_line(riskmatch, words, message):
    done = riskmatch("report", *words)
    assert (done.code, done.err) == (2, f"riskmatch: {message}\n")


def test_folder_without_runs_is_rejected(riskmatch):
    done = riskmatch("report", ".")
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    assert not Path("report.html").exists()
