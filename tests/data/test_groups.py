"""Groups: samples that belong together are on one side of every split, in all domains."""

import re

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from riskmatch import load_data
from riskmatch.data import Domain, DomainSet
from riskmatch.data.features import read_features, write_features
from riskmatch.data.splits import check_splits, group_ids, on_validation_side, split, splits
from riskmatch.engine.data_identity import identity_of

GROUPS = st.lists(st.integers(0, 40), min_size=1, max_size=60)


def domain(name, groups):
    n = len(groups)
    groups = torch.tensor(groups, dtype=torch.long)
    return Domain(name, torch.arange(float(n))[:, None], torch.zeros(n).long(), groups=groups)


def groups_in(part):
    return set(part.groups.tolist())


@given(
    data=st.lists(GROUPS, min_size=2, max_size=5),
    trial=st.integers(0, 20),
    tests=st.sets(st.integers(0, 4)),
)
@settings(max_examples=300, deadline=None)
def test_no_group_is_on_two_sides_of_any_split(data, trial, tests):
    domains = [domain(str(k), groups) for k, groups in enumerate(data)]
    tests = {str(k) for k in tests if k < len(domains)}
    try:
        parts = splits(domains, trial, tests)
    except ValueError as error:
        message = str(error)
    else:
        message = ""
    if message:  # of a part that is empty
        with pytest.raises(ValueError, match=re.escape(message)):
            check_splits(domains, trial, tests)
        named = [one for one in domains if f"'{one.name}'" in message]
        assert f"{len(groups_in(named[0]))} group" in message
        return
    trained = {g for d, part in parts.items() if d not in tests for g in groups_in(part["train"])}
    for one in domains:
        part = parts[one.name]
        together = torch.cat([part["train"].x, part["val"].x]).flatten()
        assert sorted(together.tolist()) == list(range(len(one)))
        assert not groups_in(part["train"]) & groups_in(part["val"])
        held_out = part["train" if one.name in tests else "val"]
        assert not groups_in(held_out) & trained
        if one.name in tests and groups_in(one) & trained:
            assert groups_in(part["val"]) == groups_in(one) & trained


def test_sides_are_those_of_a_fair_draw_that_differs_by_trial():
    ids = torch.arange(20_000)
    sides = [on_validation_side(ids, trial) for trial in (0, 1)]
    for side in sides:
        assert float(side.float().mean()) == pytest.approx(0.2, abs=4 * 0.4 / 20_000**0.5)
    both = (sides[0] & sides[1]).float().mean()
    assert float(both) == pytest.approx(0.04, abs=4 * 0.2 / 20_000**0.5)
    assert torch.equal(on_validation_side(ids.flip(0), 0), sides[0].flip(0))


def test_sides_do_not_depend_on_other_samples_or_domains():
    groups = list(range(30))
    alone = split(domain("a", groups), trial=4)["val"]
    others = splits([domain("a", groups), domain("b", range(10, 90))], 4)
    assert groups_in(others["a"]["val"]) == groups_in(alone)
    assert groups_in(others["b"]["val"]) & {*groups} <= groups_in(alone)


def test_names_have_one_id_wherever_they_are_read():
    assert group_ids(["7", "p7", "07"]).tolist() == group_ids(["7", "p7", "07"]).tolist()
    assert group_ids(["7"]).item() == 7
    assert len(set(group_ids(["p7", "07", "7", "7.5", str(10**30)]).tolist())) == 5
    x, y = torch.zeros(3, 2), torch.tensor([0, 1, 0])
    given_as = [["1", "2", "2"], [1, 2, 2], np.array([1.0, 2.0, 2.0]), torch.tensor([1, 2, 2])]
    for groups in given_as:
        data = load_data({"a": (x, y, groups), "b": (x, y)}, group={"a": groups, "b": groups})
        assert [one.groups.tolist() for one in data.domains] == [[1, 2, 2]] * 2


def table(**columns):
    n = 60
    patient = np.arange(n) // 3
    frame = {
        "age": np.random.default_rng(0).normal(size=n),
        "patient": [f"p{k}" for k in patient],
        "site": np.array(["a", "b"])[patient % 2],
        "ill": np.array(["yes", "no"])[np.arange(n) % 2],
    }
    return pd.DataFrame({**frame, **columns})


NAMES = {"label": "ill", "domain": "site"}


def test_a_table_has_the_groups_of_its_column_in_memory_and_in_files(tmp_path):
    frame = table()
    frame.to_csv(tmp_path / "visits.csv", index=False)
    for source in (frame, tmp_path / "visits.csv"):
        data = load_data(source, **NAMES, group="patient")
        assert [column.name for column in data.columns] == ["age"]
        for one in data.domains:
            rows = frame[frame["site"] == one.name]
            assert one.groups.tolist() == group_ids(rows["patient"]).tolist()
        fitted = data.fitted(["b"])
        assert torch.equal(fitted.domains[0].groups, data.domains[0].groups)


