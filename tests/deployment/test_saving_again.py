"""Saving where a model is already: what stays, what is written, what is refused."""

import json
import os
import shutil
import warnings

import numpy as np
import pytest
import torch

import riskmatch
from riskmatch.deployment import ModelError
from riskmatch.deployment.folder import CARD, FIGURE, HELD_OUT, MODEL, WEIGHTS, write_folder
from riskmatch.runs.findings import RunWarning

SMALL = {"steps": 4, "eval_every": 2, "model_options": {"widths": [4]}, "keep": "all"}


def train(out, seed=0, **options):
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(seed))
    data = {"A": (x, torch.arange(60) % 2), "B": (x + 1, torch.arange(60) % 2)}
    return riskmatch.train(data, "erm", out=out, **{**SMALL, **options})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A run on other data."""
    return train(tmp_path_factory.mktemp("other"), seed=1)


@pytest.fixture(scope="module")
def saved(run, tmp_path_factory):
    folder = riskmatch.save_model(run, tmp_path_factory.mktemp("saved") / "model", licence="MIT")
    inputs = np.zeros((4, 3), np.float32)
    riskmatch.export(folder, format="torch", inputs=inputs)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    """A model folder with files of the user's own."""
    folder = shutil.copytree(saved, tmp_path / "model")
    (folder / "notes").mkdir()
    (folder / "notes/thesis.txt").write_text("chapter 1")
    (folder / "model.onnx").write_bytes(b"made with another tool")
    return folder


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def run_of(folder):
    return riskmatch.load_model(folder).values["run"]


def test_the_same_model_again_writes_nothing(run, folder):
    before, times = contents(folder), {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        riskmatch.save_model(run, folder, licence="MIT")
    assert contents(folder) == before
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == times


def test_the_same_model_with_another_licence_writes_what_changed(run, folder):
    before = contents(folder)
    riskmatch.save_model(run, folder, licence="Apache-2.0")
    after = contents(folder)
    assert {name for name in after if after[name] != before.get(name)} == {MODEL, CARD}
    assert before.keys() == after.keys()
    assert riskmatch.load_model(folder).values["licence"] == "Apache-2.0"
    assert "Apache-2.0" in (folder / CARD).read_text()


@pytest.mark.parametrize("name", [CARD, FIGURE])
def test_an_edited_card_or_figure_stays_and_is_named(run, folder, name):
    (folder / name).write_text("our own words")
    for licence in ("MIT", "Apache-2.0"):  # edited is edited the second time too
        with pytest.warns(RunWarning, match=f"{name} was edited and is kept"):
            riskmatch.save_model(run, folder, licence=licence)
        assert (folder / name).read_text() == "our own words"
        assert riskmatch.load_model(folder).values["licence"] == licence
    (folder / name).unlink()
    riskmatch.save_model(run, folder)
    assert (folder / name).read_bytes() not in (b"our own words", b"")


def test_saving_again_repairs_damage_and_leaves_the_rest(run, folder):
    before = contents(folder)
    (folder / WEIGHTS).write_bytes(b"damaged")
    (folder / HELD_OUT).unlink()
    riskmatch.save_model(run, folder, licence="MIT")
    assert contents(folder) == before


def test_another_model_is_refused_and_nothing_changes(other, folder):
    before = contents(folder)
    with pytest.raises(ModelError, match="another model") as error:
        riskmatch.save_model(other, folder)
    assert contents(folder) == before
    for fact in (str(folder), "--overwrite", "overwrite=True", "another path"):
        assert fact in str(error.value)
    assert "\n" not in str(error.value)


def test_other_data_weights_and_steps_are_another_model(run, folder, tmp_path):
    values, before = run_of(folder), contents(folder)
    step = {2, 4} - {values["step"]}
    retrained = train(tmp_path / "again", lr=0.5)
    cases = {
        f"step {values['step']}": {"step": step.pop()},
        "other data": {"data": {**values["data"], "content": "0" * 16}},
        f"run {values['id']}": {"id": retrained.config.id},
    }
    whole = {name: before[name] for name in (WEIGHTS, HELD_OUT, CARD, FIGURE)}
    model = json.loads(before[MODEL])
    for fact, changes in cases.items():
        with pytest.raises(ModelError, match=fact):
            write_folder(folder, {**model, "run": {**values, **changes}}, whole)
    with pytest.raises(ModelError, match="other weights"):
        write_folder(folder, model, {**whole, WEIGHTS: b"of another machine"})
    assert contents(folder) == before


def test_overwriting_keeps_files_of_the_user_and_removes_the_stale_export(other, run, folder):
    old = run_of(folder)["id"]
    with pytest.warns(RunWarning, match=r"model\.pt2.*removed"):
        riskmatch.save_model(other, folder, overwrite=True)
    assert run_of(folder)["id"] == other.config.id != old
    assert (folder / "notes/thesis.txt").read_text() == "chapter 1"
    assert (folder / "model.onnx").read_bytes() == b"made with another tool"
    ours = {MODEL, WEIGHTS, HELD_OUT, CARD, FIGURE, "model.onnx", "notes"}
    assert {path.name for path in folder.iterdir()} == ours
    assert other.config.id in (folder / CARD).read_text()


def test_overwriting_the_same_model_keeps_its_export(run, folder):
    before = contents(folder)
    riskmatch.save_model(run, folder, licence="MIT", overwrite=True)
    assert contents(folder) == before


def test_overwriting_sets_an_edited_card_aside(other, run, folder):
    (folder / "model.pt2").unlink()
    for text, name in (("first words", f"{CARD}.old"), ("second words", f"{CARD}.old2")):
        (folder / CARD).write_text(text)
        with pytest.warns(RunWarning, match=name):
            riskmatch.save_model(other, folder, overwrite=True)
        assert (folder / name).read_text() == text
        assert other.config.id in (folder / CARD).read_text()
        riskmatch.save_model(run, folder, overwrite=True)
    assert (folder / f"{CARD}.old").read_text() == "first words"


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    "place",
    [
        lambda path: (path / "text").write_text("chapter 1"),
        lambda path: (path / MODEL).write_text('{"format": "layers-model"}'),  # of TensorFlow.js
        lambda path: (path / MODEL).write_text("{"),
        lambda path: (path / MODEL).write_text('{"format": "riskmatch model 2"}'),
    ],
)
def test_a_folder_of_something_else_is_never_replaced(run, tmp_path, place, overwrite):
    path = tmp_path / "thesis"
    path.mkdir()
    place(path)
    before = contents(tmp_path)
    with pytest.raises(ModelError, match=r"thesis.*another path"):
        riskmatch.save_model(run, path, overwrite=overwrite)
    assert contents(tmp_path) == before


