import json
from collections import defaultdict
from pathlib import Path

import pytest

from riskmatch.defaults import resolve, search_space, values_of
from riskmatch.sweep.plan import (
    FILE,
    PlannedRun,
    Protocol,
    extend,
    held_out,
    parse_draws,
    read,
    sweep_settings,
    title_of,
)

PACS = ("art_painting", "cartoon", "photo", "sketch")
TESTS = tuple((name,) for name in PACS)
RUNS = Protocol("colored-digits", ("erm", "vrex"), (("0.1",),), draws=2, trials=2).runs()


def hyper_parameters(config, data="pacs"):
    """The values that a search may change, by name."""
    values = {**config.to_json(), **config.hparams}
    return {name: values[name] for name in search_space(config.method, data)}


def draws_by_place(fixed):
    """The hyper-parameters of each draw and trial."""
    values = defaultdict(set)
    for run in Protocol("pacs", ("vrex",), TESTS, fixed_draws=fixed).runs():
        drawn = hyper_parameters(run.config)
        values[run.draw, run.config.trial].add(tuple(sorted(drawn.items())))
    assert all(len(drawn) == 1 for drawn in values.values())  # the same for all test domains
    return {place: drawn.pop() for place, drawn in values.items()}


def test_domains_are_held_out_together():
    sets = held_out(PACS, together=[("sketch", "cartoon")])
    assert sets == [("art_painting",), ("cartoon", "sketch"), ("photo",)]
    for groups, message in (
        ([("photo", "phot")], "phot"),
        ([("photo",)], "two or more domains"),
        ([("photo", "sketch"), ("sketch", "cartoon")], "'sketch'.*join the groups"),
        ([PACS], "none is left to train on"),
    ):
        with pytest.raises(ValueError, match=message):
            held_out(PACS, together=groups)
    with pytest.raises(ValueError, match="exclude leave_two_out"):
        held_out(PACS, pairs=True, together=[("photo", "sketch")])


def test_default_protocol_has_20_draws_and_3_trials_per_domain():
    runs = Protocol("pacs", ("rdm", "coral"), TESTS).runs()
    assert len(runs) == 20 * 3 * 4 * 2
    config = runs[0].config
    assert (config.steps, config.eval_every) == (5000, 300)
    assert Protocol("domainnet", ("erm",), (("real",),)).runs()[0].config.eval_every == 1000


def test_first_draw_is_the_defaults_and_others_lie_in_their_ranges():
    usual = values_of(resolve("rdm", "pacs"))
    for run in Protocol("pacs", ("rdm",), TESTS).runs():
        drawn = hyper_parameters(run.config)
        if run.draw == 0:
            assert drawn == {name: usual[name] for name in drawn}
        else:
            space = search_space("rdm", "pacs")
            assert all(drawn[name] in entry.range for name, entry in space.items())


def test_each_trial_has_its_own_draws_but_for_the_defaults():
    drawn = draws_by_place(fixed=False)
    assert len({drawn[0, trial] for trial in range(3)}) == 1
    assert len(set(drawn.values())) == 1 + 19 * 3


def test_fixed_draws_are_the_same_in_every_trial():
    drawn = draws_by_place(fixed=True)
    assert len(set(drawn.values())) == 20
    assert drawn[7, 0] == drawn[7, 2] == draws_by_place(fixed=False)[7, 0]


def test_draws_do_not_depend_on_the_path_of_the_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("photos", "moved"):
        Path(name).mkdir()

    def drawn(data):
        runs = Protocol(data, ("rdm",), (("a",),), draws=3, trials=2).runs()
        return [(run.config.lr, run.config.batch_size, run.config.hparams) for run in runs]

    assert drawn("photos") == drawn("./photos") == drawn(str(tmp_path / "moved"))
    assert drawn("photos") != drawn("pacs")


