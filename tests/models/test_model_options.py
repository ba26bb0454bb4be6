import pytest

from riskmatch.models import build, check


@pytest.mark.parametrize(
    ("network", "option", "value", "cause"),
    [
        ("lite0", "size", "big", "is not a whole number or null"),
        ("lite0", "size", 64.5, "is not a whole number or null"),
        ("lite0", "size", True, "is not a whole number or null"),
        ("lite0", "pretrained", "no", "is not true or false"),
        ("lite0", "pretrained", 0, "is not true or false"),
        ("lite0", "frozen", "yes", "is not true or false"),
        ("lite0", "freeze_bn", "yes", "is not true, false or null"),
        ("lite0", "weights", 3, "is not a text or null"),
        ("lite0", "scale", "ten", "is not a number"),
        ("lite0", "views", 1.5, "is not a whole number"),
        ("timm:resnet18", "size", [64], "is not a whole number or null"),
        ("mlp", "widths", 64, "is not a list of whole numbers"),
        ("mlp", "widths", "64", "is not a list of whole numbers"),
        ("mlp", "widths", [64, "b"], "is not a list of whole numbers"),
        ("mlp", "single_logit", "true", "is not true or false"),
        ("cnn", "widths", None, "is not a list of whole numbers"),
    ],
)
def test_value_of_wrong_type_raises(network, option, value, cause):
    for call in (
        lambda: check(network, {option: value}),
        lambda: build(network, (3, 32, 32), 2, options={option: value}),
    ):
        with pytest.raises(ValueError, match=r"^Option ") as caught:
            call()
        assert str(caught.value) == f"Option {option} of {network}: {value!r} {cause}."


@pytest.mark.parametrize(("network", "option"), [("mlp", "init"), ("lite0", "head")])
def test_unknown_choice_suggests_the_nearest(network, option):
    with pytest.raises(ValueError, match=f"Unknown {option} of {network} 'linaer'"):
        check(network, {option: "linaer"})


@pytest.mark.parametrize(
    ("network", "options"),
    [
        ("mlp", {"widths": [8], "init": "xavier", "single_logit": True}),
        ("mlp", {"widths": (8, 8)}),
        ("lite0", {"pretrained": False, "size": None, "scale": 5, "head": "cosine", "views": 2}),
    ],
)
def test_valid_options_pass(network, options):
    check(network, options)
