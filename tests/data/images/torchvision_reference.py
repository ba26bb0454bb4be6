"""torchvision as the reference for image transformations."""

import importlib

from riskmatch.models.trunk import import_torchvision


def functional():
    import_torchvision()
    return importlib.import_module("torchvision.transforms.v2.functional")


def transforms():
    import_torchvision()
    return importlib.import_module("torchvision.transforms.v2")
