"""A method that kills parts of Ray on the way, in a module that workers can import."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from riskmatch.contract import Eval, Memory, Objective, Terms


@dataclass(frozen=True)
class Lossy(Objective):
    """ERM whose attempts kill what the file ``victims`` names, one line each.

    ``process`` is terminated before the first step. Half-way, ``worker`` kills the process,
    ``node`` its node with it, and ``raylet`` and ``gcs_server`` the process of Ray with this name,
    a few seconds before the attempt goes on.
    """

    folder: str = ""
    """Folder of the file ``victims``, and of the file ``steps`` with the steps that were taken."""
    launcher: int = 0
    """Process that is never killed."""

    citation = ""

    def __post_init__(self) -> None:
        if self._next() == "process":
            self._remove()
            os.kill(os.getpid(), signal.SIGTERM)

    def __call__(self, ev: Eval, memory: Memory) -> Terms:
        """Return the mean risk."""
        if os.getpid() != self.launcher:
            with Path(self.folder, "steps").open("a") as file:
                file.write(f"{memory.step}\n")
        if memory.step == 30 and (victim := self._next()):
            self._remove()
            if victim in ("node", "raylet"):
                os.kill(os.getppid(), signal.SIGKILL)
            if victim in ("node", "worker"):
                os.kill(os.getpid(), signal.SIGKILL)
            if victim == "gcs_server":
                os.kill(_child(self.launcher, victim), signal.SIGKILL)
            time.sleep(5)
        return Terms({"risk": ev.risk})

    def _next(self) -> str:
        if os.getpid() == self.launcher or not self.folder:
            return ""
        return (Path(self.folder, "victims").read_text().split() or [""])[0]

    def _remove(self) -> None:
        path = Path(self.folder, "victims")
        path.write_text("\n".join(path.read_text().split()[1:]))


def _child(parent: int, name: str) -> int:
    """Return the id of the child process with this name."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        pid, command, _, of, *_ = stat.read_text().split()
        if command == f"({name})" and int(of) == parent:
            return int(pid)
    raise ProcessLookupError(name)
