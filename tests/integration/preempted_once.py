"""A method whose process is preempted, in a module that jobs can import."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from riskmatch.contract import Eval, Memory, Objective, Terms


@dataclass(frozen=True)
class PreemptedOnce(Objective):
    """ERM that sends the signal of a preemption to its process once."""

    steps_file: str = ""
    """File to which each step is appended."""

    citation = ""

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        with Path(self.steps_file).open("a") as file:
            file.write(f"{memory.step}\n")
        time.sleep(0.01)  # the run reports its progress a few times before it ends
        if memory.step == 20:
            os.kill(os.getpid(), signal.SIGUSR2)
        return Terms({"risk": ev.risk})
