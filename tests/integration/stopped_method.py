"""A method that stops one of several processes, in a module that they can import."""

import os
import signal
from dataclasses import dataclass

from riskmatch.contract import Eval, Memory, Terms
from riskmatch.objectives import VREx


@dataclass(frozen=True)
class StoppedMethod(VREx):
    """VREx that stops the process of the rank STOPPED_RANK at step 12, by what STOPPED_BY names."""

    citation = ""

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        how = os.environ.get("STOPPED_BY", "")
        if memory.step == 12 and os.environ.get("STOPPED_RANK") == os.environ.get("RANK"):
            if how == "error":
                raise ValueError("the disk of this machine is full")
            if how:
                os.kill(os.getpid(), getattr(signal, how))
        return super().__call__(ev, memory)