def test_a_folder_in_place_of_the_card_is_refused(run, folder):
    (folder / CARD).unlink()
    (folder / CARD).mkdir()
    before = contents(folder)
    with pytest.raises(ModelError, match=f"{CARD}.*folder"):
        riskmatch.save_model(run, folder, licence="Apache-2.0", overwrite=True)
    assert contents(folder) == before


def test_an_empty_folder_is_filled(run, tmp_path):
    (tmp_path / "model").mkdir()
    riskmatch.save_model(run, tmp_path / "model")
    assert run_of(tmp_path / "model")["id"] == run.config.id


def killed_before_rename(number, act):
    """Kill a copy of this process before its rename of this number; whether it was killed."""
    child = os.fork()
    if child == 0:
        rename, left = os.replace, number

        def killed(source, target):
            nonlocal left
            if left == 0:
                os._exit(9)
            left -= 1
            rename(source, target)

        os.replace = killed
        try:
            act()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_killed_write_leaves_the_old_model_or_the_new_one(other, folder, tmp_path):
    new = riskmatch.save_model(other, tmp_path / "new")
    values = riskmatch.load_model(new).values
    files = {name: (new / name).read_bytes() for name in (WEIGHTS, HELD_OUT, CARD, FIGURE)}
    template, before = shutil.copytree(folder, tmp_path / "template"), contents(folder)
    old_id, new_id, seen, killed = run_of(folder)["id"], other.config.id, [], True
    while killed:
        shutil.rmtree(folder)
        shutil.copytree(template, folder)
        killed = killed_before_rename(
            len(seen), lambda: write_folder(folder, values, files, overwrite=True)
        )
        seen.append(run_of(folder)["id"])
        after = contents(folder)
        for name in ("notes/thesis.txt", "model.onnx"):
            assert after[name] == before[name]
    first = seen.index(new_id)
    assert seen == [old_id] * first + [new_id] * (len(seen) - first)
    assert first >= 5  # each new file was written before the first took the place of an old one
    assert len(seen) - first >= 5


def test_the_next_save_completes_a_write_that_was_interrupted(other, folder, monkeypatch):
    rename = os.replace

    def interrupted(source, target):
        if target == folder / MODEL:  # the last
            raise KeyboardInterrupt
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            riskmatch.save_model(other, folder, overwrite=True)
    assert run_of(folder)["id"] == other.config.id
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        riskmatch.save_model(other, folder)
    assert json.loads((folder / MODEL).read_text())["run"]["id"] == other.config.id
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
