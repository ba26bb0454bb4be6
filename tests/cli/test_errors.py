import sys
from pathlib import Path

import pytest
from tiny import train

RUN = "train colored-digits --method rdm --test-domain 0.1"
NO_METHOD = "train colored-digits --test-domain 0.1"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("trian", "Unknown command 'trian'. Did you mean 'train'?"),
        ("frobnicate", "Unknown command 'frobnicate'. See riskmatch --help."),
        ("--verison", "Unknown option '--verison'. Did you mean '--version'?"),
        ("train", "Give a data set, such as colored-digits"),
        (f"{RUN} pacs", "riskmatch train takes DATA, got colored-digits pacs. See riskmatch"),
        (NO_METHOD, "Give --method NAME; riskmatch methods lists them."),
        (
            f"{NO_METHOD} --method rmd",
            "Unknown method 'rmd'. Did you mean 'rdm'? Valid: 'adrmx',",
        ),
        (
            f"{NO_METHOD} --method erm --quantile 1",
            "erm has no option --quantile; it belongs to eqrm.",
        ),
        (f"{RUN} --preset papr", "Unknown preset 'papr'. Did you mean 'paper'?"),
        (f"{RUN} --wieght 3", "Unknown option '--wieght'. Did you mean '--weight'?"),
        (f"{RUN} --match wrost", "Unknown --match 'wrost'. Did you mean 'worst'?"),
        (
            f"{RUN} --weight much",
            "--weight must be a number, got 'much'. See",
        ),
        (f"{RUN} --clip", "--clip needs a value. See riskmatch train --help."),
        (f"{RUN} --lr --amp", "--lr needs a value. See riskmatch train --help."),
        (f"{RUN} --method", "--method needs a value. See riskmatch train --help."),
        (f"{RUN} --resume=yes", "--resume takes no value. See riskmatch train --help."),
        (f"{RUN} --steps 0", "steps must be positive, got 0."),
        (f"{RUN} --model mpl", "Unknown network 'mpl'. Did you mean 'mlp'?"),
        (f"{RUN} --device tpuu", "Device tpuu is not available: give cpu, cuda, cuda:1, mps or"),
        (
            f"{RUN} --data-option sample=9",
            "Unknown option of colored-digits 'sample'. Did you mean",
        ),
        (f"{RUN} --config no.toml", "--config no.toml: No such file or directory."),
        (
            "train colored-digits --method rdm",
            "Give --test-domain, one of '0.9', '0.8', '0.1';",
        ),
        (
            f"{RUN} --test-domain 0.11",
            "Unknown domain of 'colored-digits' '0.11'. Did you mean '0.1'?",
        ),
        (
            "train colord-digits --method rdm --test-domain 0.1",
            "Unknown data set 'colord-digits'. Did you mean 'colored-digits'?",
        ),
    ],
)
def test_bad_input_is_one_line(riskmatch, words, message):
    done = riskmatch(*words.split())
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith(f"riskmatch: {message}")
    assert done.err.count("\n") == 1
    assert not Path("runs").exists()


def test_errors_have_at_most_20_lines_and_2000_characters(riskmatch):
    rows = [f"2024-01-01T{k // 60:02d}:{k % 60:02d}:00.{'0' * 40},{k % 2},{k}" for k in range(900)]
    Path("visits.csv").write_text("\n".join(["when,late,wait", *rows]))
    table = ("visits.csv", "--label", "late", "--domain", "when", "--method", "erm")
    endless = "x" * 100_000
    for words in (("train", *table), ("train", *table, "--ignore", endless), ("show", endless)):
        done = riskmatch(*words)
        assert done.code == 2
        assert len(done.err) <= 2001
        assert done.err.count("\n") <= 20
    assert "and" in riskmatch("train", *table).err
    assert riskmatch("train", *table).err.endswith("more; or --all-domains.\n")


def test_toml_file_is_checked_like_the_command_line(riskmatch):
    Path("run.toml").write_text("wieght = 3\n")
    done = riskmatch(*RUN.split(), "--config", "run.toml")
    assert done.code == 2
    assert done.err == "riskmatch: run.toml: Unknown option '--wieght'. Did you mean '--weight'?\n"
    Path("run.toml").write_text("weight: 3\n")
    assert "--config run.toml is not TOML: " in riskmatch(*RUN.split(), "--config", "run.toml").err


def test_missing_package_names_its_extra(riskmatch, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    done = riskmatch(*RUN.split(), "--log", "tensorboard")
    assert done.code == 2
    assert "pip install 'riskmatch[tensorboard]'" in done.err


def test_divergence_ends_with_3_and_names_a_cure(riskmatch):
    done = riskmatch(*train("erm", "--lr", "1e30"))
    assert done.code == 3
    assert "'0.9'" in done.err
    assert "smaller --lr" in done.err
    assert "Traceback" not in done.err
    assert done.err.rstrip().endswith("--resume")


def test_debug_shows_the_traceback(riskmatch):
    done = riskmatch("train", "colored-digits", "--method", "erm", "--steps", "x", "--debug")
    assert done.code == 2
    assert done.err.startswith("Traceback")
    assert done.err.splitlines()[-1].startswith("riskmatch: --steps must be an integer, got 'x'.")


def test_unexpected_error_has_no_traceback(riskmatch, monkeypatch):
    def broken(command):
        raise LookupError("lost")

    monkeypatch.setattr("riskmatch.cli.methods.Methods.execute", broken)
    done = riskmatch("methods")
    assert done.code == 3
    assert done.err == "riskmatch: LookupError: lost (--debug shows the traceback)\n"
