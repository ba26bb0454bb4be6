import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch
from safetensors.torch import save_file

from riskmatch.models import WeightsError, build, trunk
from riskmatch.models.trunk import import_torchvision

pytestmark = pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed")


def images(*shape):
    return torch.randint(256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_torchvision_imports_in_a_fresh_process():
    code = "from riskmatch.models.trunk import import_torchvision as get;"
    code += "print(get().transforms.Resize(4), get() is get())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Resize(size=4")
    assert done.stdout.endswith("True\n")


def test_resnet18_normalises_like_timm():
    import_torchvision()
    import timm
    from torchvision.transforms.functional import normalize

    model = trunk("timm:resnet18.tv_in1k", pretrained=False).eval()
    config = timm.get_pretrained_cfg("resnet18.tv_in1k")
    x = images(2, 3, 224, 224)
    with torch.no_grad():
        ours, theirs = model(x), model.body(normalize(x / 255, config.mean, config.std))
    assert ours.shape == (2, model.width) == (2, 512)
    assert torch.allclose(ours, theirs, atol=1e-4)
    assert model.preprocess.interpolation == config.interpolation == "bilinear"


@pytest.mark.parametrize(
    ("name", "width", "size"),
    [
        ("resnet50.tv_in1k", 2048, 224),
        ("vit_tiny_patch16_224", 192, 224),
        ("vit_small_patch14_dinov2.lvd142m", 384, 518),
        ("vit_base_patch32_clip_224.openai", 768, 224),
        ("mobilenetv3_small_050", 1024, 224),
    ],
)
def test_width_and_size_of_timm_models(name, width, size):
    with torch.device("meta"):
        model = trunk(f"timm:{name}", pretrained=False).eval()
    assert (model.width, model.preprocess.size) == (width, size)
    assert model.body(torch.empty(1, 3, size, size, device="meta")).shape == (1, width)


@pytest.mark.parametrize(
    ("name", "width"),
    [("resnet18", 512), ("vit_tiny_patch16_224", 192), ("mobilenetv3_small_050", 1024)],
)
def test_timm_models_accept_smaller_images(name, width):
    model = trunk(f"timm:{name}", pretrained=False, size=96).eval()
    with torch.no_grad():
        assert model(images(1, 3, 224, 224)).shape == (1, width)


def test_freeze_bn_applies_to_timm_models():
    options = {"pretrained": False, "freeze_bn": True, "head": "cosine"}
    model = build("timm:resnet18", (3, 32, 32), 5, 0.1, options).train()
    features, logits = model(images(2, 3, 32, 32))
    assert (features.shape, logits.shape) == ((2, 512), (2, 5))
    assert not model.trunk.body.bn1.training


def test_weights_load_from_a_local_file_without_classifier(tmp_path):
    state = dict(trunk("timm:resnet18", pretrained=False).body.state_dict())
    state |= {"fc.weight": torch.zeros(1000, 512), "fc.bias": torch.zeros(1000)}
    save_file(state, tmp_path / "r18.safetensors")
    loaded = trunk("timm:resnet18", weights=str(tmp_path / "r18.safetensors")).body.state_dict()
    assert all(torch.equal(loaded[name], state[name]) for name in loaded)


def test_unreachable_hub_raises_with_the_cure(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(WeightsError) as caught:
        trunk("timm:resnet18")
    assert str(caught.value).startswith("Cannot load the weights of timm:resnet18")
    assert "model option weights, or set pretrained=false" in str(caught.value)


def test_models_without_published_weights_raise():
    with pytest.raises(WeightsError, match="No pretrained weights exist for test_vit4"):
        trunk("timm:test_vit4")


def test_unknown_model_suggests_the_nearest():
    with pytest.raises(ValueError, match=r"timm has no model 'resnet5O'. Did you mean 'timm:resn"):
        trunk("timm:resnet5O")
    with pytest.raises(ValueError, match=r"Did you mean 'timm:resnet50.tv_in1k'"):
        trunk("timm:resnet50.tv_ink")


@pytest.mark.parametrize(
    ("name", "width", "size"),
    [("caformer_s18", 512, 224), ("samvit_base_patch16", 256, 1024), ("test_vit", 64, 160)],
)
def test_width_is_that_of_the_output(name, width, size):
    with torch.device("meta"):
        model = trunk(f"timm:{name}", pretrained=False).eval()
    assert (model.width, model.preprocess.size) == (width, size)
    assert model.body(torch.empty(1, 3, size, size, device="meta")).shape == (1, width)


@pytest.mark.parametrize("name", ["test_resnet", "test_byobnet", "mobilenetv3_small_050"])
def test_finding_the_width_has_no_side_effect(name):
    import_torchvision()
    import timm

    torch.manual_seed(0)
    plain = timm.create_model(name, num_classes=0)
    stream = torch.get_rng_state()
    torch.manual_seed(0)
    body = trunk(f"timm:{name}", pretrained=False).body
    assert torch.equal(torch.get_rng_state(), stream)
    assert all(layer.training for layer in body.modules())
    for key, value in plain.state_dict().items():
        assert torch.equal(body.state_dict()[key], value)
    assert all(p.device.type == "cpu" and p.requires_grad for p in body.parameters())


def test_width_of_a_model_that_needs_real_values(monkeypatch):
    import_torchvision()
    from timm.models.resnet import ResNet

    forward = ResNet.forward_features

    def value_dependent(self, x):
        assert not x.sum().item()  # fails on a meta tensor
        return forward(self, x)

    monkeypatch.setattr(ResNet, "forward_features", value_dependent)
    assert trunk("timm:test_resnet", pretrained=False).width == 96


HEADS = {"(1, 0)": lambda self, x: x.mean((2, 3))[:, :0], "(1, 96, 5, 5)": lambda self, x: x}


@pytest.mark.parametrize("shape", HEADS)
def test_model_without_a_feature_vector_raises(monkeypatch, shape):
    import_torchvision()
    from timm.models.resnet import ResNet

    monkeypatch.setattr(ResNet, "forward_head", HEADS[shape])
    with pytest.raises(ValueError, match="Choose another model") as caught:
        trunk("timm:test_resnet", pretrained=False)
    assert f"timm:test_resnet returns features of shape {shape} for one image" in str(caught.value)
