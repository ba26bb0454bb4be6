"""Defaults of runs: the order of the layers, presets, frozen backbones, parts of the user's own."""

import os
from dataclasses import dataclass, fields

import numpy as np
import pytest

from riskmatch.contract import Objective, Terms
from riskmatch.data.images.benchmark import BENCHMARKS
from riskmatch.defaults import (
    FROZEN,
    IMAGES,
    ON_DATA,
    PATH,
    PRESETS,
    field_names,
    given_for,
    resolve,
    run_config,
    search_space,
    setting_lines,
    values_of,
)
from riskmatch.divergence import MMD
from riskmatch.objectives import methods
from riskmatch.registry import PartError
from riskmatch.runs.config import RunConfig
from riskmatch.space import TRAINING, Tuned, Uniform, draw, tuned

RUN = {field.name for field in fields(RunConfig)}


@dataclass(frozen=True)
class Own(Objective):
    """A method of the user's own."""

    weight: float = tuned(2.0, Uniform(1, 3), pacs=Tuned(5.0, Uniform(4, 6)))
    pool: str = "domains"

    citation = "None"

    def __call__(self, ev, memory):
        return Terms({"risk": ev.risk})


@dataclass(frozen=True, kw_only=True)
class Demanding(Own):
    """A method with a field that has no default."""

    target: float


class Undecorated(Own):
    """A method that lacks the decorator."""

    depth: int = 3


OWN = f"{__name__}:Own"


def values(*args, **options):
    """Values of all fields, without their sources."""
    return values_of(resolve(*args, **options))


def hparams(method):
    return {field.name for field in fields(methods()[method])} if method else set()


@pytest.mark.parametrize("method", sorted(methods()))
@pytest.mark.parametrize("data", [None, "colored-digits", "domainnet"])
def test_every_field_of_run_and_method_has_a_value(method, data):
    resolved = values(method, data)
    expected = hparams(method) | RUN - {"data", "test_domains", "method", "hparams", "source"}
    assert set(resolved) == set(field_names(method)) == expected
    config = run_config(method, "pacs", ("photo",))
    methods()[method](**config.hparams)


def test_defaults_that_a_run_declares_are_those_of_training():
    assert {name: getattr(RunConfig, name) for name in TRAINING} == {
        name: entry.default for name, entry in TRAINING.items()
    }


def test_each_layer_wins_over_those_before():
    assert values()["lr"] == 5e-5
    assert values("rdm", "rotated-mnist")["lr"] == 1e-3  # the method on the data set
    assert values("erm", "colored-mnist")["dropout"] == 0.2  # the data set
    assert values("rdm", "colored-mnist")["weight"] == 1e4
    assert values("rdm", "colored-mnist", preset="paper")["weight"] == 5000.0
    given = {"weight": 7.0}
    assert values("rdm", "colored-mnist", preset="paper", given=given)["weight"] == 7.0


@pytest.mark.parametrize(
    ("arguments", "options", "line"),
    [
        (("rdm", "pacs"), {"frozen": True}, "lr 0.001: frozen features, 20 × rdm's 5e-5"),
        (("rdm", "pacs"), {}, "lr 5e-5: rdm's default"),
        (("rdm", "pacs"), {}, "amp false: default"),
        (("rdm", "pacs"), {"given": {"lr": 5e-5}}, "lr 5e-5: given"),
        (("rdm", "domainnet"), {}, "warmup 2400: rdm's default on domainnet"),
        (
            ("rdm", "domainnet"),
            {"frozen": True},
            "warmup 480: frozen features, 0.2 × rdm's 2400 on domainnet",
        ),
        (("erm", "colored-digits"), {}, "steps 350: default on colored-digits"),
        (("rdm", "colored-digits"), {}, "weight 1000: rdm's default on colored-digits"),
        (("rdm", "pacs"), {"preset": "paper"}, "kernel paper: default of preset paper"),
        (("rdm", "pacs"), {"frozen": True}, "model_options frozen=true: given"),
        (
            ("erm", "colored-mnist"),
            {"given": {"model_options": {"init": None}}},
            "model_options widths=[390, 390, 390] single_logit=true: "
            "default on colored-mnist; given",
        ),
        (("erm", "x.npz"), {"single": True}, "patience 5: a single run on a file of features"),
        (("erm", "x.npz"), {"single": True, "given": {"steps": 9}}, "patience 0: default"),
        (("erm", "x.npz"), {}, "patience 0: default"),
        (("erm", "x.npz"), {}, "lr 0.001: a file of features, 20 × erm's 5e-5"),
    ],
)
def test_settings_tell_where_each_value_comes_from(arguments, options, line):
    assert line in setting_lines(resolve(*arguments, **options))


