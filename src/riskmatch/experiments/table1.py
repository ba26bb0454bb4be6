"""Table 1: every method on ColoredMNIST, from both initialisations, as a list of runs.

The protocol is that of the paper's released code, which follows Eastwood et al. (NeurIPS 2022):
whole domains as batches, Adam at 1e-4, three ReLU layers of 390 with dropout 0.2, Xavier weights
and a single logit. From ERM initialisation, the first 400 steps are ERM's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from riskmatch.config import RunConfig

Budget = Literal["smoke", "laptop", "paper"]
Init = Literal["random", "erm"]

BUDGETS: tuple[Budget, ...] = ("smoke", "laptop", "paper")
INITS: tuple[Init, ...] = ("random", "erm")
LR = 1e-4
PRETRAIN = 400
TEST_P = tuple(k / 10 for k in range(11))
"""The probabilities that colour and label disagree, at which every model is evaluated."""
TARGET_P = 0.9
"""The p of the paper's test domain."""


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

    @property
    def inits(self) -> tuple[Init, ...]:
        """Where it starts from; to ERM itself, and so to the oracle, the two are one."""
        return ("random",) if self.name == "erm" else INITS


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
    "usual": 400,
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
    "coral": Method("CORAL", "coral", (1e2, 1e3, 1e4, 1e5, 1e6), 1e4),
    "mmd": Method("MMD", "mmd", (1.0, 10.0, 100.0, 1e3, 1e4), 100.0),
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
    "oracle": Method("Oracle", **_ERM, p=(0.5, 0.5)),
}
"""The rows of the table by name, in its order."""


@dataclass(frozen=True)
class Planned:
    """A run and its place in the table."""

    method: str
    init: Init
    value: float
    """Of the searched hyper-parameter."""
    config: RunConfig

    @property
    def title(self) -> str:
        """The run in a line.

        Example:
            >>> plan("smoke", ["rdm"])[0].title
            'RDM, two moments from random weights, λ = 5000, seed 0'
        """
        start = "random weights" if self.init == "random" else "ERM"
        row = METHODS[self.method]
        return f"{row.label} from {start}, {row.symbol} = {self.value:g}, seed {self.config.seed}"


SEEDS: dict[Budget, tuple[int, ...]] = {
    "smoke": (0,),
    "laptop": (0, 1, 2),
    "paper": tuple(range(10)),
}
"""Of each budget; the two smaller ones also take one value of every grid."""


def plan(
    budget: Budget,
    methods: Collection[str] | None = None,
    seeds: Sequence[int] | None = None,
    inits: Collection[Init] = INITS,
) -> list[Planned]:
    """Every run of the table, all of a seed before the next seed.

    Args:
        budget: ``paper`` is the whole; ``laptop`` has its sizes but three seeds and one value of
            every grid; ``smoke`` only shows that everything works.
        methods: some of ``METHODS``; all, where nothing is said.
        seeds: in place of the budget's.
        inits: some of ``INITS``. What does not depend on the initialisation is always there.
    """
    return [
        Planned(name, init, value, configure(METHODS[name], init, value, seed, budget))
        for seed in (SEEDS[budget] if seeds is None else seeds)
        for name in METHODS
        if methods is None or name in methods
        for init in METHODS[name].inits
        if init in inits or METHODS[name].inits == ("random",)
        for value in (METHODS[name].grid if budget == "paper" else (METHODS[name].usual,))
    ]


def configure(row: Method, init: Init, value: float, seed: int, budget: Budget) -> RunConfig:
    """One run of the table."""
    by_steps = row.searched == "steps"
    steps = int(value) if by_steps else row.steps
    smoke = budget == "smoke"
    shorter = 8 if smoke else 1
    return RunConfig(
        data="colored-mnist",
        test_domains=tuple(domain(p, row.p) for p in TEST_P),
        method=row.name,
        hparams={**row.hparams, **({} if by_steps else {row.searched: value})},
        model="mlp",
        model_options={
            "widths": [16, 16, 16] if smoke else [390, 390, 390],
            "init": "xavier",
            "single_logit": True,
        },
        lr=LR,
        dropout=0.2,
        batch_size=0,
        micro_batch=1000,  # stays in cache, which saves a third of the time
        steps=steps // shorter,
        eval_every=25 if smoke else 50,
        schedule="constant" if row.name == "erm" else "cosine",
        seed=seed,
        pretrain=PRETRAIN // shorter if init == "erm" else 0,
        data_options={
            "preset": "authors-code",
            "p": list(row.p),
            "test_p": list(TEST_P),
            "seed": seed,
            **({"samples": 1200} if smoke else {}),
        },
    )


def domain(p: float, training: Collection[float] = ()) -> str:
    """The name of the test domain at ``p``, where ``training`` are those of the training domains.

    Example:
        >>> domain(0.3, (0.1, 0.2)), domain(0.2, (0.1, 0.2))
        ('0.3', 'test 0.2')
    """
    return f"test {p:g}" if p in training else f"{p:g}"
