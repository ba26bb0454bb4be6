from dataclasses import replace

import pytest

from riskmatch.runs import records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.records import Evaluation
from riskmatch.sweep.board import Board, in_order

ERM = RunConfig("d", ("t",), "erm", steps=100)
RDM = RunConfig("d", ("t",), "rdm", steps=100, pretrain=40)
VREX = replace(RDM, method="vrex")
PHASE = RDM.erm_phase()


def test_phases_come_first_and_nothing_twice():
    assert in_order([ERM, RDM, VREX, RDM]) == [PHASE, ERM, RDM, VREX]


def test_a_run_waits_for_its_phase_while_others_start():
    board = Board(in_order([RDM, ERM]), jobs=2)
    assert (board.take(), board.take(), board.take()) == (PHASE, ERM, None)
    board.ended(PHASE)
    assert board.take() == RDM
    assert board.total == 3


def test_a_run_fails_with_its_phase_and_the_others_go_on():
    board = Board(in_order([RDM, VREX, ERM]))
    board.ended(board.take(), "no luck")
    assert board.take() == ERM
    assert board.failed[RDM.id] == f"its ERM phase {PHASE.id} failed"
    board.ended(ERM)
    assert board.take() is None
    assert board.total == 4


def test_what_is_interrupted_is_next():
    board = Board([ERM, replace(ERM, seed=1)])
    board.put_back(board.take())
    assert board.interrupted
    assert board.waiting[0] == ERM


def test_what_another_process_trains_is_left_to_it_and_its_followers_wait():
    board = Board(in_order([RDM, ERM]))
    board.leave(board.take())
    assert (board.take(), board.take()) == (ERM, None)
    assert (list(board.elsewhere), len(board.left), board.total) == ([PHASE.id], 3, 3)
    board.recall(PHASE)
    assert board.take() == PHASE


def test_the_time_left_counts_each_kind_of_run_at_its_own_pace():
    board = Board([ERM, RDM, replace(ERM, method="iga")], jobs=2)
    assert board.seconds_left is None
    board.time(replace(ERM, method="iga"), 8.0)
    board.time(ERM, 2.0)
    assert board.seconds_left == pytest.approx(100 * 8)  # the longest run
    run = board.take()
    board.stepped(run, 10, 10.0)  # with the trial, 12 seconds for 11 steps
    board.jobs = 1
    unknown = 20 / 12  # of RDM, as of all steps together
    assert board.seconds_left == pytest.approx(90 * 12 / 11 + 60 * unknown + 100 * 8)
    board.ended(run)
    board.stepped(board.take(), 50, 30.0)  # ten steps of RDM, each three seconds
    assert board.seconds_left == pytest.approx(50 * 3 + 100 * 8)


def test_the_same_method_on_other_data_has_a_pace_of_its_own():
    board = Board([ERM, replace(ERM, data="e")])
    board.time(ERM, 1.0)
    board.time(replace(ERM, data="e"), 3.0)
    assert board.seconds_left == pytest.approx(100 * (1 + 3))


def test_what_is_on_file_is_not_run_again_and_tells_the_pace(tmp_path):
    for config, step in ((ERM, 100), (replace(ERM, seed=1), 50)):
        folder = tmp_path / config.id
        records.start(folder, config)
        records.append(folder, Evaluation(step, {}, 0.0, {}, {}, "a", 2.0 * step, 2.0, 0))
        if step == 100:
            records.end(folder, "done")
    board = Board.of([ERM, replace(ERM, seed=1), replace(ERM, seed=2)], tmp_path)
    assert board.done == [ERM]
    assert board.seconds_left == pytest.approx(2.0 * (50 + 100))


def test_failures_on_file_are_known_and_a_damaged_file_is_one(tmp_path):
    for config in (PHASE, ERM):
        records.start(tmp_path / config.id, config)
    records.end(tmp_path / PHASE.id, "failed", "no luck")
    (tmp_path / ERM.id / records.FILE).write_text("{not JSON}\n")
    board = Board.of([ERM, RDM, replace(ERM, seed=1)], tmp_path)
    assert board.waiting == [replace(ERM, seed=1)]
    assert board.failed[PHASE.id] == "no luck"
    assert board.failed[RDM.id] == f"its ERM phase {PHASE.id} failed"
    assert "line 1, is not JSON" in board.failed[ERM.id]
    assert f"remove {tmp_path / ERM.id} to train the run again" in board.failed[ERM.id]
