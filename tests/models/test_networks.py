import pytest
import torch

from riskmatch.models import build


@pytest.mark.parametrize("name", ["mlp", "cnn"])
@pytest.mark.parametrize("shape", [(2, 8, 8), (3, 28, 28)])
def test_networks_return_features_and_logits(name, shape):
    features, logits = build(name, shape, 5, options={"widths": [8, 16]})(torch.rand(3, *shape))
    assert (features.shape, logits.shape) == ((3, 16), (3, 5))


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_seed_fixes_the_weights_without_using_the_global_stream(name):
    before = torch.get_rng_state()
    one, same, other = (build(name, (2, 8, 8), 2, seed=seed).state_dict() for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert not torch.equal(one["classifier.weight"], other["classifier.weight"])


@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_dropout_acts_only_in_training(name):
    model, x = build(name, (2, 8, 8), 2, dropout=0.5), torch.rand(4, 2, 8, 8)
    assert not torch.equal(model(x)[1], model(x)[1])
    model.eval()
    assert torch.equal(model(x)[1], model(x)[1])


def test_unknown_networks_and_options_suggest_the_nearest():
    with pytest.raises(ValueError, match=r"Unknown network 'mpl'. Did you mean 'mlp'"):
        build("mpl", (2,), 2)
    with pytest.raises(ValueError, match=r"Unknown option of mlp 'width'. Did you mean 'widths'"):
        build("mlp", (2,), 2, options={"width": 3})
    with pytest.raises(ValueError, match="needs images"):
        build("cnn", (7,), 2)
