"""Parts that the user named are imported everywhere, without naming them twice."""

import json
import shutil

import pytest

import riskmatch
from riskmatch.runs import records

TINY = ["--steps", "10", "--eval-every", "5", "--quiet"]
TRAIN = ["train", "mine:digits", "--method", "mine:Spread", "--model", "mine:Net", *TINY]
PLAN = ["sweep", "plan", "s", "--data", "mine:digits", "--methods", "erm,mine:Spread", "--model"]
PLAN += ["mine:Net", "--test-domain", "0.1", "--draws", "1", "--trials", "1", *TINY]


@pytest.fixture
def author(user):
    user.write("mine.py")
    return user


def test_names_on_the_command_line_are_imported(author):
    done = author(*TRAIN, "--test-domain", "0.1")
    assert done.code == 0, done.err
    assert author.ran()


def test_names_in_a_configuration_file_are_imported(author):
    text = 'method = "mine:Spread"\nmodel = "mine:Net"\ntest_domain = ["0.1"]\nsteps = 4\n'
    (author.folder / "run.toml").write_text(f'data = "mine:digits"\n{text}')
    done = author("train", "--config", "run.toml", "--quiet")
    assert done.code == 0, done.err


def test_names_of_a_plan_reach_the_processes_of_its_sweep(author):
    assert author(*PLAN).code == 0
    done = author.process("sweep", "run", "s", "--jobs", "2", "--quiet")
    assert done.code == 0, done.err
    assert {run.status for run in records.read_all(author.folder / "s" / "runs")} == {"done"}


def test_failed_runs_of_a_plan_are_retried(author):
    broken = "if not Path('repaired').exists(): raise RuntimeError('broken')\n        return Terms("
    path = author.folder / "mine.py"
    path.write_text(path.read_text().replace("return Terms(", broken))
    assert author(*PLAN).code == 0
    assert author("sweep", "run", "s", "--jobs", "1", "--quiet").code == 3
    (author.folder / "repaired").touch()
    done = author("sweep", "retry", "s", "--jobs", "1", "--quiet")
    assert done.code == 0, done.err


def test_an_interrupted_run_is_resumed(author):
    assert author(*TRAIN, "--test-domain", "0.1").code == 0
    (run,) = (author.folder / "runs").iterdir()
    records.rewind(run, 5)
    (run / "checkpoints" / "00000010.safetensors").unlink()
    done = author(*TRAIN, "--test-domain", "0.1", "--resume")
    assert done.code == 0, done.err
    assert records.read(run).status == "done"


def test_a_model_saved_here_predicts_and_a_copy_asks(author):
    assert author(*TRAIN, "--all-domains", "--save", "m").code == 0
    done = author("evaluate", "m", "colored-digits")
    assert done.code == 0, done.err
    shutil.copytree(author.folder / "m", author.folder / "copy")
    author.ran()
    assert author("evaluate", "copy", "colored-digits").code == 2
    assert not author.ran()
    done = author("evaluate", "copy", "colored-digits", "--trust")
    assert done.code == 0, done.err


def test_trusted_folders_of_others_work(downloaded):
    assert downloaded("evaluate", "model", "colored-digits", "--trust").code == 0
    shutil.rmtree(downloaded.folder / "sweep" / "runs")
    done = downloaded.process("sweep", "run", "sweep", "--trust", "--jobs", "2", "--quiet")
    assert done.code == 0, done.err
    (run,) = (downloaded.folder / "runs").iterdir()
    assert downloaded.call(lambda: riskmatch.load_run(run, trust=True).model()) is not None


def test_names_that_were_passed_in_python_are_known(downloaded):
    (run,) = (downloaded.folder / "runs").iterdir()

    def call():
        riskmatch.load_data("mine:digits")
        riskmatch.train(
            "colored-digits", "erm", "0.1", model="mine:Net", steps=2, out=downloaded.folder / "o"
        )
        return riskmatch.load_run(run).model()

    assert downloaded.call(call) is not None


def test_what_is_remembered_is_in_the_state_folder_alone(author):
    assert author(*PLAN).code == 0
    state = json.loads((author.state / "riskmatch" / "trusted.json").read_text())
    assert set(state[str(author.folder / "s")]) == {"mine:Spread", "mine:digits", "mine:Net"}
    inside = [path.name for path in (author.folder / "s").rglob("*") if path.is_file()]
    assert inside == ["plan.jsonl"]


def test_another_name_in_a_remembered_folder_asks(author):
    assert author(*PLAN).code == 0
    plan = author.folder / "s" / "plan.jsonl"
    plan.write_text(plan.read_text().replace("mine:Spread", "theirs:Spread"))
    author.write("theirs.py")
    author.ran()
    done = author("sweep", "run", "s")
    assert done.code == 2
    assert "theirs:Spread" in done.err
    assert "mine:" not in done.err
    assert not author.ran()


def test_folder_unpacked_in_a_remembered_one_asks(author):
    assert author(*PLAN).code == 0
    (author.folder / "s" / "download").mkdir()
    shutil.copy(author.folder / "s" / "plan.jsonl", author.folder / "s" / "download")
    author.ran()
    assert author("sweep", "run", "s/download").code == 2
    assert not author.ran()


@pytest.mark.filterwarnings("default")
def test_state_folder_that_cannot_be_written_warns(author):
    (author.state / "riskmatch").write_text("a file where the folder should be")
    done = author(*(word for word in TRAIN if word != "--quiet"), "--test-domain", "0.1")
    assert done.code == 0, done.err
    assert "--trust" in done.err


@pytest.mark.parametrize("place", ["module", "method"])
def test_a_part_that_ends_the_program_is_an_error(author, place):
    path = author.folder / "mine.py"
    text = path.read_text()
    if place == "module":
        path.write_text(text + "\nraise SystemExit(0)\n")
    else:
        path.write_text(text.replace("return Terms(", "raise SystemExit(0); return Terms("))
    done = author(*TRAIN, "--test-domain", "0.1")
    assert done.code == 3
    assert "SystemExit" in done.err
    if place == "method":
        (run,) = records.read_all(author.folder / "runs")
        assert run.status == "failed"
