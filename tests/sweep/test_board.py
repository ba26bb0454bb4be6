from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.lines import Evaluation
from riskmatch.runs.records import lock
from riskmatch.sweep import board as board_module
from riskmatch.sweep.board import (
    ERM_PHASES,
    Board,
    RunOutcome,
    group_of,
    status_of,
    with_erm_phases,
)
from riskmatch.sweep.plan import Protocol

ERM = RunConfig("d", ("t",), "erm", steps=100)
RDM = RunConfig("d", ("t",), "rdm", steps=100, pretrain=40)
VREX = replace(RDM, method="vrex")
PHASE = RDM.erm_phase()
PLANNED = Protocol(
    "colored-digits",
    ("erm", "rdm"),
    (("0.1",),),
    draws=2,
    trials=2,
    choices={"steps": 100, "pretrain": 10, "weight_decay": 0.0, "warmup": 20},
).runs()
DONE = RunOutcome("done")


def test_erm_phases_come_first_and_once():
    assert with_erm_phases([ERM, RDM, VREX, RDM]) == [PHASE, ERM, RDM, VREX]


def test_run_waits_for_its_erm_phase_while_others_start():
    board = Board(with_erm_phases([RDM, ERM]), jobs=2)
    assert (board.start_next(), board.start_next(), board.start_next()) == (PHASE, ERM, None)
    board.close(PHASE, DONE)
    assert board.start_next() == RDM
    assert board.total == 3


def test_run_fails_with_its_erm_phase_and_others_continue():
    board = Board(with_erm_phases([RDM, VREX, ERM]))
    board.close(board.start_next(), RunOutcome("failed", "no memory"))
    assert board.start_next() == ERM
    assert board.failed[RDM.id] == f"its ERM phase {PHASE.id} failed"
    board.close(ERM, DONE)
    assert board.start_next() is None
    assert board.total == 4


def test_interrupted_run_is_next():
    board = Board([ERM, replace(ERM, seed=1)])
    board.close(board.start_next(), RunOutcome("interrupted"))
    assert board.interrupted
    assert board.waiting[0] == ERM


def test_run_of_another_process_blocks_only_the_runs_that_start_from_it(tmp_path):
    board = Board(with_erm_phases([RDM, ERM]), tmp_path)
    (tmp_path / PHASE.id).mkdir()
    with lock(tmp_path / PHASE.id):
        assert (board.start_next(), board.start_next()) == (ERM, None)
        assert (list(board.external), len(board.unfinished), board.total) == ([PHASE.id], 3, 3)
    assert board.start_next() == PHASE


def test_run_that_is_locked_when_it_starts_is_left_to_the_other_process(tmp_path):
    board = Board([ERM], tmp_path)
    board.close(board.start_next(), RunOutcome("locked"))
    assert list(board.external) == [ERM.id]
    assert board.start_next() == ERM


def test_run_that_another_process_finished_is_not_started(tmp_path):
    board = Board([ERM], tmp_path)
    records.start(tmp_path / ERM.id, ERM)
    records.end(tmp_path / ERM.id, "done")
    assert board.start_next() is None
    assert (board.done, board.finished_elsewhere) == ([ERM], {ERM.id})


def test_time_left_uses_the_pace_of_each_group():
    board = Board([ERM, RDM, replace(ERM, method="iga")], jobs=2)
    assert board.seconds_left is None
    board.report_pace(replace(ERM, method="iga"), 8.0)
    board.report_pace(ERM, 2.0)
    assert board.seconds_left == pytest.approx(100 * 8)  # the longest run
    run = board.start_next()
    board.report_step(run, 10, 10.0)  # 12 seconds for 11 steps, with the one timed before
    board.jobs = 1
    mean = 20 / 12  # pace of RDM, which was not timed
    assert board.seconds_left == pytest.approx(90 * 12 / 11 + 60 * mean + 100 * 8)
    board.close(run, DONE)
    board.report_step(board.start_next(), 50, 30.0)  # ten steps of RDM, three seconds each
    assert board.seconds_left == pytest.approx(50 * 3 + 100 * 8)


def test_data_sets_have_separate_paces():
    board = Board([ERM, replace(ERM, data="e")])
    board.report_pace(ERM, 1.0)
    board.report_pace(replace(ERM, data="e"), 3.0)
    assert board.seconds_left == pytest.approx(100 * (1 + 3))


def test_board_from_folder_knows_finished_runs_and_their_pace(tmp_path):
    for config, step in ((ERM, 100), (replace(ERM, seed=1), 50)):
        folder = tmp_path / config.id
        records.start(folder, config)
        records.append(folder, Evaluation(step, {}, 0.0, {}, {}, "a", 2.0 * step, 2.0, 0))
        if step == 100:
            records.end(folder, "done")
    board = Board.from_folder([ERM, replace(ERM, seed=1), replace(ERM, seed=2)], tmp_path)
    assert board.done == [ERM]
    assert board.seconds_left == pytest.approx(2.0 * (50 + 100))


