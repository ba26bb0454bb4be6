"""Table 1: every method on ColoredMNIST, from both initialisations, as a list of runs.

The protocol is that of the paper's released code, which follows Eastwood et al. (NeurIPS 2022):
whole domains as batches, but for MMD; Adam at 1e-4, three ReLU layers of 390 with dropout 0.2,
Xavier weights and a single logit. From ERM initialisation, the first 400 steps are ERM's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from riskmatch.experiments.experiment import Budget
from riskmatch.experiments.rows import INITS, LR, METHODS, PRETRAIN, Init, Method
from riskmatch.runs.config import RunConfig

TEST_P = tuple(k / 10 for k in range(11))
"""The probabilities that colour and label disagree, at which every model is evaluated."""
TARGET_P = 0.9
"""The p of the paper's test domain."""


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
        return f"{row.label} from {start}, {row.setting(self.value)}, seed {self.config.seed}"


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
        methods: some of ``METHODS``, in place of the budget's.
        seeds: in place of the budget's.
        inits: some of ``INITS``. The oracle, which has but one, is always there.
    """
    return [
        Planned(name, init, value, configure(row, init, value, seed, budget))
        for seed in (SEEDS[budget] if seeds is None else seeds)
        for name, row in METHODS.items()
        if methods is None or name in methods
        for init in row.inits
        if init in inits or row.inits == ("random",)
        for value in (row.values(init) if budget == "paper" else (row.usual,))
    ]


def configure(row: Method, init: Init, value: float, seed: int, budget: Budget) -> RunConfig:
    """One run of the table."""
    by_steps = row.searched == "steps"
    steps = int(value) if by_steps else row.steps
    smoke = budget == "smoke"
    shorter, lr = (20, 100 * LR) if smoke else (1, LR)
    hparams = {**row.hparams, **({} if by_steps else {row.searched: value})}
    if "lr_after" in hparams:
        hparams["lr_after"] = lr
    return RunConfig(
        data="colored-mnist",
        test_domains=tuple(domain(p, row.p) for p in TEST_P),
        method=row.name,
        hparams=hparams,
        model="mlp",
        model_options={
            "widths": [16, 16, 16] if smoke else [390, 390, 390],
            "init": "xavier",
            "single_logit": True,
        },
        lr=lr,
        dropout=0.2,
        batch_size=row.batch_size // shorter,
        micro_batch=1000,  # stays in cache, which saves a third of the time
        steps=steps // shorter,
        eval_every=15 if smoke else 50,
        schedule="constant" if row.name == "erm" else "cosine",
        seed=seed,
        pretrain=PRETRAIN // shorter if init == "erm" else 0,
        data_options={
            "preset": "authors-code",
            "p": list(row.p),
            "test_p": list(TEST_P),
            "seed": seed,
            **({"samples": 600} if smoke else {}),
        },
    )


def domain(p: float, training: Collection[float] = ()) -> str:
    """The name of the test domain at ``p``, where ``training`` are those of the training domains.

    Example:
        >>> domain(0.3, (0.1, 0.2)), domain(0.2, (0.1, 0.2))
        ('0.3', 'test 0.2')
    """
    return f"test {p:g}" if p in training else f"{p:g}"
