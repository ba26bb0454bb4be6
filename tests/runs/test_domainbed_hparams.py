"""DomainBed's hyper-parameters: every name that it draws is a field, or named with a reason."""

import json
import os
import re
from dataclasses import fields
from pathlib import Path

import pytest

import riskmatch
from riskmatch.cli.train_options import parse_train
from riskmatch.defaults import domainbed_draw, resolve
from riskmatch.defaults.values import NOT_OF_DOMAINBED
from riskmatch.objectives import EQRM, IRM, methods
from riskmatch.runs.config import RunConfig
from riskmatch.runs.domainbed_hparams import OF_ALL, field_by_name, translate
from riskmatch.runs.domainbed_line import data_of, method_of
from riskmatch.runs.findings import RunWarning
from riskmatch.space import ranges

ALGORITHMS = (
    *("ERM", "Fish", "IRM", "GroupDRO", "Mixup", "MLDG", "CORAL", "MMD", "DANN", "CDANN", "MTL"),
    *("SagNet", "ARM", "VREx", "RSC", "SD", "ANDMask", "SANDMask", "IGA", "SelfReg", "Fishr"),
    *("TRM", "IB_ERM", "IB_IRM", "CAD", "CondCAD", "Transfer", "CausIRL_CORAL", "CausIRL_MMD"),
    *("EQRM", "RDM", "ADRMX", "ERMPlusPlus", "URM"),
)
RUN_FIELDS = {item.name for item in fields(RunConfig)}


@pytest.fixture(scope="module")
def draws():
    path = Path(os.environ.get("RISKMATCH_DATA", ""), "domainbed-draws.json")
    if "RISKMATCH_DATA" not in os.environ or not path.is_file():
        pytest.skip("needs the set domainbed-draws in the folder RISKMATCH_DATA")
    return json.loads(path.read_text())["draws"]


def method_class(algorithm):
    name, fixed = method_of(algorithm)
    if name not in methods():
        pytest.skip(f"{algorithm} has no method yet")
    return methods()[name], fixed


def test_the_page_has_a_row_for_each_of_the_34_algorithms():
    page = Path(__file__).parents[2] / "docs" / "domainbed.md"
    rows = re.findall(
        r"^\| (\w+) \| `([\w-]+)[^|]*\| (?:trajectory|loop) \|", page.read_text("utf-8"), re.M
    )
    assert dict(rows) == {name: method_of(name)[0] for name in ALGORITHMS}
    assert len(rows) == 34


@pytest.mark.needs_data
def test_the_draws_are_of_34_algorithms(draws):
    assert all(set(by_algorithm) == set(ALGORITHMS) for by_algorithm in draws.values())


@pytest.mark.needs_data
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_drawn_name_is_a_field_or_has_a_reason(draws, algorithm):
    cls, fixed = method_class(algorithm)
    own = {item.name for item in fields(cls)}
    for by_algorithm in draws.values():
        for hparams in by_algorithm[algorithm].values():
            given, left_out = translate(cls, hparams)
            assert all(len(reason.split()) > 1 for reason in left_out.values()), left_out
            assert len(given) + len(left_out) == len(hparams)  # no field twice
            cls(**fixed, **{name: given[name] for name in own & given.keys()})  # valid values
            assert given.keys() <= own | RUN_FIELDS


@pytest.mark.needs_data
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_defaults_and_ranges_are_those_that_are_drawn(draws, algorithm):
    cls, _ = method_class(algorithm)
    for draw, hparams in draws["PACS"][algorithm].items():
        given, _ = translate(cls, hparams)
        for name, tuned in ranges(cls).items():
            if name not in given:
                continue
            if (algorithm, name) == ("SANDMask", "tau"):
                assert given[name] in tuned.range  # with DomainBed's default nothing is learnt
            elif draw.endswith("hparams_seed 0"):
                assert given[name] == tuned.default, name
            else:
                assert given[name] in tuned.range, (name, given[name])


def test_a_field_stands_for_one_name_and_a_reason_is_a_text():
    for name, cls in methods().items():
        names = field_by_name(cls)
        known = {item.name for item in fields(cls)} | RUN_FIELDS
        targets = [target for target in names.values() if target in known]
        assert len(set(targets)) == len(targets), name
        assert all(" " in target for target in names.values() if target not in known), name


def test_warm_ups_are_rounded_up_and_unknown_names_are_listed():
    hparams = {"eqrm_burnin_iters": 423.28, "eqrm_lr": 1e-7, "warmup": 3, "resnet18": True}
    given, left_out = translate(EQRM, hparams)
    assert given == {"warmup": 424, "lr_after": 1e-7}
    assert left_out == {"warmup": "is unknown", "resnet18": OF_ALL["resnet18"]}
    assert translate(IRM, {"irm_penalty_anneal_iters": 2})[0] == {"warmup": 2}