def test_board_from_folder_counts_damaged_records_as_failures(tmp_path):
    for config in (PHASE, ERM):
        records.start(tmp_path / config.id, config)
    records.end(tmp_path / PHASE.id, "failed", "no memory")
    (tmp_path / ERM.id / records.FILE).write_text("{not JSON}\n")
    board = Board.from_folder([ERM, RDM, replace(ERM, seed=1)], tmp_path)
    assert board.waiting == [replace(ERM, seed=1)]
    assert board.failed[PHASE.id] == "no memory"
    assert board.failed[RDM.id] == f"its ERM phase {PHASE.id} failed"
    assert "line 1" in board.failed[ERM.id]
    assert f"remove {tmp_path / ERM.id}" in board.failed[ERM.id]


def test_status_counts_runs_by_method_and_state(tmp_path):
    erm = [run.config for run in PLANNED if run.config.method == "erm"]
    for config in erm:
        records.start(tmp_path / config.id, config)
    records.append(tmp_path / erm[0].id, Evaluation(60, {}, 0.0, {}, {}, "a", 100.0, 2.0, 0))
    records.end(tmp_path / erm[1].id, "failed", "no memory")
    with lock(tmp_path / erm[0].id):
        status = status_of(PLANNED, tmp_path)
    assert status.counts["erm"] == {"running": 1, "failed": 1}
    assert status.counts["rdm moments"] == {"waiting": 2}
    assert status.counts[ERM_PHASES] == {"waiting": 2}
    assert status.failed == {erm[1].id: "no memory"}
    assert status.total["waiting"] == 4
    pace = 100.0 / (60 - 10)
    assert status.seconds_left == pytest.approx(pace * (40 + 2 * 90 + 2 * 10))


def test_status_of_an_unstarted_sweep_has_no_time_left(tmp_path):
    status = status_of(PLANNED, tmp_path)
    assert status.total == {"waiting": 6}
    assert status.seconds_left is None


def test_run_that_failed_or_is_damaged_elsewhere_is_failed_here(tmp_path):
    other = replace(ERM, seed=1)
    board = Board([ERM, other], tmp_path)
    records.start(tmp_path / ERM.id, ERM)
    records.end(tmp_path / ERM.id, "failed")
    records.start(tmp_path / other.id, other)
    (tmp_path / other.id / records.FILE).write_text("{}\n{}\n")
    assert board.start_next() is None
    assert list(board.failed) == [ERM.id, other.id]
    assert board.failed[ERM.id] == "cause not recorded"
    assert board.done == []


def test_steps_are_read_from_records_and_their_seconds_counted_once(tmp_path):
    board = Board([ERM, replace(ERM, seed=1)], tmp_path)
    run = board.start_next()
    records.start(tmp_path / run.id, run)
    for step in (20, 60):
        evaluation = Evaluation(step, {}, 0.0, {}, {}, "a", 2.0 * step, 2.0, 0)
        records.append(tmp_path / run.id, evaluation)
        for _ in range(2):
            board.read_record(run)
        assert board.steps == {run.id: step}
    assert board.seconds_left == pytest.approx(2.0 * (40 + 100))


def seconds_left(board):
    """By the definition, run by run; every step takes two seconds."""
    left = [2.0 * max(0, run.steps - board.steps.get(run.id, 0)) for run in board.unfinished]
    return max(sum(left) / board.jobs, *left, 0.0)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=40), st.sampled_from((1, 30))
)
def test_time_left_is_that_of_all_unfinished_runs_after_any_events(events, jobs):
    runs = [replace(ERM, seed=seed, steps=25 - 5 * seed) for seed in range(4)]
    board = Board(list(runs), jobs=jobs)
    board.report_pace(runs[0], 2.0)
    for event, place in events:
        running = list(board.running.values())
        if event == 0 or not running:
            board.start_next()
        elif event == 1:
            run = running[place % len(running)]
            board.report_step(run, board.steps.get(run.id, 0) + 1, 2.0)
        elif event == 2 and board.waiting:  # its record was read
            run = board.waiting[place % len(board.waiting)]
            board.report_step(run, board.steps.get(run.id, 0) + 1, 2.0)
        else:
            states = {3: "done", 4: "failed", 5: "locked"}
            status = states.get(event, "interrupted")
            board.close(running[place % len(running)], RunOutcome(status))
        assert board.seconds_left == pytest.approx(seconds_left(board))
        assert board.total == len(runs)


def test_waiting_runs_are_visited_once_and_not_for_every_report(monkeypatch):
    visited = []
    monkeypatch.setattr(
        board_module, "group_of", lambda run: visited.append(run.id) or group_of(run)
    )
    board = Board([replace(ERM, seed=seed) for seed in range(50)], jobs=2)
    run, _ = board.start_next(), board.start_next()
    assert len(visited) == 2
    board.report_step(run, 1, 1.0)
    assert board.seconds_left == 100 * 48 / 2 + (99 + 100) / 2
    visited.clear()
    for step in range(2, 12):
        board.report_step(run, step, 1.0)
        board.close(board.start_next(), DONE)
        assert board.seconds_left
    assert len(visited) <= 10 * 5
