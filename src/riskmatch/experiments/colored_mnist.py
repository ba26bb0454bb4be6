"""Runs on ColoredMNIST: the methods of Table 1, the grids searched and the protocol.

The protocol is that of the paper's released code, which follows Eastwood et al. (NeurIPS 2022):
whole domains as batches, Adam at 1e-4, three ReLU layers of 390 units with dropout 0.2, Xavier
weights and a single logit. From ERM initialisation, the first 400 steps are ERM.

IRM squares the gradient of a whole domain, as Eastwood et al. do; elsewhere in riskmatch it has the
unbiased estimate from two halves of a domain. The pool of RDM is that of the released code, which
equals the paper's because the training domains are equal in size.

The grids are those of Eastwood et al., and the paper's for RDM. Those of CORAL, MMD and RDM with
the kernel are ours. MMD, and the ERM phase that it starts from, uses batches of 1,000: on whole
domains a step would compare 2.5 · 10⁹ pairs of features, which takes minutes.

Eastwood et al. divide the loss of IRM and VREx by the penalty's weight, and that of EQRM by the
ratio of its first gradient norm to ERM's. That is left out here: every method starts with a fresh
Adam, whose steps do not depend on the scale of the loss except through its ε.

ERM with RDM's switch is a control: after the ERM phase it has RDM's fresh Adam and its schedule,
and no penalty.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from riskmatch.experiments.experiment import INITS, STAND_IN, Budget, Init
from riskmatch.runs.config import RunConfig
from riskmatch.runs.method import facts_of
from riskmatch.sweep.plan import PlannedRun

LR = 1e-4
PRETRAIN = 400
"""Steps of the ERM phase of runs from ERM initialisation."""
TEST_P = tuple(k / 10 for k in range(11))
"""Probabilities that colour and label disagree at which every model is evaluated."""
TARGET_P = 0.9
"""p of the paper's test domain."""
SEEDS: dict[Budget, tuple[int, ...]] = {
    "smoke": (0,),
    "laptop": (0, 1, 2),
    "paper": tuple(range(10)),
}


@dataclass(frozen=True)
class MethodGrid:
    """A method of Table 1 and the values searched of one hyper-parameter."""

    label: str
    objective: str
    """Registered name of the objective."""
    grid: tuple[float, ...]
    default: float
    """Value of the grid that the budgets smoke and laptop use."""
    searched: str = "weight"
    """Name of the searched hyper-parameter; ``steps`` is a field of the run."""
    symbol: str = "λ"
    """Symbol of the searched hyper-parameter in tables."""
    steps: int = 600
    hparams: Mapping[str, Any] = field(default_factory=dict)
    """Hyper-parameters that are not searched."""
    p: tuple[float, ...] = (0.1, 0.2)
    """p of the training domains."""
    inits: tuple[Init, ...] = INITS
    batch_size: int = 0
    """Samples per training domain and step; 0 for whole domains."""

    def setting(self, value: float) -> str:
        """A value of the grid with its symbol.

        Example:
            >>> METHODS["eqrm"].setting(-1000)
            'log(1−α) = −1000'
        """
        return f"{self.symbol} = {value:g}".replace("-", "−")

    def values(self, init: Init) -> tuple[float, ...]:
        """Values to run; from ERM initialisation, only step counts beyond the ERM phase.

        Example:
            >>> METHODS["erm"].values("erm")
            (600, 1000)
        """
        if self.searched == "steps" and init == "erm":
            return tuple(value for value in self.grid if value > PRETRAIN)
        return self.grid


_PENALTIES = (1e3, 5e3, 1e4, 5e4, 1e5)
_SWITCH = {"warmup": 0, "lr_after": LR}
"""A fresh Adam at the first step after the ERM phase."""
_ERM = MethodGrid("ERM", "erm", (400, 600, 1000), 600, searched="steps", symbol="steps")
_RDM = MethodGrid(
    "RDM, two moments",
    "rdm",
    (500.0, 1000.0, 2500.0, 5000.0, 10000.0),
    5000.0,
    hparams={
        **_SWITCH,
        "variance_weight": 0.0,
        "match": "worst",
        "kernel": "authors-code",
        "rescale": True,
        "pool": "samples",
        "divergence": "moments",
    },
)