def test_train_takes_a_file_and_options_win(tmp_path):
    file = tmp_path / "h.json"
    file.write_text(json.dumps({"irm_lambda": 3, "lr": 1e-4, "vit": False, "my_own": 1}))
    words = ["pacs", "--method", "irm", "--test-domain", "sketch", "--domainbed-hparams", str(file)]
    with pytest.warns(RunWarning, match=r"h\.json: .*irm.*vit \(the network.*my_own \(is unknown"):
        prepared, _ = parse_train([*words, "--lr", "2e-4"])
    assert (prepared.config.hparams["weight"], prepared.config.lr) == (3.0, 2e-4)
    assert prepared.config.hparams["warmup"] == 500  # its default


@pytest.mark.parametrize(("text", "cause"), [("{", "not JSON"), ("[1]", r"by name.*\[1\]")])
def test_files_that_are_no_hyper_parameters_are_refused(tmp_path, text, cause):
    file = tmp_path / "h.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=rf"h\.json: .*{cause}"):
        riskmatch.domainbed_options("irm", file)


@pytest.mark.needs_data
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_draws_equal_those_of_domainbed_to_the_last_digit(draws, algorithm):
    method, fixed = method_of(algorithm)
    cls = methods()[method]
    for dataset, by_algorithm in draws.items():
        data, _ = data_of(dataset)
        assert len(by_algorithm[algorithm]) == 6
        for place, hparams in by_algorithm[algorithm].items():
            trial, number = (int(word) for word in place.replace(",", "").split()[1::2])
            drawn = domainbed_draw(method, data, number, trial)
            settings = resolve(method, data, preset="domainbed", given={**fixed, **drawn})
            expected = translate(cls, hparams).fields
            assert {name: settings[name].value for name in expected} == expected
            assert drawn.keys() <= expected.keys()


def test_draws_of_dann_and_eqrm_are_those_of_domainbed():
    dann = domainbed_draw("dann", "pacs", 1, trial=0)
    assert dann == {
        **{"weight": 3.500347568342894, "critic_decay": 0.00010096814830489473},
        **{"critic_steps": 7, "gradient_penalty": 3.044417571888086, "beta1": 0.5},
        **{"critic_width": 255, "critic_depth": 4, "critic_dropout": 0.5},
        **{"lr": 0.00018927227584350511, "critic_lr": 1.7562793545765942e-05},
        **{"weight_decay": 0.003716490191663224, "batch_size": 39, "dropout": 0.5},
    }
    # 10 to a power between 2.5 and 3.5, which DomainBed compares with a count of steps.
    powers = [domainbed_draw("eqrm", "pacs", number, 0)["warmup"] for number in range(1, 5)]
    assert all(type(value) is int and 317 <= value <= 3163 for value in powers)


def test_domainbed_lacks_no_other_method_of_ours():
    ours = {method_of(algorithm)[0] for algorithm in ALGORITHMS}
    assert ours == methods().keys() - set(NOT_OF_DOMAINBED)
    assert len(ALGORITHMS) == 34


@pytest.mark.parametrize(
    ("method", "data", "message"),
    [
        ("miro", "pacs", "does not draw for miro; name methods that it has"),
        (
            "erm",
            "visits.csv",
            "no ranges for 'visits.csv', only for images in folders, colored",
        ),
        ("erm", "colored-digits", "no ranges for 'colored-digits'"),
    ],
)
def test_draws_that_domainbed_does_not_have_are_refused(
    method, data, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("visits.csv").write_text("late,airport\n1,JFK\n")
    with pytest.raises(ValueError, match=message):
        domainbed_draw(method, data, 1, 0)


def test_preset_domainbed_fine_tunes_its_network_as_it_does():
    for method in ("erm", "rdm", "arm"):
        values = {name: s.value for name, s in resolve(method, "pacs", preset="domainbed").items()}
        assert (values["model"], values["steps"]) == ("timm:resnet50.ram_in1k", 5001)
        assert values["model_options"] == {"freeze_bn": False}
        assert (values["replacement"], values["augment_validation"]) == (True, True)
        assert values["batch_size"] == {"erm": 32, "rdm": 88, "arm": 8}[method]
    digits = resolve("rdm", "colored-mnist", preset="domainbed")
    assert (digits["warmup"].value, digits["divergence"].value) == (1500, "mmd")
