import sys

import pytest

from riskmatch.cli import progress as module
from riskmatch.cli.progress import Display, Rate, RunDisplay, SweepDisplay
from riskmatch.engine import Progress
from riskmatch.runs.config import RunConfig
from riskmatch.sweep import Board, PlannedRun, RunOutcome

RUN = RunConfig("d", ("t",), "erm", steps=400)
PLANNED = PlannedRun(RUN, "a run")


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests move."""

    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def use_terminal(monkeypatch):
    """Let the error stream of the test pass for a terminal."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)


def test_rate_gives_amount_speed_and_time_left(clock):
    rate = Rate("images")
    assert rate("embedding", 10, 1010) == "embedding · 10/1,010 images"
    clock.now += 2
    assert rate("embedding", 50, 1010) == "embedding · 50/1,010 images · 20 images/s · 0:48 left"
    clock.now += 48
    assert rate("embedding", 1010, 1010) == "embedding · 1,010 images in 0:50"
    assert rate("waiting", 0, None) == "waiting"


def test_rate_of_a_resumed_download_counts_new_bytes(clock):
    rate = Rate("bytes")
    assert rate("a.zip", 4_000_000, 9_000_000) == "a.zip · 4.0 MB/9.0 MB"
    clock.now += 10
    assert rate("a.zip", 5_000_000, 9_000_000).endswith(" · 100.0 kB/s · 0:40 left")
    assert rate("a.zip", 5_000_000, None) == "a.zip · 5.0 MB · 100.0 kB/s"


def test_log_has_a_line_every_few_seconds_and_at_the_end(clock, capsys):
    with Display() as display:
        for done in range(1, 101):
            display.progress("decoding", done, 100)
            clock.now += 0.125
        display.progress("waiting", 0, None)
    shown = capsys.readouterr()
    assert shown.out == ""
    lines = shown.err.splitlines()
    assert [line.split(" · ")[1].split("/")[0] for line in lines[:3]] == ["17", "57", "97"]
    assert lines[3:] == ["decoding · 100 images in 0:12", "waiting"]


def test_quiet_shows_nothing(monkeypatch, capsys):
    use_terminal(monkeypatch)
    with Display(quiet=True, unit="bytes") as display:
        display.progress("decoding", 2, 2)
    with SweepDisplay([PLANNED], quiet=True) as display:
        display.progress("decoding", 1, 2)
        display.change(Board([RUN]))
    assert capsys.readouterr() == ("", "")


def test_terminal_has_a_bar(monkeypatch, capsys):
    use_terminal(monkeypatch)
    with Display() as display:
        display.progress("decoding images", 3, 9)
        display.progress("waiting [for] another", 0, None)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "waiting [for] another" in shown.err


def test_bar_goes_from_a_known_to_an_unknown_total(monkeypatch, capsys):
    use_terminal(monkeypatch)
    with Display() as display:
        display.show("known", 3, 9)
        display.show("unknown", 0, None)
        (task,) = display._bar.tasks
    assert (task.total, task.description) == (None, "unknown")


def test_run_display_shows_steps_on_a_terminal(monkeypatch, capsys):
    use_terminal(monkeypatch)
    with RunDisplay(RUN) as display:
        assert display.last_step is None
        display.step(Progress(10, 400, 0.51234, "0.8", 75.0))
    assert display.last_step == 10
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "10/400 · loss 0.5123 · worst 0.8 · 1:15 left" in shown.err


def test_log_of_a_run_has_a_line_every_30_seconds_without_an_evaluation(clock, capsys):
    with RunDisplay(RUN) as display:
        for step in range(1, 101):
            clock.now += 1
            display.step(Progress(step, 400, 0.5, None, 75.0))
        clock.now += 29
        display.progress("evaluating", 512, 9000)
        clock.now += 1
        display.progress("evaluating", 1024, 9000)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines[:3]] == ["30/400", "60/400", "90/400"]
    assert "1:15 left" in lines[0]
    assert lines[3:] == ["evaluating 512/9,000 samples"]


def test_log_of_a_sweep_has_a_line_every_30_seconds(clock, capsys):
    board = Board([RUN])
    board.report_pace(RUN, 0.1)
    with SweepDisplay([PLANNED]) as display:
        for _ in range(65):
            display.change(board)
            clock.now += 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[1:] == ["0/1 runs · about 0:40 left"] * 2


def test_sweep_display_logs_the_state_and_every_finished_run(capsys):
    other = RunConfig("d", ("t",), "vrex", steps=400)
    board = Board([RUN, other])
    board.report_pace(RUN, 0.1)
    with SweepDisplay([PLANNED]) as display:
        display.change(board)
        board.close(board.start_next(), RunOutcome("done"))
        display.change(board)
        board.close(board.start_next(), RunOutcome("failed", "no memory"))
        display.change(board)
        display.change(board)
        display.plan([])
        display.change(board)
    assert capsys.readouterr().err.splitlines() == [
        "2 runs (0 done before); about 1:20 left, 1 at a time",
        "1/2  a run: done  (about 0:40 left)",
        "2/2  the ERM phase: failed: no memory  (nothing left)",
        "2 runs (1 done, 1 failed before); nothing left, 1 at a time",
    ]


def test_sweep_display_on_a_terminal_has_lines_above_a_bar(monkeypatch, capsys):
    use_terminal(monkeypatch)
    with SweepDisplay(quiet=False) as display:
        display.plan([PLANNED], "a note")
        display.plan([PLANNED], "the same note")
        display.change(Board([], done=[RUN]))
    shown = capsys.readouterr().err
    assert shown.count("note") == 1
    assert "1 run (1 done before)" in shown
    assert "1/1 runs · nothing left" in shown
