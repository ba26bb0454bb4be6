"""The rows of Table 1: each method and the grid of its one searched hyper-parameter.

The grids are the customary ones of Eastwood et al. (NeurIPS 2022), and the paper's for RDM. Those
of CORAL, of MMD and of RDM with the whole kernel are ours. MMD, and the ERM that it starts from,
takes batches: on whole domains, a step compares 2.5 · 10⁹ pairs of features, for minutes.

Eastwood et al. divide the loss of IRM and VREx by the penalty's weight, and that of EQRM by the
ratio of its first gradient to ERM's. Here every method starts with a fresh Adam, whose steps do not
depend on the scale of the loss but for its ε, so they do without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Init = Literal["random", "erm"]
INITS: tuple[Init, ...] = ("random", "erm")
LR = 1e-4
PRETRAIN = 400
"""Steps of ERM that a run from ERM initialisation starts with."""


@dataclass(frozen=True)
class Method:
    """A row of the table: a method and the values tried of its one searched hyper-parameter."""

    label: str
    name: str
    """Of the objective."""
    grid: tuple[float, ...]
    usual: float
    """The value of the grid that a small budget takes."""
    searched: str = "weight"
    """The hyper-parameter of the grid; ``steps`` is the run's own."""
    symbol: str = "λ"
    """What the searched hyper-parameter is called in a table."""
    steps: int = 600
    hparams: Mapping[str, Any] = field(default_factory=dict)
    """The hyper-parameters that are not searched."""
    p: tuple[float, ...] = (0.1, 0.2)
    """Of the training domains."""
    inits: tuple[Init, ...] = INITS
    """Where it starts from."""
    batch_size: int = 0
    """Samples per training domain and step; 0 takes every domain whole."""

    def setting(self, value: float) -> str:
        """A value of the grid with its name.

        Example:
            >>> METHODS["eqrm"].setting(-1000)
            'log(1−α) = −1000'
        """
        return f"{self.symbol} = {value:g}".replace("-", "−")

    def values(self, init: Init) -> tuple[float, ...]:
        """The grid; from ERM, only runs that go on past its steps.

        Example:
            >>> METHODS["erm"].values("erm")
            (600, 1000)
        """
        if self.searched == "steps" and init == "erm":
            return tuple(value for value in self.grid if value > PRETRAIN)
        return self.grid


_PENALTIES = (1e3, 5e3, 1e4, 5e4, 1e5)
_RDM = {
    "warmup": 0,
    "lr_after": LR,
    "variance_weight": 0.0,
    "match": "worst",
    "kernel": "authors-code",
    "rescale": True,
}
_ERM: dict[str, Any] = {
    "name": "erm",
    "grid": (400, 600, 1000),
    "usual": 600,
    "searched": "steps",
    "symbol": "steps",
}

METHODS: dict[str, Method] = {
    "erm": Method("ERM", **_ERM),
    "groupdro": Method("GroupDRO", "groupdro", (1e-3, 1e-2, 0.1, 0.5, 1.0), 0.1, "eta", "η", 1000),
    "iga": Method("IGA", "iga", _PENALTIES, 1e4, steps=1000),
    "irm": Method("IRM", "irm", _PENALTIES, 1e4, hparams={"warmup": 0}),
    "vrex": Method("VREx", "vrex", _PENALTIES, 1e4, hparams={"warmup": 0}),
    "eqrm": Method(
        "EQRM",
        "eqrm",
        (-100.0, -500.0, -1000.0, -5000.0, -10000.0),
        -1000.0,
        "log_tail",
        "log(1−α)",
        hparams={"warmup": 0, "lr_after": LR},
    ),
    "coral": Method("CORAL", "coral", (1e4, 1e5, 1e6, 1e7, 1e8), 1e6),
    "mmd": Method("MMD, in batches", "mmd", (1.0, 10.0, 100.0, 1e3, 1e4), 100.0, batch_size=1000),
    "rdm": Method(
        "RDM, two moments",
        "rdm",
        (500.0, 1000.0, 2500.0, 5000.0, 10000.0),
        5000.0,
        hparams={**_RDM, "divergence": "moments"},
    ),
    "rdm-mmd": Method(
        "RDM, kernel",
        "rdm",
        (100.0, 300.0, 1000.0, 3000.0, 10000.0),
        1000.0,
        hparams={**_RDM, "divergence": "mmd"},
    ),
    "oracle": Method("Oracle", **_ERM, p=(0.5, 0.5), inits=("random",)),
}
"""The rows of the table by name, in its order."""
