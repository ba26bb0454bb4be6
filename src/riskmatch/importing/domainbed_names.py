"""What DomainBed calls things, in our names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from riskmatch.data.images.benchmark import squeezed
from riskmatch.data.images.benchmarks import BENCHMARKS

DIGITS = {
    "colored-mnist": ("0.1", "0.2", "0.9"),
    "rotated-mnist": ("0", "15", "30", "45", "60", "75"),
}
"""The data sets of digits, with the domains in DomainBed's order."""

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "DGPM2": ("rdm", {}),  # what the authors called it before
    "CausIRL_CORAL": ("causirl", {"distance": "coral"}),
    "CausIRL_MMD": ("causirl", {"distance": "mmd"}),
    **{
        name: (name.lower(), {})
        for name in (
            *("CORAL", "EQRM", "ERM", "Fish", "Fishr", "GroupDRO", "IGA", "IRM", "MLDG", "MMD"),
            *("Mixup", "RDM", "VREx"),
        )
    },
}
"""By DomainBed's name: our method, and what it fixes of it."""


def method(algorithm: str) -> tuple[str, dict[str, Any]]:
    """Our method and what is fixed of it; a method we do not have keeps its name.

    Example:
        >>> method("DGPM2"), method("SagNet")
        (('rdm', {}), ('SagNet', {}))
    """
    ours = {name.lower(): found for name, found in METHODS.items()}
    return ours.get(algorithm.lower(), (algorithm, {}))


def data(dataset: str) -> tuple[str, tuple[str, ...]]:
    """Our data set and its domains; one we do not have keeps its name, and says no domains.

    Example:
        >>> data("VLCS"), data("SVIRO")
        (('vlcs', ('Caltech101', 'LabelMe', 'SUN09', 'VOC2007')), ('SVIRO', ()))
    """
    for benchmark in BENCHMARKS.values():
        if benchmark.is_called(dataset):
            return benchmark.name, benchmark.domains
    for name, domains in DIGITS.items():
        if squeezed(dataset) == squeezed(name):
            return name, domains
    return dataset, ()


def network(hparams: Mapping[str, Any], dataset: str) -> str:
    """The network, as far as the hyper-parameters tell.

    Example:
        >>> network({"resnet18": False}, "PACS"), network({}, "RotatedMNIST")
        ('resnet50', 'cnn')
    """
    for name in ("backbone", "arch", "model"):
        if isinstance(hparams.get(name), str):
            return str(hparams[name])
    if "mnist" in dataset.lower():
        return "cnn"
    for name in ("vit", "dinov2", "resnet18"):
        if str(hparams.get(name)).lower() == "true":
            return name
    return "resnet50" if "resnet18" in hparams else "unknown"
