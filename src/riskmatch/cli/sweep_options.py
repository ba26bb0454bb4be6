"""Options of the verbs of ``riskmatch sweep``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from riskmatch.cli.data import TableColumns
from riskmatch.cli.errors import BadInput
from riskmatch.cli.options import Positional, options_of
from riskmatch.cli.parser import Parser

if TYPE_CHECKING:
    from riskmatch.sweep import Launcher


@dataclass(frozen=True)
class PlanOptions:
    """Write the runs of a sweep to DIR/plan.jsonl, and estimate how long they take.

    Each domain is left out in turn. Hyper-parameters are drawn at random; the first draw is the
    defaults. Every trial has its own splits, weights and draws. If DIR has a plan already, the runs
    that it lacks are added. The file is JSON lines: to leave runs out, remove their lines.

    Methods, data sets and networks of your own are named package.module:Name.

    Example:
      riskmatch sweep plan sweep --data pacs --methods erm,rdm,coral --frozen --draws 5
    """

    dir: Positional[Path]
    """Folder of the sweep."""
    data: str
    """Name or path of the data set."""
    methods: str | None = None
    """Comma-separated methods, such as erm,rdm; by default all."""
    test_domains: tuple[str, ...] = ()
    """Domain to leave out; by default each in turn."""
    leave_two_out: bool = False
    """Also leave out every pair of domains, for selection by leave-one-out."""
    leave_out_together: tuple[str, ...] = ()
    """Domains to leave out at once, as in site-c+site-d, where they share pictures or objects."""
    equal_batches: bool = False
    """Use one batch size for all methods and draws, that of ERM on the data set."""
    draws: int = 20
    """Random settings per method; draw 0 is the defaults."""
    trials: int = 3
    """Number of trials of each draw."""
    fixed_draws: bool = False
    """Use the same draws in all trials."""
    preset: str | None = None
    """Choices and ranges of every method: paper, or authors-code for those of its released code."""
    steps: int | None = None
    """Steps of each run; by default those of the data set."""
    eval_every: int | None = None
    """Steps between evaluations; by default those of the data set."""
    backbone: str | None = None
    """Network; by default that of the data set."""
    frozen: bool = False
    """Train only the head, on the features of a frozen backbone."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Any other field of the runs, or of the methods that have it, fixed in all draws."""
    data_options: Mapping[str, Any] = field(default_factory=dict)
    """Option of the data set."""
    model_options: Mapping[str, Any] = field(default_factory=dict)
    """Option of the network."""
    label: str | None = None
    """Column of the class or target, where the data set is a table."""
    domain: str | None = None
    """Column of the domain of a table."""
    ignore: tuple[str, ...] = ()
    """Column of a table to leave out."""
    data_dir: Path | None = None
    """Folder searched first for the files of the data set."""
    cost: bool = False
    """Print time and memory of the runs by method, from a few steps of each."""
    quiet: bool = False
    """Print nothing but errors."""

    @property
    def choices(self) -> dict[str, Any]:
        """Fields of the runs that are fixed in all draws."""
        given = {"steps": self.steps, "eval_every": self.eval_every, "model": self.backbone}
        frozen = {"frozen": True} if self.frozen else {}
        return {
            **self.options,
            **{name: value for name, value in given.items() if value is not None},
            "data_options": {
                **self.data_options,
                **TableColumns(self.label, self.domain, self.ignore).data_options,
            },
            "model_options": {**self.model_options, **frozen},
        }


@dataclass(frozen=True)
class RunOptions:
    """Train the planned runs in DIR that are not yet done.

    Interrupted runs resume from their last checkpoints; failed runs are left alone. Several such
    commands at the same time share the work.
    """

    dir: Positional[Path]
    """Folder of the sweep."""
    launcher: str = "local"
    """How to train: local, ray, slurm, or package.module:Name; --help lists its options."""
    data_dir: Path | None = None
    """Folder searched first for the files of data sets."""
    cost: bool = False
    """Estimate time and memory of the runs from a few steps of each method, and train nothing."""
    quiet: bool = False
    """Print nothing but errors."""


@dataclass(frozen=True)
class RetryOptions(RunOptions):
    """Train the failed runs in DIR again, from their last checkpoints."""


@dataclass(frozen=True)
class StatusOptions:
    """Count the runs of each method that are done, running, failed or waiting; list failures."""

    dir: Positional[Path]
    """Folder of the sweep."""
    json: bool = False
    """Print JSON."""


@dataclass(frozen=True)
class TableOptions:
    """Print accuracy by method and test domain, one table per data set, from the runs so far.

    DIR can be any folder of runs, imported ones too; without a plan all runs in it count.

    Rules:
      train-val      the best validation accuracy on the training domains
      test-val       the oracle: the best validation accuracy on the test domain, at the last step
      leave-one-out  the best accuracy on domains held out besides the test domain; needs runs
                     planned with --leave-two-out
      colored-mnist-best, colored-mnist-last
                     those of the paper's Table 1
    """

    dir: Positional[Path]
    """Folder of the sweep, or of runs."""
    select: str = "train-val"
    """Rule that chooses runs and steps."""
    after_warmup: bool = False
    """Choose among the steps at which the method acts, those after its warm-up."""
    costs: bool = False
    """Print seconds, memory and accuracy by method instead."""
    format: Literal["markdown", "latex", "csv"] = "markdown"
    """Format of the tables."""
    json: bool = False
    """Print JSON."""


def parse_with_launcher(
    command: type[RunOptions], name: str, words: Sequence[str]
) -> tuple[RunOptions, Launcher]:
    """Parse a command whose options include those of the launcher that it names."""
    from riskmatch.sweep.launchers import launcher_class, make_launcher

    common = options_of(command)
    chosen = Parser("", "", [option for option in common if option.name == "launcher"], help=False)
    launcher = chosen.parse_known(words).get("launcher", "local")
    parser = Parser(f"riskmatch {name}", inspect.getdoc(command) or "", common)
    try:
        own = [item.name for item in fields(launcher_class(launcher))]
        parser.add("launching", options_of(launcher_class(launcher)))
        given = parser.parse(words)
        if "dir" not in given:
            raise BadInput(f"riskmatch {name} needs DIR, the folder of the sweep.")
        made = make_launcher(launcher, {name: given.pop(name) for name in own if name in given})
    except ValueError as error:
        raise BadInput(str(error)) from error
    return command(**given), made
