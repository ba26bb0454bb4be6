"""The methods, one file each; a file in this folder that defines an objective is a method.

>>> sorted(methods())[:3]
['adrmx', 'andmask', 'arm']
>>> from riskmatch.objectives import RDM
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

from riskmatch.contract import Objective

if TYPE_CHECKING:
    from riskmatch.objectives.adrmx import ADRMX as ADRMX
    from riskmatch.objectives.andmask import ANDMask as ANDMask
    from riskmatch.objectives.arm import ARM as ARM
    from riskmatch.objectives.cad import CAD as CAD
    from riskmatch.objectives.causirl import CausIRL as CausIRL
    from riskmatch.objectives.cdann import CDANN as CDANN
    from riskmatch.objectives.cond_cad import CondCAD as CondCAD
    from riskmatch.objectives.coral import CORAL as CORAL
    from riskmatch.objectives.dann import DANN as DANN
    from riskmatch.objectives.eqrm import EQRM as EQRM
    from riskmatch.objectives.erm import ERM as ERM
    from riskmatch.objectives.erm_plus_plus import ERMPlusPlus as ERMPlusPlus
    from riskmatch.objectives.erm_switch import ERMSwitch as ERMSwitch
    from riskmatch.objectives.fish import Fish as Fish
    from riskmatch.objectives.fishr import Fishr as Fishr
    from riskmatch.objectives.groupdro import GroupDRO as GroupDRO
    from riskmatch.objectives.ib_erm import IBERM as IBERM
    from riskmatch.objectives.ib_irm import IBIRM as IBIRM
    from riskmatch.objectives.iga import IGA as IGA
    from riskmatch.objectives.irm import IRM as IRM
    from riskmatch.objectives.lp_ft import LPFT as LPFT
    from riskmatch.objectives.miro import MIRO as MIRO
    from riskmatch.objectives.mixup import Mixup as Mixup
    from riskmatch.objectives.mldg import MLDG as MLDG
    from riskmatch.objectives.mmd import FeatureMMD as FeatureMMD
    from riskmatch.objectives.mtl import MTL as MTL
    from riskmatch.objectives.rdm import RDM as RDM
    from riskmatch.objectives.rsc import RSC as RSC
    from riskmatch.objectives.sagnet import SagNet as SagNet
    from riskmatch.objectives.sandmask import SANDMask as SANDMask
    from riskmatch.objectives.sd import SD as SD
    from riskmatch.objectives.selfreg import SelfReg as SelfReg
    from riskmatch.objectives.transfer import Transfer as Transfer
    from riskmatch.objectives.trm import TRM as TRM
    from riskmatch.objectives.urm import URM as URM
    from riskmatch.objectives.vrex import VREx as VREx

__all__ = ["Objective", "methods"]


@cache
def methods() -> dict[str, type[Objective]]:
    """Every built-in method by the name of its file, with hyphens for underscores."""
    by_name: dict[str, type[Objective]] = {}
    for module in pkgutil.iter_modules(__path__):
        home = f"{__name__}.{module.name}"
        for member in vars(importlib.import_module(home)).values():
            defined_here = inspect.isclass(member) and member.__module__ == home
            if defined_here and issubclass(member, Objective):
                by_name[module.name.replace("_", "-")] = member
    return by_name


if not TYPE_CHECKING:  # type checkers know the classes above, and no others

    def __getattr__(name: str) -> type[Objective]:
        for method in methods().values():
            if method.__name__ == name:
                return method
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
