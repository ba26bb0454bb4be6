"""How tables spell the names of methods and data sets."""

from __future__ import annotations

METHODS = {
    "erm": "ERM",
    "mixup": "Mixup",
    "mldg": "MLDG",
    "groupdro": "GroupDRO",
    "irm": "IRM",
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
    "rdm variance": "RDM (every domain, L)",
    "rdm": "RDM",
}
"""In the order of a table: the paper's."""

DATA = {
    "vlcs": "VLCS",
    "pacs": "PACS",
    "officehome": "OfficeHome",
    "terraincognita": "TerraIncognita",
    "domainnet": "DomainNet",
    "colored-mnist": "ColoredMNIST",
    "rotated-mnist": "RotatedMNIST",
}
"""In the order of a table: the paper's."""


def in_order(names: set[str], titles: dict[str, str]) -> list[str]:
    """Those with a title in its order, then the others by name.

    Example:
        >>> in_order({"sagnet", "rdm", "erm"}, METHODS)
        ['erm', 'rdm', 'sagnet']
    """
    return [name for name in titles if name in names] + sorted(names - titles.keys())
