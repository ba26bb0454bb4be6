import subprocess
import sys
from pathlib import Path

import pytest

from riskmatch.cli.train import Train

CALL = """
import sys
from riskmatch.cli import main
code = main(sys.argv[1:])
heavy = {"torch", "pandas", "matplotlib", "sklearn", "scipy"} & set(sys.modules)
assert not heavy - set([%s]), heavy
sys.exit(code)
"""


def call(words, allowed=""):
    command = [sys.executable, "-c", CALL % allowed, *words.split()]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "--help",
        "--version",
        "advise --help",
        "methods --help",
        "data --help",
        "data doctor --help",
        "embed --help",
        "evaluate --help",
        "export --help",
        "figure",
        "monitor --help",
        "predict --help",
        "report --help",
        "reproduce --help",
        "train --help",
    ],
)
def test_help_imports_neither_torch_nor_pandas(words):
    done = call(words, allowed="'pandas'" if words == "figure" else "")
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_list_of_commands_imports_no_numpy():
    code = "import sys, riskmatch.cli as c; c.main(['--help']); assert 'numpy' not in sys.modules"
    assert "usage" in subprocess.check_output([sys.executable, "-c", code], text=True)


@pytest.mark.parametrize("words", ["sweep status", "sweep table", "sweep table --costs"])
def test_sweep_status_and_table_import_no_torch(words):
    sweep = str(Path(__file__).parents[2] / "results" / "pacs" / "fine-tuned")
    done = call(f"{words} {sweep}", allowed="'pandas', 'scipy'")
    assert done.returncode == 0, done.stderr
    assert "ERM" in done.stdout.upper()


def test_unknown_command_imports_no_torch():
    done = call("trian")
    assert done.returncode == 2
    assert done.stderr == "riskmatch: Unknown command 'trian'. Did you mean 'train'?\n"


def test_help_lists_commands_and_exit_codes(riskmatch):
    text = riskmatch("--help").out
    for word in ("commands", "methods", "train", "examples", "exit codes", "--debug"):
        assert word in text
    assert max(map(len, text.splitlines())) < 100


def test_examples_of_the_help_are_valid(riskmatch):
    examples = riskmatch("--help").out.split("examples\n")[1].split("\n\n")[0].splitlines()
    _, describe, train = (line.split()[1:] for line in examples)
    assert riskmatch(*describe).code == 0
    assert Train.parse("train", train[1:]).config.method == "rdm"


def test_version(riskmatch):
    from importlib.metadata import version

    assert riskmatch("--version").out == f"riskmatch {version('riskmatch')}\n"


def test_train_help_has_common_options(riskmatch):
    text = riskmatch("train", "--help").out
    assert "--batch-size N" in text
    assert "--weight " not in text
    assert "riskmatch train DATA --method NAME --help" in text


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (("colored-digits",), ("samples=N", "options of mlp", "widths=NAME")),
        (("colored-digits", "--model", "cnn"), ("samples=N", "options of cnn", "widths=NAME")),
        (
            ("pacs", "--model", "lite0"),
            ("image_size=N", "options of lite0", "pretrained="),
        ),
    ],
)
def test_train_help_has_options_of_data_set_and_network(riskmatch, words, options):
    text = " ".join(riskmatch("train", *words, "--help").out.split())
    assert "--data-option KEY=VALUE" in text
    assert "--model-option KEY=VALUE" in text
    assert all(option in text for option in options)


def test_train_help_has_options_of_the_method_with_ranges(riskmatch):
    text = " ".join(riskmatch("train", "--method", "rdm", "--help").out.split())
    assert "--lr-after X Learning rate after the warm-up (default 1.5e-5; searched in" in text
    assert "--match {worst,variance}" in text
    assert "--rescale, --no-rescale" in text


def test_train_help_has_defaults_of_data_set_and_preset(riskmatch):
    words = ["train", "domainnet", "--method", "rdm", "--help"]
    assert "(default 2400; searched in U(1500, 3000))" in " ".join(riskmatch(*words).out.split())
    words += ["--preset", "paper"]
    assert "(default paper)" in " ".join(riskmatch(*words).out.split())


@pytest.mark.parametrize("words", ["--help", "methods", "data list"])
def test_closed_pipe_is_no_error(words):
    command = f"'{sys.executable}' -m riskmatch.cli {words} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("0\n", "")