def test_more_draws_trials_or_methods_change_no_run():
    few = {run.config.id for run in Protocol("pacs", ("erm",), TESTS, 3, 1).runs()}
    many = {run.config.id for run in Protocol("pacs", ("erm", "rdm"), TESTS, 4, 2).runs()}
    assert few < many


def test_methods_share_the_split_and_seed_of_a_trial():
    runs = Protocol("pacs", ("erm", "rdm"), TESTS[:1], draws=1).runs()
    assert [(run.config.trial, run.config.seed) for run in runs] == [
        (trial, trial) for trial in (0, 1, 2) for _ in range(2)
    ]


def test_runs_are_ordered_by_draw():
    draws = [run.draw for run in Protocol("pacs", ("erm", "rdm"), TESTS, 3).runs()]
    assert draws == sorted(draws)


def test_choices_are_not_drawn_and_apply_to_the_methods_that_have_them():
    choices = {"weight": 2.0, "lr": 1e-4, "model_options": {"frozen": True}}
    for run in Protocol("pacs", ("erm", "rdm"), TESTS[:1], 3, 1, choices=choices).runs():
        assert run.config.lr == 1e-4
        assert run.config.model_options == {"frozen": True}
        assert run.config.hparams.get("weight") == (2.0 if run.config.method == "rdm" else None)


def test_equal_runs_are_listed_once():
    fixed = {name: resolve("erm", "pacs")[name].value for name in search_space("erm", "pacs")}
    assert len(Protocol("pacs", ("erm",), TESTS, 5, 1, choices=fixed).runs()) == 4


def test_pairs_are_listed_once():
    tests = held_out(PACS, pairs=True)
    assert len(tests) == len(set(map(frozenset, tests))) == 4 + 6


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"methods": ("rmd",)}, ("method 'rmd'", "'rdm'")),
        ({"draws": 0}, ("draws", "at least 1", "0")),
        ({"choices": {"wieght": 1}}, ("option of rdm 'wieght'", "'weight'")),
        ({"choices": {"trial": 1}}, ("option of rdm 'trial'",)),
    ],
)
def test_protocol_rejects_invalid_arguments(changes, facts):
    with pytest.raises(ValueError, match=facts[0]) as error:
        Protocol(**{"data": "pacs", "methods": ("rdm",), "tests": TESTS, **changes})
    assert all(fact in str(error.value) for fact in facts)


def test_protocol_rejects_a_warmup_longer_than_the_run():
    with pytest.raises(ValueError, match=r"rdm .*1500 steps.*500 steps"):
        Protocol("pacs", ("rdm",), TESTS, choices={"steps": 500}).runs()


def test_plan_round_trip(tmp_path):
    assert extend(tmp_path / "new", RUNS, "some command") == RUNS
    assert read(tmp_path / "new") == RUNS


def test_plan_file_lists_command_titles_and_configurations(tmp_path):
    extend(tmp_path, RUNS, "some command")
    head, first, *_ = map(json.loads, (tmp_path / FILE).read_text().splitlines())
    assert (head["made by"], head["runs"]) == ("some command", len(RUNS))
    assert first["title"] == "erm on colored-digits without 0.1, draw 0, trial 0"
    assert first["config"]["weight_decay"] == 0


def test_plan_keeps_titles_and_makes_missing_ones(tmp_path):
    config = RUNS[0].config
    extend(tmp_path, [PlannedRun(config, "baseline")], "some command")
    assert read(tmp_path) == [PlannedRun(config, "baseline")]
    lines = (tmp_path / FILE).read_text().replace('"title": "baseline", ', "")
    (tmp_path / FILE).write_text(lines)
    assert read(tmp_path) == [PlannedRun(config, title_of(config))]


def test_extend_keeps_the_file_and_adds_missing_runs(tmp_path):
    extend(tmp_path, RUNS[:3], "first")
    before = (tmp_path / FILE).read_text()
    assert extend(tmp_path, RUNS, "second") == RUNS[3:]
    assert (tmp_path / FILE).read_text().startswith(before)
    assert extend(tmp_path, RUNS, "third") == []
    assert read(tmp_path) == RUNS