METHODS: dict[str, MethodGrid] = {
    "erm": _ERM,
    "erm-switch": replace(
        _ERM,
        label="ERM with RDM's switch",
        objective="erm-switch",
        grid=(600,),
        hparams=_SWITCH,
        inits=("erm",),
    ),
    "groupdro": MethodGrid(
        "GroupDRO", "groupdro", (1e-3, 1e-2, 0.1, 0.5, 1.0), 0.1, "eta", "η", 1000
    ),
    "iga": MethodGrid("IGA", "iga", _PENALTIES, 1e4, steps=1000),
    "irm": MethodGrid("IRM", "irm", _PENALTIES, 1e4, hparams={"warmup": 0, "estimate": "whole"}),
    "vrex": MethodGrid("VREx", "vrex", _PENALTIES, 1e4, hparams={"warmup": 0}),
    "eqrm": MethodGrid(
        "EQRM",
        "eqrm",
        (-100.0, -500.0, -1000.0, -5000.0, -10000.0),
        -1000.0,
        "log_tail",
        "log(1−α)",
        hparams=_SWITCH,
    ),
    "coral": MethodGrid("CORAL", "coral", (1e4, 1e5, 1e6, 1e7, 1e8), 1e6),
    "mmd": MethodGrid(
        "MMD, in batches", "mmd", (1.0, 10.0, 100.0, 1e3, 1e4), 100.0, batch_size=1000
    ),
    "rdm": _RDM,
    "rdm-mmd": replace(
        _RDM,
        label="RDM, kernel",
        grid=(100.0, 300.0, 1000.0, 3000.0, 10000.0),
        default=1000.0,
        hparams={**_RDM.hparams, "divergence": "mmd"},
    ),
    "oracle": replace(_ERM, label="Oracle", p=(0.5, 0.5), inits=("random",)),
}
"""Methods by name, in the order of Table 1."""


@dataclass(frozen=True, kw_only=True)
class GridRun(PlannedRun):
    """A run of Table 1 and its position in the search."""

    method: str
    """Key of ``METHODS``."""
    init: Init
    value: float
    """Value of the searched hyper-parameter."""


def grid_runs(
    budget: Budget,
    methods: Collection[str] | None = None,
    seeds: Sequence[int] | None = None,
    inits: Collection[Init] = INITS,
    data: str = "colored-mnist",
) -> list[GridRun]:
    """List the runs of Table 1, all of a seed before the next seed.

    Args:
        budget: ``paper`` runs whole grids; ``laptop`` has the paper's sizes but three seeds and one
            value per grid; ``smoke`` is a short check with a small network and few digits.
        methods: some keys of ``METHODS``; None for all.
        seeds: seeds in place of the budget's.
        inits: initialisations. The oracle, which has only one, is always included.
        data: the data set, or ``STAND_IN``.

    Example:
        >>> grid_runs("smoke", ["rdm"])[0].title
        'RDM, two moments from random weights, λ = 5000, seed 0'
    """
    return [
        GridRun(
            config=_config(method, init, value, seed, budget, data),
            title=f"{method.label} from {'random weights' if init == 'random' else 'ERM'}, "
            f"{method.setting(value)}, seed {seed}",
            method=name,
            init=init,
            value=value,
        )
        for seed in (SEEDS[budget] if seeds is None else seeds)
        for name, method in METHODS.items()
        if methods is None or name in methods
        for init in method.inits
        if init in inits or method.inits == ("random",)
        for value in (method.values(init) if budget == "paper" else (method.default,))
    ]


def _config(
    method: MethodGrid, init: Init, value: float, seed: int, budget: Budget, data: str
) -> RunConfig:
    searches_steps = method.searched == "steps"
    steps = int(value) if searches_steps else method.steps
    smoke = budget == "smoke"
    shorter, lr = (20, 100 * LR) if smoke else (1, LR)
    hparams = {**method.hparams, **({} if searches_steps else {method.searched: value})}
    if "lr_after" in hparams:
        hparams["lr_after"] = lr
    return RunConfig(
        data=data,
        test_domains=tuple(domain_name(p, method.p) for p in TEST_P),
        method=method.objective,
        hparams={**facts_of(method.objective).defaults, **hparams},
        model="mlp",
        model_options={
            "widths": [16, 16, 16] if smoke else [390, 390, 390],
            "init": "xavier",
            "single_logit": True,
        },
        lr=lr,
        dropout=0.2,
        batch_size=method.batch_size // shorter,
        micro_batch=1000,  # fits in the cache: a third less time
        steps=steps // shorter,
        eval_every=15 if smoke else 50,
        schedule="constant" if method.objective == "erm" else "cosine",
        seed=seed,
        pretrain=PRETRAIN // shorter if init == "erm" else 0,
        data_options={
            **({} if data == STAND_IN else {"preset": "authors-code"}),
            "p": list(method.p),
            "test_p": list(TEST_P),
            "seed": seed,
            **({"samples": 600} if smoke else {}),
        },
    )


def domain_name(p: float, training_p: Collection[float] = ()) -> str:
    """Name of the test domain at ``p``; it differs from a training domain with the same p.

    Example:
        >>> domain_name(0.3, (0.1, 0.2)), domain_name(0.2, (0.1, 0.2))
        ('0.3', 'test 0.2')
    """
    return f"test {p:g}" if p in training_p else f"{p:g}"