def test_options_are_merged_by_key_and_none_removes_a_default():
    usual = values("erm", "colored-mnist")["model_options"]
    given = {"model_options": {"widths": [8]}}
    assert values("erm", "colored-mnist", given=given)["model_options"] == usual | {"widths": [8]}
    given = {"model_options": {"init": None}}
    options = values("erm", "colored-mnist", given=given)["model_options"]
    assert options == {name: value for name, value in usual.items() if name != "init"}
    given = {"data_options": {"seed": 1}}
    options = values("rdm", "colored-mnist", preset="paper", given=given)["data_options"]
    assert options == {"preset": "paper", "seed": 1}


def test_options_of_another_network_are_dropped():
    resolved = values("erm", "colored-mnist", given={"model": "cnn"})
    assert (resolved["model"], resolved["model_options"]) == ("cnn", {})
    given = {"model": "mlp", "model_options": {"widths": [8]}}
    assert values("erm", "pacs", given=given)["model_options"] == {"widths": [8]}


def test_integers_become_floats_where_the_field_is_a_float():
    one, other = (run_config("rdm", "pacs", ["photo"], given={"weight": w}) for w in (3, 3.0))
    assert one.id == other.id


def test_numpy_numbers_give_the_run_of_python_numbers():
    given = {"seed": 3, "steps": 2000, "lr": 0.1, "weight": 0.5, "amp": True, "clip": 2.0}
    types = (np.int64, np.int32, np.float32, np.float16, np.bool_, np.float64)
    arrays = {name: type_(given[name]) for name, type_ in zip(given, types, strict=True)}
    nested = {"model_options": {"widths": [4]}}, {"model_options": {"widths": [np.int64(4)]}}
    runs = [
        run_config("rdm", "colored-digits", ["0.1"], given=values)
        for values in ({**given, **nested[0]}, {**arrays, **nested[1]})
    ]
    assert runs[0].id == runs[1].id
    with pytest.raises(ValueError, match="steps must be an integer, got 1"):
        run_config("rdm", "colored-digits", ["0.1"], given={"steps": np.float64(1.5)})


def test_values_set_by_data_set_or_preset_exist_and_are_not_searched():
    for data, by_method in ON_DATA.items():
        for method, values in by_method.items():
            assert values.keys() <= hparams(method) | RUN
            assert not values.keys() & search_space(method, data).keys()
    space = search_space("rdm", "colored-digits", preset="paper")
    assert not space.keys() & PRESETS["paper"].on("rdm", "colored-digits").keys()


def test_warmups_end_before_the_run_on_colored_digits():
    for method in methods():
        resolved = values(method, "colored-digits")
        assert resolved.get("warmup", 0) < resolved["steps"], method


@pytest.mark.parametrize("data", IMAGES)
def test_frozen_backbone_scales_learning_rates_and_warmup_only(data):
    for method in methods():
        whole, head = values(method, data), values(method, data, frozen=True)
        assert head.pop("model_options") == {"frozen": True}
        assert head["steps"] == whole["steps"] == 5000
        assert head["eval_every"] == whole["eval_every"] == (1000 if data == "domainnet" else 300)
        assert head["lr"] == pytest.approx(20 * whole["lr"])
        assert head.get("warmup", 0) < head["steps"]
        assert {name: head[name] for name in head if name not in FROZEN} == {
            name: whole[name] for name in head if name not in FROZEN
        }
        space, scaled = search_space(method, data), search_space(method, data, frozen=True)
        assert space.keys() == scaled.keys()
        drawn, ours = draw(space, 7, data), draw(scaled, 7, data)
        for name, entry in scaled.items():
            factor = FROZEN.get(name, 1)
            assert entry.on(data).default == head[name]
            assert ours[name] in entry.on(data).range
            if not isinstance(drawn[name], str):  # the activation of URM
                expected = pytest.approx(drawn[name] * factor, rel=1e-5, abs=0.5 * (factor < 1))
                assert ours[name] == expected


