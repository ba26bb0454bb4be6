"""Any model of timm."""

from __future__ import annotations

import difflib
from types import ModuleType

import torch
from torch import Tensor, nn
from torch.func import functional_call

from riskmatch.models.preprocess import Interpolation, Preprocess
from riskmatch.models.torchvision_import import import_torchvision
from riskmatch.models.weights import WeightsError, load_weights

CURE = (
    "Place the weights on this machine and name the file in the model option weights, "
    "or start from random ones with pretrained=false."
)


def timm_body(
    name: str, pretrained: bool, weights: str | None, size: int | None
) -> tuple[Preprocess, nn.Module, int]:
    """Preprocessing, body and width of the features of the model ``name``."""
    timm = _timm()
    _check_name(timm, name)
    from_hub = pretrained and weights is None
    try:
        body: nn.Module = timm.create_model(name, pretrained=from_hub, num_classes=0)
    except (OSError, RuntimeError) as error:
        if not from_hub:
            raise
        cause = str(error).partition("\n")[0]
        raise WeightsError(f"The hub gave no weights of timm:{name} ({cause}) {CURE}") from error
    if weights is not None:
        named = body.pretrained_cfg.get("classifier") or ()  # type: ignore[union-attr, operator]
        load_weights(body, weights, (named,) if isinstance(named, str) else tuple(named))
    if size is not None and hasattr(body, "set_input_size"):  # its positions depend on it
        body.set_input_size(img_size=size)  # type: ignore[operator]
    config = timm.data.resolve_model_data_config(body)
    interpolation: Interpolation = (
        "bilinear" if config["interpolation"] == "bilinear" else "bicubic"
    )
    side = size or config["input_size"][-1]
    preprocess = Preprocess(side, config["mean"], config["std"], interpolation)
    return preprocess, body, _width(name, body, side)


def _width(name: str, body: nn.Module, side: int) -> int:
    """The number of features, by those of an image; what models say of it is not always so."""
    body.eval()
    try:
        shape = tuple(_features(body, side).shape)
    finally:
        body.train()
    if len(shape) != 2 or not shape[1]:
        raise ValueError(
            f"timm:{name} gives {shape} in place of a row of features for an image; "
            "choose another model."
        )
    return shape[1]


@torch.no_grad()
def _features(body: nn.Module, side: int) -> Tensor:
    """(1, width) of tensors that have shapes but no numbers, unless the model asks for those."""
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
        f"timm has no model '{name}'.{hint} Its models: timm.list_models() and, with the names of "
        "their weights, timm.list_pretrained()."
    )