def test_plan_lines_can_be_removed_repeated_and_edited(tmp_path):
    extend(tmp_path, RUNS, "some command")
    lines = (tmp_path / FILE).read_text().splitlines()
    edited = json.loads(lines[3])
    edited["config"]["steps"] = 7
    cut = [lines[2], "", json.dumps(edited), lines[2]]
    (tmp_path / FILE).write_text("\n".join(cut))  # no newline at the end
    assert [run.config.steps for run in read(tmp_path)] == [RUNS[1].config.steps, 7]
    extend(tmp_path, RUNS, "again")
    assert len(read(tmp_path)) == len(RUNS) + 1


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ("{", "Expecting"),
        ('{"draw": 0, "config": {"data": "d"}}', "config.test_domains is missing"),
        (
            '{"draw": 0, "config": {"data": "d", "test_domains": [], "method": "erm", "stesp": 1}}',
            "'stesp'. Did you mean 'steps'?",
        ),
    ],
)
def test_damaged_line_is_named(tmp_path, line, fact):
    (tmp_path / FILE).write_text("{}\n" + line + "\n")
    with pytest.raises(ValueError, match="line 2, is not a run") as error:
        read(tmp_path)
    assert fact in str(error.value)


def test_folder_without_a_plan_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=rf"{tmp_path} has no {FILE}"):
        read(tmp_path)


def test_settings_of_a_sweep_tell_what_later_draws_vary():
    settings = sweep_settings("pacs", ["erm", "rdm"], choices={"weight": 2.0})
    assert settings["rdm"]["weight"] == (2.0, "given")
    assert settings["erm"]["lr"] == (5e-5, "erm's default, drawn from 10^U(-5, -3.5)")
    assert "weight" not in settings["erm"]
    frozen = sweep_settings("pacs", ["rdm"], choices={"model_options": {"frozen": True}})
    assert frozen["rdm"]["lr"].source.startswith(
        "frozen features, 20 × rdm's 5e-5, drawn from 20 ·"
    )


@pytest.mark.parametrize(
    ("draws", "expected"), [(7, (7, False)), ("7", (7, False)), ("domainbed:3", (3, True))]
)
def test_draws_are_a_number_or_those_of_domainbed(draws, expected):
    assert parse_draws(draws) == expected
    for wrong in ("many", "domainbed:", "domainbed:x", "-1", "2.5"):
        with pytest.raises(ValueError, match="draws must be a whole number, or domainbed"):
            parse_draws(wrong)


def test_draws_of_domainbed_depend_on_the_trial_unless_they_are_fixed():
    def rates(**more):
        runs = Protocol("pacs", ("erm", "vrex"), TESTS[:1], 3, 2, **more).runs()
        return [(run.draw, run.config.trial, run.config.lr) for run in runs]

    drawn = rates(domainbed=True)
    assert drawn[:4] == [(0, trial, 5e-5) for trial in (0, 0, 1, 1)]
    assert drawn[4::2] == drawn[5::2]  # a learning rate is drawn alike for all methods
    assert len({rate for draw, _, rate in drawn if draw}) == 4
    fixed = rates(domainbed=True, fixed_draws=True)
    assert {rate for draw, trial, rate in fixed if draw == 1} == {drawn[4][2]}
    with pytest.raises(ValueError, match="whole networks, not for heads on frozen"):
        Protocol(
            "pacs", ("erm",), TESTS, choices={"model_options": {"frozen": True}}, domainbed=True
        )


def test_settings_name_the_ranges_of_domainbed():
    setting = sweep_settings("pacs", ["rdm"], draws="domainbed")["rdm"]["lr"]
    assert setting == (5e-5, "DomainBed's default, drawn from 10^U(-5, -3.5)")
    given = sweep_settings("pacs", ["rdm"], draws="domainbed", choices={"lr": 1e-3})
    assert given["rdm"]["lr"].source == "given"
