import json
import re
from pathlib import Path

import pytest
from digits import accept, place, random_mnist
from mirror import Mirror, serving

from riskmatch.data import DATASETS
from riskmatch.data.images.benchmark import BENCHMARKS

PACS = BENCHMARKS["pacs"]

RUN = "train colored-mnist --method erm --test-domain 0.9 --steps 2 --eval-every 2 --json"


@pytest.fixture
def files(monkeypatch, tmp_path):
    made = random_mnist()
    accept(monkeypatch, made)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return made


def test_list_has_every_data_set_and_the_commands_to_get_them(
    riskmatch, files, tmp_path, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("RISKMATCH_DATA", raising=False)
    text = riskmatch("data", "list").out
    assert max(map(len, text.splitlines())) <= 80
    lines = [line.split() for line in text.splitlines()]
    firsts = [line[0] for line in lines if line]
    assert [name for name in firsts if name in DATASETS] == list(DATASETS)
    for name, source in DATASETS.items():
        words = [word for domain in source.domains for word in domain.split()]
        assert all(word in text for word in words)  # none is cut
        expected = ["no" if source.files else "yes", f"{source.classes}", f"{source.samples:,}"]
        assert next(line for line in lines if line and line[0] == name)[1:4] == expected
    assert [" ".join(line) for line in lines[-2:]] == [
        "riskmatch data get mnist colored-mnist, rotated-mnist",
        "riskmatch data get NAME pacs, vlcs, officehome, terraincognita, domainnet",
    ]
    place(files, tmp_path / "elsewhere" / "mnist")
    listed = json.loads(riskmatch("data", "list", "--json", "--data-dir", "elsewhere").out)
    assert {entry["name"] for entry in listed} == set(DATASETS)
    here = {entry["name"] for entry in listed if entry["here"]}
    assert {"colored-digits", "colored-mnist", "rotated-mnist"} <= here


@pytest.mark.parametrize("name", ["mnist", "rotated-mnist"])
def test_get_downloads_and_prints_the_folder(riskmatch, files, tmp_path, name):
    with serving(Mirror({}), Mirror(files)) as (empty, good):
        words = ["data", "get", name, "--mirror", empty, "--mirror", good]
        done = riskmatch(*words)
        folder = tmp_path / "cache" / "riskmatch" / "mnist"
        assert (done.code, done.out) == (0, f"{name} is in {folder}, verified\n")
        assert re.findall(r"^(\S+\.gz) · [\d.]+ (?:bytes|kB)$", done.err, re.M) == list(files)
        assert re.findall(r"^verifying (\S+)$", done.err, re.M) == list(files)
        assert riskmatch(*words).err == ""  # nothing was left to fetch
        quiet = riskmatch(*words, "--data-dir", "there", "--quiet")
        assert (quiet.out, quiet.err) == ("", "")
    assert len(list(Path("there", "mnist").iterdir())) == 4


@pytest.mark.parametrize("place", ["there/PACS", "there/kfold", "there"])
def test_get_finds_a_benchmark_under_any_of_its_names(riskmatch, tmp_path, monkeypatch, place):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("RISKMATCH_DATA", raising=False)
    for domain in DATASETS["pacs"].domains:
        for label in PACS.class_names:
            folder = tmp_path / place / domain / label
            folder.mkdir(parents=True)
            (folder / "1.jpg").touch()
    done = riskmatch("data", "get", "pacs", "--data-dir", "there", "--mirror", "http://127.0.0.1:9")
    assert done.code == 2
    assert done.err.startswith(f"riskmatch: {place} differs from PACS as published: ")
    listed = json.loads(riskmatch("data", "list", "--json", "--data-dir", "there").out)
    assert "pacs" in {entry["name"] for entry in listed if entry["here"]}


def test_failed_download_ends_with_3_and_names_the_folder(riskmatch, files):
    with serving(Mirror({})) as (empty,):
        done = riskmatch("data", "get", "mnist", "--mirror", empty, "--data-dir", "there")
    assert done.code == 3
    assert done.err.startswith("riskmatch: Could not download train-images-idx3-ubyte.gz. Tried: ")
    assert done.err.endswith("place train-images-idx3-ubyte.gz in there/mnist.\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("lst", "Unknown command of riskmatch data 'lst'. Did you mean 'list'?"),
        ("get", "riskmatch data get needs NAME"),
        ("get mnist pacs", "riskmatch data get takes NAME, got mnist pacs. See riskmatch data get"),
        ("get minst", "Unknown data set to download 'minst'. Did you mean 'mnist'?"),
        ("get colored-digits", "colored-digits has no files to download"),
        ("get mnist --mirror nowhere", "A mirror must be a URL"),
        ("list mnist", "Unknown data set 'mnist'. Valid: 'colored-digits'"),
    ],
)
def test_bad_input_is_one_line(riskmatch, files, words, message):
    done = riskmatch("data", *words.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"riskmatch: {message}")
    assert done.err.count("\n") == 1


def test_help_lists_verbs_and_options(riskmatch):
    assert riskmatch("data").out == riskmatch("data", "--help").out
    assert "riskmatch data get mnist" in riskmatch("data", "--help").out
    assert "--mirror NAME" in riskmatch("data", "get", "--help").out


def test_data_dir_does_not_change_the_run(riskmatch, files, tmp_path):
    missing = riskmatch(*RUN.split())
    assert missing.code == 2
    assert missing.err.startswith("riskmatch: MNIST is not on this machine; ")
    place(files, tmp_path / "elsewhere" / "mnist")
    first = json.loads(riskmatch(*RUN.split(), "--out", "a", "--data-dir", "elsewhere").out)
    place(files, tmp_path / "cache" / "riskmatch" / "mnist")
    second = json.loads(riskmatch(*RUN.split(), "--out", "b").out)
    assert first["id"] == second["id"]
    assert first["evaluation"]["scores"] == second["evaluation"]["scores"]
    assert set(first["evaluation"]["scores"]) == {"0.1", "0.2", "0.9"}


def test_test_domain_of_colored_mnist_cannot_be_trained_on(riskmatch, files, tmp_path):
    place(files, tmp_path / "elsewhere")
    done = riskmatch(*RUN.replace("0.9", "0.1").split(), "--data-dir", "elsewhere")
    assert done.code == 2
    assert "Domain '0.9' of 'colored-mnist' is for tests only; make it a test domain." in done.err


@pytest.mark.parametrize(
    ("data", "option", "message"),
    [
        (
            "colored-digits",
            "samples=b",
            "samples of colored-digits must be an integer, got 'b'",
        ),
        ("colored-mnist", "p=0.1", "p of colored-mnist must be a list of numbers, got 0.1"),
        ("pacs", "augment=no", "augment of pacs must be true or false, got 'no'"),
    ],
)
def test_wrong_option_is_refused_before_the_data_are_read(riskmatch, data, option, message):
    words = f"train {data} --method erm --test-domain {DATASETS[data].domains[0]} --data-option"
    done = riskmatch(*words.split(), option)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"riskmatch: {message}.\n"
