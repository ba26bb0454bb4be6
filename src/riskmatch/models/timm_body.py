"""Any model of timm."""

from __future__ import annotations

import difflib
from types import ModuleType

from torch import nn

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
    preprocess = Preprocess(
        size or config["input_size"][-1], config["mean"], config["std"], interpolation
    )
    return preprocess, body, int(body.head_hidden_size)  # type: ignore[arg-type]


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
