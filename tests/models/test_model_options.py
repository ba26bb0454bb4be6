import pytest

from riskmatch.models import build, check


@pytest.mark.parametrize(
    ("network", "option", "value", "expected"),
    [
        ("lite0", "size", "big", "an integer or None"),
        ("lite0", "size", 64.5, "an integer or None"),
        ("lite0", "size", True, "an integer or None"),
        ("lite0", "pretrained", "no", "true or false"),
        ("lite0", "pretrained", 0, "true or false"),
        ("lite0", "frozen", "yes", "true or false"),
        ("lite0", "freeze_bn", "yes", "true, false or None"),
        ("lite0", "weights", 3, "a string or None"),
        ("lite0", "scale", "ten", "a number"),
        ("lite0", "views", 1.5, "an integer"),
        ("timm:resnet18", "size", [64], "an integer or None"),
        ("mlp", "widths", 64, "a list of integers"),
        ("mlp", "widths", "64", "a list of integers"),
        ("mlp", "widths", [64, "b"], "a list of integers"),
        ("mlp", "single_logit", "true", "true or false"),
        ("cnn", "widths", None, "a list of integers"),
    ],
)
def test_value_of_wrong_type_raises(network, option, value, expected):
    for refused in (
        lambda: check(network, {option: value}),
        lambda: build(network, (3, 32, 32), 2, options={option: value}),
    ):
        with pytest.raises(ValueError, match=f"^{option} of {network}") as error:
            refused()
        assert expected in str(error.value)
        assert repr(value) in str(error.value)


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