@pytest.mark.parametrize(
    ("columns", "group", "facts"),
    [
        ({"patient": [*"abc", None, *"d" * 56]}, "patient", ("'patient'", "row 4", "drop")),
        ({"patient": np.arange(60) / 7}, "patient", ("'patient'", "fractions", "group")),
        ({}, "patients", ("'patients'", "patient")),
        ({}, "site", ("domain and group", "'site'")),
    ],
)
def test_errors_of_a_column_of_groups_name_the_place_and_the_cure(columns, group, facts):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        load_data(table(**columns), **NAMES, group=group)
    for fact in facts:
        assert fact in str(caught.value)


def test_errors_of_groups_in_memory_name_the_domain():
    x, y = torch.zeros(3, 2), torch.tensor([0, 1, 0])
    good = [1, 2, 3]
    for groups, facts in [
        ({"a": good}, ("'b'",)),
        ({"a": good, "b": good, "c": good}, ("'c'", "'a', 'b'")),
        ({"a": good, "b": [1, None, 2]}, ("'b'", "row 2")),
        ({"a": good, "b": [1, 2]}, ("'b'", "3 samples", "(2,)")),
    ]:
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            load_data({"a": (x, y), "b": (x, y)}, group=groups)
        for fact in facts:
            assert fact in str(caught.value)
    with pytest.raises(ValueError, match=r"'b'.*no groups"):
        load_data({"a": (x, y, good), "b": (x, y)})
    with pytest.raises(TypeError, match="group"):
        load_data({"a": (x, y), "b": (x, y)}, group="patient")
    with pytest.raises(TypeError, match="column"):
        load_data("colored-digits", group={"0.1": good})
    validation = Domain("a", x, y)
    with pytest.raises(ValueError, match=r"'a'.*validation samples of its own"):
        Domain("a", x, y, validation, torch.arange(3))


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
@pytest.mark.parametrize("views", [1, 2])
def test_files_of_features_keep_groups(tmp_path, suffix, views):
    pytest.importorskip("pyarrow") if suffix == ".parquet" else None
    x, y = torch.randn(6, views, 3), torch.arange(6) % 2
    groups = group_ids(["ann", "ann", "ben", "7", "7", "cid"])
    domains = tuple(Domain(name, x if views > 1 else x[:, 0], y, groups=groups) for name in "ab")
    write_features(DomainSet("made", domains, 2), tmp_path / f"made{suffix}")
    read = load_data(tmp_path / f"made{suffix}", group="group")
    assert all(torch.equal(one.groups, groups) for one in read.domains)
    assert read_features(tmp_path / f"made{suffix}").domains[0].groups is None
    with pytest.raises(ValueError, match=r"made.*no column 'patient'"):
        load_data(tmp_path / f"made{suffix}", group="patient")


def test_a_file_of_features_of_ones_own_has_a_column_of_texts(tmp_path):
    columns = {"domain": [*"aabb"], "label": [0, 1, 0, 1], "patient": ["x", "y", "x", "z"]}
    arrays = {name: np.array(values) for name, values in columns.items()}
    np.savez(tmp_path / "own.npz", features=np.ones((4, 2)), **arrays)
    data = load_data(tmp_path / "own.npz", group="patient")
    assert torch.cat([one.groups for one in data.domains]).tolist() == group_ids("xyxz").tolist()


def test_identity_of_data_covers_groups_and_names_domains_that_share_them():
    x, y = torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])

    def identity(*groups):
        names = "abc"[: len(groups)]
        return identity_of(load_data({n: (x, y, g) for n, g in zip(names, groups, strict=True)}))

    apart = identity([1, 1, 2, 2], [3, 3, 4, 4], [5, 5, 6, 6])
    assert apart.shared_groups == ()
    assert "shared_groups" not in apart.to_json()
    other = identity([1, 1, 2, 2], [3, 3, 4, 2], [5, 5, 6, 6])
    assert other.shared_groups == ("a", "b")
    assert other.to_json()["shared_groups"] == ["a", "b"]
    assert apart.changes(other)
    without = identity_of(load_data({"a": (x, y), "b": (x, y), "c": (x, y)}))
    assert without.content not in (apart.content, other.content)


@pytest.mark.parametrize(
    ("groups", "number"), [([[0] * 5, [*range(40)]], 1), ([[0, 1], [*range(2, 40)]], 2)]
)
def test_an_empty_part_names_the_domain_and_its_number_of_groups(groups, number):
    domains = [domain(name, part) for name, part in zip("ab", groups, strict=True)]
    trial = next(
        k for k in range(50) if len(set(on_validation_side(domains[0].groups, k).tolist())) == 1
    )
    with pytest.raises(ValueError, match=f"'a' has {number} group") as caught:
        splits(domains, trial)
    assert "another" in str(caught.value)


def test_a_test_domain_without_unseen_groups_is_refused():
    train = domain("a", range(40))
    seen = (~on_validation_side(train.groups, 0)).nonzero()[:, 0].tolist()
    with pytest.raises(ValueError, match=f"'b' has {len(seen)} group"):
        splits([train, domain("b", seen)], 0, ["b"])
