"""Torchvision beside a torch that it was not built for."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import torch

_MISSING = ("nms", "qnms")
"""The operators that torchvision describes on import whether or not it has them."""

_declared: list[torch.library.Library] = []  # a declaration lasts as long as its library


def import_torchvision() -> ModuleType:
    """Torchvision, also where its compiled part cannot be loaded.

    A torchvision built for CUDA beside a torch without it fails on import with "operator
    torchvision::nms does not exist". Nothing here calls that operator (it joins boxes of detected
    objects), so where that is the fault it is declared without a body, and the import repeated.
    """
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]
    library = torch.library.Library("torchvision", "DEF")
    for name in _MISSING:
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.append(library)
    return importlib.import_module("torchvision")
