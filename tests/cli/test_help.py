import subprocess
import sys
from pathlib import Path

import pytest

from riskmatch.cli.request import read

ASK = """
import sys
from riskmatch.cli import main
code = main(sys.argv[1:])
assert "torch" not in sys.modules, "torch was imported"
sys.exit(code)
"""


@pytest.mark.parametrize(
    "words",
    [
        "",
        "--help",
        "--version",
        "methods --help",
        "data --help",
        "data doctor --help",
        "embed --help",
        "figure",
        "report --help",
        "reproduce --help",
        "train --help",
        "train colored-digits -h",
    ],
)
def test_help_answers_without_torch(words):
    done = subprocess.run([sys.executable, "-c", ASK, *words.split()], capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("words", ["sweep status", "sweep table", "sweep table --costs"])
def test_a_sweep_is_looked_at_without_torch(words):
    sweep = str(Path(__file__).parents[2] / "results" / "pacs" / "fine-tuned")
    done = subprocess.run([sys.executable, "-c", ASK, *words.split(), sweep], capture_output=True)
    assert done.returncode == 0, done.stderr
    assert b"ERM" in done.stdout.upper()


def test_a_mistyped_command_is_answered_without_torch():
    done = subprocess.run([sys.executable, "-c", ASK, "trian"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "riskmatch: Unknown command 'trian'. Did you mean 'train'?\n"


def test_help_teaches(riskmatch):
    text = riskmatch("--help").out
    for word in ("commands", "methods", "train", "examples", "exit codes", "--debug"):
        assert word in text
    assert max(map(len, text.splitlines())) < 100


def test_the_examples_of_the_help_are_accepted(riskmatch):
    examples = riskmatch("--help").out.split("examples\n")[1].split("\n\n")[0].splitlines()
    _, describe, train = (line.split()[1:] for line in examples)
    assert riskmatch(*describe).code == 0
    assert read(train[1:]).config.method == "rdm"


def test_the_version_is_that_of_the_package(riskmatch):
    from importlib.metadata import version

    assert riskmatch("--version").out == f"riskmatch {version('riskmatch')}\n"


def test_train_help_shows_the_common_options_and_where_to_find_the_rest(riskmatch):
    text = riskmatch("train", "--help").out
    assert "--batch-size N" in text
    assert "--weight " not in text
    assert "riskmatch train --method NAME --help" in text


def test_train_help_shows_the_options_of_the_method_with_ranges(riskmatch):
    text = " ".join(riskmatch("train", "--method", "rdm", "--help").out.split())
    assert "--lr-after X Learning rate after the warm-up (default 1.5e-05; searched in" in text
    assert "--match {worst,variance}" in text
    assert "--rescale, --no-rescale" in text


def test_train_help_shows_what_holds_on_the_data_set_and_with_the_preset(riskmatch):
    words = ["train", "domainnet", "--method", "rdm", "--help"]
    assert "(default 2400; searched in U(1500, 3000))" in " ".join(riskmatch(*words).out.split())
    words += ["--preset", "paper"]
    assert "(default paper)" in " ".join(riskmatch(*words).out.split())


def test_a_reader_that_leaves_early_is_no_error():
    command = f"'{sys.executable}' -m riskmatch.cli --help | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("0\n", "")
