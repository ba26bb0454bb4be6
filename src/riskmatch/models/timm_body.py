"""Models of timm as backbones."""

from __future__ import annotations

import difflib
import importlib
import sys
from types import ModuleType

import torch
from torch import Tensor, nn
from torch.func import functional_call

from riskmatch.models.preprocess import Interpolation, Preprocess
from riskmatch.models.weights import WeightsError, load_weights

_CURE = (
    "Give a local file with the model option weights, or set pretrained=false to start from "
    "random weights."
)
_MISSING_OPERATORS = ("nms", "qnms")
"""Operators that torchvision describes on import even if its compiled part is missing."""
_declared: list[torch.library.Library] = []  # a declaration lasts as long as its library


def timm_body(
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


def _width(name: str, body: nn.Module, side: int) -> int:
    """Number of features, by a forward pass; ``num_features`` is not always right."""
    body.eval()
    try:
        shape = tuple(_features(body, side).shape)
    finally:
        body.train()
    if len(shape) != 2 or not shape[1]:
        raise ValueError(
            f"timm:{name} returns features of shape {shape} for one image, expected (1, width). "
            "Choose another model."
        )
    return shape[1]


@torch.no_grad()
def _features(body: nn.Module, side: int) -> Tensor:
    """Features (1, width) of one image, on meta tensors unless the model needs real values."""
    weights = {**dict(body.named_parameters()), **dict(body.named_buffers())}
    shapes = {key: value.to("meta") for key, value in weights.items()}
    try:
        image = torch.empty(1, 3, side, side, device="meta")
        features: Tensor = functional_call(body, shapes, (image,))
    except (RuntimeError, TypeError):
        features = body(torch.zeros(1, 3, side, side))
    return features


def _timm() -> ModuleType:
    try:
        import_torchvision()
        import timm
    except ImportError as error:
        message = f"Backbones of timm need pip install 'riskmatch[timm]': {error}."
        raise ImportError(message) from error
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
