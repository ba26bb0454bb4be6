import sys

import pytest

from riskmatch.cli import progress as module
from riskmatch.cli.progress import Pace, Row, progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that is moved by hand."""

    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def test_the_pace_says_how_much_how_fast_and_how_long_still(clock):
    pace = Pace("images")
    assert pace("embedding", 10, 1010) == "embedding · 10/1,010 images"
    clock.now += 2
    assert pace("embedding", 50, 1010) == "embedding · 50/1,010 images · 20 images/s · 0:48 left"
    clock.now += 48
    assert pace("embedding", 1010, 1010) == "embedding · 1,010 images in 0:50"
    assert pace("waiting", 0, None) == "waiting"


def test_a_download_that_goes_on_counts_what_is_new(clock):
    pace = Pace("bytes")
    assert pace("a.zip", 4_000_000, 9_000_000) == "a.zip · 4.0 MB/9.0 MB"
    clock.now += 10
    assert pace("a.zip", 5_000_000, 9_000_000).endswith(" · 100.0 kB/s · 0:40 left")
    assert pace("a.zip", 5_000_000, None) == "a.zip · 5.0 MB · 100.0 kB/s"


def test_off_a_terminal_a_line_comes_now_and_then_and_in_the_end(clock, capsys):
    with progress("images") as told:
        for done in range(1, 101):
            told("decoding", done, 100)
            clock.now += 0.125
        told("waiting", 0, None)
    shown = capsys.readouterr()
    assert shown.out == ""
    lines = shown.err.splitlines()
    assert [line.split(" · ")[1].split("/")[0] for line in lines[:3]] == ["17", "57", "97"]
    assert lines[3:] == ["decoding · 100 images in 0:12", "waiting"]


def test_quiet_tells_nobody():
    with progress("bytes", quiet=True) as told:
        assert told is None


def test_on_a_terminal_a_row_moves_and_leaves(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress("images") as told:
        told("decoding images", 3, 9)
        told("waiting [for] another", 0, None)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "waiting [for] another" in shown.err


def test_a_row_goes_from_a_known_total_to_an_unknown_one(capsys):
    row = Row()
    row.show(3, 9, "known")
    row.show(0, None, "unknown")
    (task,) = row._bar.tasks
    row.close()
    assert (task.total, task.description) == (None, "unknown")
