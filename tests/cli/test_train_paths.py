"""Paths and options of image data sets on the command line."""

import csv
import os
import shlex

import pytest

pytest.importorskip("PIL", reason="needs the extra riskmatch[images]")

from pets import DOMAINS, draw_pets

from riskmatch.cli.train import Train
from riskmatch.data.catalogue import known_domains

RUN = shlex.split("--method erm --test-domain oil")


@pytest.fixture
def pets(riskmatch, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return draw_pets(tmp_path / "pets")


def test_link_to_a_manifest_keeps_its_folder(pets, tmp_path):
    (tmp_path / "store").mkdir()
    with open(tmp_path / "store" / "v1.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "label", "domain"])
        for path in pets.rglob("*.png"):
            rows.writerow([path.relative_to(tmp_path), path.parts[-2], path.parts[-3]])
    (tmp_path / "pets.csv").symlink_to("store/v1.csv")
    (tmp_path / "linked").symlink_to(tmp_path)
    data = Train.parse("train", ["linked/pets.csv", *RUN]).config.data
    assert data == str(tmp_path / "pets.csv")
    assert known_domains(data) == DOMAINS


def test_link_to_a_folder_is_resolved(pets, tmp_path):
    (tmp_path / "linked").symlink_to(pets)
    assert Train.parse("train", ["linked", *RUN]).config.data == str(pets)


def test_names_of_domains_are_normalised(pets):
    odd = os.fsdecode(b"caf\xe9")
    for name, shown in {"cafe\u0301": "caf\u00e9", odd: r"caf\udce9"}.items():
        (pets / "oil").rename(pets / name)
        assert known_domains(str(pets)) == (shown, "ink", "photo")
        words = ["pets", "--method", "erm", "--test-domain"]
        domains = {
            Train.parse("train", [*words, given]).config.test_domains for given in (name, shown)
        }
        assert domains == {(shown,)}
        (pets / name).rename(pets / "oil")


def test_path_that_is_not_utf8_is_refused(riskmatch, pets):
    odd = os.fsdecode(b"p\xe9ts")
    pets.rename(pets.with_name(odd))
    done = riskmatch("train", odd, *RUN)
    assert done.code == 2
    assert f"'{pets.parent}/p\\udce9ts' must be UTF-8" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("option", ["image_size=0", "image_size=big", "augment=no"])
def test_wrong_option_values_are_refused(riskmatch, pets, option):
    done = riskmatch("train", "pets", *RUN, "--frozen", "--data-option", option)
    name, value = option.split("=")
    assert done.code == 2
    assert name in done.err
    assert (value if value == "0" else repr(value)) in done.err
    assert done.err.count("\n") == 1