def test_frozen_can_be_given_as_an_option_of_the_network():
    given = {"model_options": {"frozen": True}}
    assert resolve("rdm", "pacs", given=given) == resolve("rdm", "pacs", frozen=True)


@pytest.mark.parametrize("method", sorted(methods()))
@pytest.mark.parametrize("preset", PRESETS)
def test_presets_set_existing_fields(method, preset):
    for data in [None, *PRESETS[preset].by_data]:
        assert PRESETS[preset].on(method, data).keys() <= hparams(method) | RUN
        resolved = values(method, data, preset=preset)
        assert method != "rdm" or resolved["warmup"] < resolved["steps"]


def test_presets_of_rdm_differ_as_the_paper_and_its_code_do():
    paper, code = (values("rdm", "vlcs", preset=name) for name in ("paper", "authors-code"))
    assert {name: (paper[name], code[name]) for name in paper if paper[name] != code[name]} == {
        "kernel": ("paper", "authors-code"),
        "pool": ("domains", "samples"),
        "replacement": (False, True),
        "augment_validation": (False, True),
    }


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("method", ["rdm", "erm-switch"])
def test_only_coloured_digits_have_a_cosine_schedule(method, preset):
    cosine = {"paper": "cosine", "authors-code": "cosine-after-warmup"}.get(preset, "constant")
    for data in ("colored-mnist", "colored-digits"):
        assert values(method, data, preset=preset)["schedule"] == cosine
    for data in (*IMAGES, "rotated-mnist", "./pets"):
        assert values(method, data, preset=preset)["schedule"] == "constant"


WEIGHTS = {"pacs": "U(1, 10)", "terraincognita": "U(1, 10)", "domainnet": "U(0.1, 1)"}
DROPOUTS = dict.fromkeys(("terraincognita", "domainnet"), "{0.0, 0.003, 0.03}")


@pytest.mark.parametrize("data", sorted(BENCHMARKS))
def test_authors_code_searches_the_ranges_of_the_released_code(data):
    def searched(preset, method="rdm"):
        space = search_space(method, data, preset=preset)
        return {name: str(entry.on(data).range) for name, entry in space.items()}

    code = searched("authors-code")
    assert code["weight"] == WEIGHTS.get(data, "U(0.1, 10)")
    assert code["dropout"] == DROPOUTS.get(data, "{0.0, 0.003}")
    assert searched("authors-code", "erm-switch")["dropout"] == code["dropout"]
    assert searched("authors-code", "erm") == searched(None, "erm")
    usual = searched(None)
    assert searched("paper") == usual
    assert usual["dropout"] == "{0.0, 0.003, 0.03}"
    assert usual["weight"] == ("U(0.1, 1)" if data == "domainnet" else "U(0.1, 10)")
    assert code.keys() == usual.keys()
    assert values("rdm", data, preset="authors-code")["weight"] == values("rdm", data)["weight"]


def test_erm_switch_has_the_defaults_and_ranges_of_rdm():
    for data in (None, *ON_DATA):
        for frozen in (False, True):
            rdm, switch = (search_space(m, data, frozen=frozen) for m in ("rdm", "erm-switch"))
            assert switch == {name: entry for name, entry in rdm.items() if name in switch}
            rdm, switch = (values(m, data, frozen=frozen) for m in ("rdm", "erm-switch"))
            assert switch == {name: value for name, value in rdm.items() if name in switch}


def test_images_have_a_pretrained_backbone():
    for data in ["pacs", "domainnet", "./pets", "pets.csv"]:
        assert values("erm", data)["model"] == "lite0"
        assert values("rdm", data, preset="paper")["model"] == "timm:resnet50.tv_in1k"
    assert values("erm", "pacs")["batch_size"] == 32
    small = values("erm", "rotated-mnist")
    assert (small["model"], small["lr"], small["batch_size"]) == ("cnn", 1e-3, 64)


