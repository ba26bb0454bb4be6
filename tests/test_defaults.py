from dataclasses import fields
from itertools import pairwise

import pytest

from riskmatch.data.images.benchmarks import BENCHMARKS
from riskmatch.defaults import FROZEN, IMAGES, ON_DATA, PATH, PRESETS, configure, recipe, space_of
from riskmatch.objectives import methods
from riskmatch.runs.config import RunConfig
from riskmatch.space import draw

RUN = {field.name for field in fields(RunConfig)}


def own(method):
    return {field.name for field in fields(methods()[method])} if method else set()


@pytest.mark.parametrize("method", sorted(methods()))
@pytest.mark.parametrize("data", [None, "colored-digits", "domainnet"])
def test_a_recipe_sets_every_field_and_nothing_else(method, data):
    found = recipe(method, data)
    assert set(found) == own(method) | RUN - {"data", "test_domains", "method", "hparams"}
    config = configure(method, "some", ("a",), found)
    assert set(config.hparams) == own(method)
    methods()[method](**config.hparams)


def test_what_is_chosen_on_a_data_set_exists_and_is_not_searched_there():
    for data, choices in ON_DATA.items():
        for method, values in choices.items():
            assert values.keys() <= own(method) | RUN
            assert not values.keys() & space_of(method, data).keys()


def test_on_colored_digits_every_warm_up_ends_before_the_run_does():
    for method in methods():
        found = recipe(method, "colored-digits")
        assert found.get("warmup", 0) < found["steps"], method


@pytest.mark.parametrize("data", IMAGES)
def test_a_head_alone_takes_as_many_steps_but_larger_ones_and_the_rest_is_kept(data):
    for method in methods():
        whole, head = recipe(method, data), recipe(method, data, frozen=True)
        assert head["steps"] == whole["steps"] == 5000
        assert head["eval_every"] == whole["eval_every"] == (1000 if data == "domainnet" else 300)
        assert head["lr"] == pytest.approx(20 * whole["lr"])
        assert head.get("warmup", 0) < head["steps"]
        assert {name: head[name] for name in head if name not in FROZEN} == {
            name: whole[name] for name in whole if name not in FROZEN
        }
        space, scaled = space_of(method, data), space_of(method, data, frozen=True)
        assert space.keys() == scaled.keys()
        drawn, ours = draw(space, 7, data), draw(scaled, 7, data)
        for name, entry in scaled.items():
            factor = FROZEN.get(name, 1)
            assert entry.on(data).default == head[name]
            assert ours[name] == pytest.approx(
                drawn[name] * factor, rel=1e-5, abs=0.5 * (factor < 1)
            )
            assert ours[name] in entry.on(data).range


def test_presets_choose_what_exists_and_differ():
    for method, presets in PRESETS.items():
        for preset in presets.values():
            for data in [None, *preset.by_data]:
                assert preset.on(data).keys() <= own(method) | RUN
                found = {**recipe(method, data), **preset.on(data)}
                assert found["warmup"] < found["steps"]
        everything = [recipe(method, preset=name) for name in presets]
        assert all(one != other for one, other in pairwise(everything))


def test_images_are_trained_with_a_pretrained_backbone_and_the_papers_with_its_own():
    for data in ["pacs", "domainnet", "./pets", "pets.csv"]:
        assert recipe("erm", data)["model"] == "lite0"
        assert recipe("rdm", data, "paper")["model"] == "timm:resnet50.tv_in1k"
    assert recipe("erm", "pacs")["batch_size"] == 32
    small = recipe("erm", "rotated-mnist")
    assert (small["model"], small["lr"], small["batch_size"]) == ("cnn", 1e-3, 64)


def test_the_names_of_image_benchmarks_are_those_of_the_catalogue():
    assert {*IMAGES, PATH} == {*BENCHMARKS, PATH}
