"""The names of methods and data sets in tables, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from riskmatch.registry import INSTANCE
from riskmatch.runs.config import Average
from riskmatch.runs.method import part_title
from riskmatch.runs.scores import Split

METHODS = {
    "erm": "ERM",
    "erm-switch": "ERM with RDM's switch",
    "mixup": "Mixup",
    "mldg": "MLDG",
    "groupdro": "GroupDRO",
    "irm": "IRM",
    "irm whole": "IRM (whole domains)",
    "vrex": "VREx",
    "eqrm": "EQRM",
    "fish": "Fish",
    "fishr": "Fishr",
    "coral": "CORAL",
    "mmd": "MMD",
    "iga": "IGA",
    "causirl": "CausIRL (CORAL)",
    "causirl mmd": "CausIRL (MMD)",
    "rdm moments": "RDM (two moments)",
    "rdm variance moments": "RDM (every domain, two moments)",
    "rdm variance": "RDM (every domain, L)",
    "rdm": "RDM",
}
"""Titles by name, in the order of the paper's tables."""

DATA = {
    "vlcs": "VLCS",
    "pacs": "PACS",
    "officehome": "OfficeHome",
    "terraincognita": "TerraIncognita",
    "domainnet": "DomainNet",
    "colored-mnist": "ColoredMNIST",
    "rotated-mnist": "RotatedMNIST",
}
"""Titles by name, in the order of the paper's tables."""


def method_title(variant: str) -> str:
    """The name of a method or variant in tables; of ``package.module:Name``, ``Name``.

    Example:
        >>> method_title("rdm variance"), method_title("my_methods:Robust")
        ('RDM (every domain, L)', 'Robust')
        >>> method_title("rdm swad")
        'RDM + SWAD'
    """
    name, _, average = variant.rpartition(" ")
    if name and average in get_args(Average):
        return f"{method_title(name)} + {average.upper()}"
    return METHODS.get(variant) or part_title(variant)


def data_title(data: str) -> str:
    """The name of a data set in tables; of a path, its last part.

    Example:
        >>> data_title("vlcs"), data_title("/home/me/pets"), data_title("vlcs, holdout 0.5")
        ('VLCS', 'pets', 'VLCS, holdout 0.5')
        >>> data_title("my_data:Pets")
        'Pets'
    """
    name, comma, options = data.partition(", ")
    return (DATA.get(name) or Path(part_title(name)).name) + comma + options


_SETTINGS = {
    "weight": "λ",
    "warmup": "warm-up",
    "lr": "learning rate",
    "lr_after": "learning rate after the warm-up",
    "batch_size": "batch size",
    "weight_decay": "weight decay",
    "variance_weight": "β",
    "log_tail": "log tail",
}


def setting_title(name: str) -> str:
    """The name of a setting of a run in titles and charts.

    Example:
        >>> setting_title("weight"), setting_title("meta_lr")
        ('λ', 'meta lr')
    """
    return _SETTINGS.get(name) or name.replace("_", " ")


def part_titles(data: str) -> dict[Split, str]:
    """Names of the two parts of every domain, by split.

    Training domains are trained on the first part, test domains are reported on it; the second is
    for validation. ColoredMNIST and data sets passed as objects have validation samples of their
    own, so that their parts have other shares.

    Example:
        >>> part_titles("pacs")
        {'train': '80 % part', 'val': '20 % part'}
    """
    if data == "colored-mnist" or data.startswith(INSTANCE):
        return {"train": "main part", "val": "validation part"}
    return {"train": "80 % part", "val": "20 % part"}


def domains_title(names: Sequence[str]) -> str:
    """The names of the test domains of a run; their number if there are more than three.

    Example:
        >>> domains_title(["photo", "sketch"]), domains_title("abcd")
        ('photo and sketch', '4 test domains')
    """
    return " and ".join(names) if len(names) <= 3 else f"{len(names)} test domains"


def in_order(names: set[str], titles: dict[str, str]) -> list[str]:
    """The names that have a title, in the order of titles, then the others in alphabetical order.

    Example:
        >>> in_order({"sagnet", "rdm", "erm"}, METHODS)
        ['erm', 'rdm', 'sagnet']
    """
    return [name for name in titles if name in names] + sorted(names - titles.keys())