def test_image_benchmarks_are_those_of_the_catalogue():
    assert {*IMAGES, PATH} == {*BENCHMARKS, PATH}


@pytest.mark.parametrize("method", [OWN, Own])
def test_own_method_has_the_defaults_and_ranges_of_its_dataclass(method):
    assert values(method)["weight"] == 2.0
    assert values(method, "pacs")["weight"] == 5.0
    assert str(search_space(method, "pacs")["weight"].on("pacs").range) == "U(4, 6)"
    config = run_config(method, "pacs", ["photo"], given={"weight": 4})
    assert (config.method, config.hparams["weight"]) == (OWN, 4.0)


def test_hyper_parameters_are_stated_in_full_and_given_where_they_differ():
    assert run_config(OWN, "pacs", ["photo"]).hparams == {"weight": 5.0, "pool": "domains"}
    config = run_config(OWN, "pacs", ["photo"], given={"pool": "samples"})
    assert config.hparams == {"weight": 5.0, "pool": "samples"}
    assert given_for(config) == {"pool": "samples"}


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        ("rdm", {"wieght": 1}, "Did you mean 'weight'"),
        ("rdm", {"weight": "much"}, "weight of rdm must be a number, got 'much'"),
        ("rdm", {"match": "wrost"}, "Did you mean 'worst'"),
        ("rdm", {"divergence": "mdm"}, "Did you mean 'mmd'"),
        ("rdm", {"divergence": MMD()}, r"got MMD\(.*RDM\(divergence=.*package.module:Name"),
        ("erm", {"lr": -1.0}, "lr must be positive, got -1.0"),
        ("erm", {"method": "rdm"}, "Unknown option of erm 'method'"),
        ("erm", {"data_options": {"image_sise": 3}}, "Did you mean 'image_size'"),
        ("erm", {"model_options": {"size": "big"}}, "size of lite0 must be an integer or None"),
        ("erm", {"model": "timm:resnet18", "model_options": {"sise": 1}}, "Did you mean 'size'"),
        ("rmd", {}, "Did you mean 'rdm'"),
        ("json:JSONDecoder", {}, "must be a frozen dataclass"),
        (f"{__name__}:Undecorated", {}, "lacks @dataclass"),
    ],
)
def test_wrong_values_are_refused(method, given, message):
    with pytest.raises(ValueError, match=message):
        run_config(method, "pacs", ["photo"], given=given)


def test_frozen_needs_a_backbone():
    with pytest.raises(ValueError, match=r"frozen needs a backbone, such as lite0.* mlp"):
        run_config("erm", "colored-digits", ["0.1"], frozen=True)


def test_unknown_preset_is_refused():
    with pytest.raises(ValueError, match="Did you mean 'paper'"):
        resolve("rdm", preset="papr")


def test_field_without_default_must_be_given():
    with pytest.raises(ValueError, match="Give target"):
        run_config(Demanding, "pacs", ["photo"])
    assert run_config(Demanding, "pacs", ["photo"], given={"target": 1}).hparams["target"] == 1.0


def test_path_is_the_same_from_any_folder(tmp_path, monkeypatch):
    (tmp_path / "pets").mkdir()
    monkeypatch.chdir(tmp_path)
    config = run_config("erm", "pets", ["ink"])
    assert config.data == str(tmp_path / "pets")
    monkeypatch.chdir("pets")
    assert run_config("erm", os.path.join("..", "pets"), ["ink"]) == config


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"weight": 1 / 3, "clip": 1.0, "seed": 7},
        {"model_options": {"init": None, "widths": [8]}, "data_options": {"seed": 3}},
        {"model": "cnn"},
        {"replacement": True, "pool": "samples"},
        {"model": "lite0", "model_options": {"frozen": True}},
        {"model": "lite0", "model_options": {"frozen": True, "size": 64}, "lr": 0.5},
    ],
)
def test_given_for_inverts_run_config(given):
    config = run_config("rdm", "colored-mnist", ["0.9"], given=given)
    assert given_for(config) == given
    assert run_config("rdm", "colored-mnist", ["0.9"], given=given_for(config)) == config


def test_given_for_needs_a_known_method():
    with pytest.raises(PartError):
        given_for(RunConfig("pacs", ("photo",), "sideways"))
