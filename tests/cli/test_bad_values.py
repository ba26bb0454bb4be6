"""Values and files without sense end with one line: cause, value and cure."""

import os
import shlex
from pathlib import Path

import pytest
import torch
from tiny import train

import riskmatch as package
from riskmatch.data.doctor.survey import survey
from riskmatch.data.images.manifest import read_manifest
from riskmatch.runs.findings import RunWarning

PLAN = "sweep plan s --data colored-digits --data-option samples=40 --methods erm --test-domain 0.1"


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        ("--data-option samples=0", ["samples", "at least 1", "got 0"]),
        ("--data-option samples=-1", ["samples", "at least 1", "got -1"]),
        ("--model-option widths=[]", ["widths", "positive integers", "got []"]),
        (f"--seed 1{'0' * 30}", ["seed", "2^63"]),
        (f"--data-option samples={'[' * 2000}{']' * 2000}", ["samples"]),
    ],
)
def test_value_without_sense_is_named(riskmatch, words, facts):
    result = riskmatch(*train("erm", *shlex.split(words)))
    assert (result.code, result.out) == (2, "")
    for fact in facts:
        assert fact in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        ("--memory -1 --cost", ["--memory", "positive", "-1"]),
        ("--memory 0 --cost", ["--memory", "positive", "0"]),
        ("--out ''", ["--out", "path", "''"]),
        ("--resume --restart", ["--resume", "--restart", "give one"]),
        ("--device mps", ["Device mps is not available", "Give cpu"]),
        ("--device meta", ["Device meta is not available", "Give cpu"]),
    ],
)
def test_option_that_makes_no_sense_is_refused_before_anything_is_written(riskmatch, words, facts):
    result = riskmatch(*train("erm", *shlex.split(words)))
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    for fact in facts:
        assert fact in result.err
    assert "aten::" not in result.err
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        ("train --bogus", ["'--bogus'", "See riskmatch train --help"]),
        ("sweep run --bogus", ["'--bogus'", "See riskmatch sweep run --help"]),
        ("reproduce zz", ["table or figure 'zz'", "'table1'"]),
        ("reproduce tabel1", ["'tabel1'", "Did you mean 'table1'?"]),
        ("data get mnist --mirror file:///etc", ["'file:///etc'", "https://", "--data-dir"]),
        ("data get mnist --mirror /etc", ["'/etc'", "https://"]),
        ("train '' --method erm", ["DATA", "name", "''"]),
        ("predict '' x.csv -o p.csv", ["MODEL", "path", "''"]),
    ],
)
def test_unusable_words_are_named_with_a_cure(riskmatch, words, facts):
    result = riskmatch(*shlex.split(words))
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    for fact in facts:
        assert fact in result.err
    assert "Did you mean '--" not in result.err


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (f"steps = {'[' * 10**4}1{']' * 10**4}", "too deeply"),
        (f"{'a.' * 10**4}a = 1", "too deeply"),
        (f"seed = {'9' * 10**6}", "digits"),
        (f"seed = 0x{'f' * 10**6}", "digits"),
        (f"seed = {'9' * 4000}", "2^63"),
        ("[model-option]\nwidths = 2024-01-01", "date"),
        ("steps = 1\x00", "not TOML"),
    ],
)
def test_toml_that_cannot_be_used_is_named(riskmatch, content, fact):
    Path("run.toml").write_text(content)
    result = riskmatch(*train("erm", "--config", "run.toml"))
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert fact in result.err
    assert len(result.err) < 300


def test_configuration_in_a_pipe_is_refused_rather_than_waited_for(riskmatch):
    os.mkfifo("pipe")
    result = riskmatch(*train("erm", "--config", "pipe"))
    assert result.code == 2
    assert "--config pipe: It is a pipe" in result.err
    assert "regular file" in result.err


def test_misspelt_data_set_is_named_rather_than_the_option_of_its_network(riskmatch):
    result = riskmatch(*shlex.split("train packs --method erm --test-domain a --frozen"))
    assert result.code == 2
    assert "'packs'" in result.err
    assert "pacs" in result.err


@pytest.mark.parametrize("content", [b"\x81\x00\xff\n", b'{"config": ' + b"[" * 10**5 + b"}\n"])
@pytest.mark.parametrize("verb", ["status", "run", "table"])
def test_plan_that_is_none_is_named_with_its_line(riskmatch, content, verb):
    Path("s").mkdir()
    Path("s/plan.jsonl").write_bytes(content)
    result = riskmatch("sweep", verb, "s")
    assert (result.code, result.out) == (2, "")
    assert "s/plan.jsonl, line 1, is not a run" in result.err


@pytest.mark.parametrize("content", [b"[" * 10**5, b"\xff", b"{}"])
def test_figure_that_cannot_be_read_is_named(riskmatch, content):
    Path("f.json").write_bytes(content)
    result = riskmatch("figure", "f.json", "-o", "f.png")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "f.json" in result.err


def test_plan_of_too_many_runs_is_refused(riskmatch):
    result = riskmatch(*shlex.split(PLAN), "--draws", "100000000")
    assert result.code == 2
    assert "300,000,000 runs" in result.err
    assert not Path("s").exists()


def test_manifests_that_cannot_be_read_are_named(tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow
    import pyarrow.parquet

    columns = {name: ["a.png", "b.png"] * 500 for name in ("path", "label", "domain")}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "m.parquet")
    content = bytearray((tmp_path / "m.parquet").read_bytes())
    content[4:60] = bytes(56)
    (tmp_path / "m.parquet").write_bytes(content)
    (tmp_path / "m.json").write_text("[" * 10**5)
    (tmp_path / "m.csv").write_text("path,label,domain,label\na.png,cat,a,dog\n")
    for name, fact in (("m.parquet", "damaged"), ("m.json", "JSON"), ("m.csv", "'label' twice")):
        with pytest.raises(ValueError, match=f"{name}.*{fact}"):
            read_manifest(tmp_path / name)


def test_many_missing_files_are_summarised(tmp_path):
    rows = "".join(f"{number}.png,cat,a\n" for number in range(1000))
    (tmp_path / "m.csv").write_text(f"path,label,domain\n{rows}")
    _, findings = survey(tmp_path / "m.csv")
    missing = [finding for finding in findings if finding.kind == "missing-file"]
    assert len(missing) == 101
    assert "900 more" in missing[-1].message


def samples(*labels):
    return torch.randn(len(labels) * 10, 3), torch.tensor(labels * 10)


def test_data_of_one_class_are_refused(tmp_path):
    data = {"a": samples(0), "b": samples(0), "c": samples(0)}
    with pytest.raises(ValueError, match="one class only"):
        package.train(data, "erm", "c", out=tmp_path, steps=2)


def test_class_of_the_test_domain_alone_is_named(tmp_path):
    data = {"a": samples(0, 1), "b": samples(0, 1), "c": samples(0, 2)}
    with pytest.warns(RunWarning, match="class '2' of the test domain 'c'"):
        package.train(data, "erm", "c", out=tmp_path, steps=2)
