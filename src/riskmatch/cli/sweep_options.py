"""Options of the verbs of ``riskmatch sweep``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from riskmatch.cli.errors import bad_input
from riskmatch.cli.options import Positional, options_of
from riskmatch.cli.parser import Parser, parse_groups

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
    options: Mapping[str, Any] = field(default_factory=dict)
    """Field of the methods that have it, fixed in all draws."""
    frozen: bool = False
    """Train only the head, on the features of a frozen backbone."""
    data_dir: Path | None = None
    """Folder searched first for the files of the data set."""
    settings: bool = False
    """Print the value of every setting and where it comes from, and plan nothing."""
    cost: bool = False
    """Print time and memory of the runs by method, from a few steps of each."""
    quiet: bool = False
    """Print nothing but errors."""


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

    chosen = [option for option in options_of(command) if option.name == "launcher"]
    launcher = Parser("", "", chosen, help=False).parse_known(words).get("launcher", "local")
    with bad_input():
        group = {"launching": options_of(launcher_class(launcher))}
        options, given = parse_groups(command, name, words, group)
        return options, make_launcher(launcher, given)
