"""``riskmatch advise``: what to train for an unseen domain, and what to expect there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import riskmatch
from riskmatch.cli.options import Positional
from riskmatch.cli.parser import PlanningCommand, Printed
from riskmatch.cli.printer import print_json, printable
from riskmatch.cli.progress import SweepDisplay


@dataclass
class Advise(Printed, PlanningCommand):
    """Advise which method to train, and what to expect of it on an unseen domain.

    Every domain is left out in turn, and methods are trained on the others with a small search:
    ERM, RDM in both matches, VREx, GroupDRO and CORAL. Images are compared on frozen features.
    Models of scikit-learn take part: the most frequent class or the mean label, logistic or linear
    regression, on tables gradient boosting. The same command continues where one stopped.

    Example:
      riskmatch advise photos
      riskmatch train photos --all-domains --advice advice/advice.json
    """

    data: Positional[str]
    """Name or path of a data set with three domains or more."""
    out: Path = Path("advice")
    """Folder for advice.json, advice.html and the runs."""
    methods: list[str] | None = None
    """Comma-separated methods besides ERM; by default rdm,vrex,groupdro,coral."""
    draws: int | None = None
    """Settings per method, by default 3; the first is the defaults."""
    quick: bool = False
    """Train about a tenth: one draw, a third of the steps, chosen by train-val."""
    select: Literal["leave-one-out", "train-val"] | None = None
    """How settings and steps are chosen; by default leave-one-out, which leaves out every pair of
    domains as well, for 4 to 6 domains without siblings, else train-val."""
    leave_out_together: tuple[str, ...] = ()
    """Domains to leave out at once, as in site-c+site-d; by default siblings, which are looked for:
    domains that share images, or of which one makes the other easier than chance explains."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Field of the methods that have it, fixed in all draws."""
    jobs: int | None = None
    """Runs at a time; by default one per core, or one on a GPU."""
    device: str = "auto"
    """Device to train on: cpu, cuda:1, …; auto takes a GPU if there is one."""
    overwrite: bool = False
    """Replace an advice on other data or settings in --out, and an edited advice.json."""
    data_dir: Path | None = None
    """Folder searched first for the files of DATA."""

    def execute(self) -> None:
        """Train what is not yet trained, and print the advice."""
        renamed = ("select", "leave_out_together", "options", "jobs", "device")
        with SweepDisplay(quiet=self.quiet) as display:
            advised = riskmatch.advise(
                **self.arguments(*renamed),
                selection=self.select,
                leave_out_together=[group.split("+") for group in self.leave_out_together] or None,
                choices=self.choices,
                launcher=riskmatch.Local(self.jobs, self.device),
                **display.callbacks,
            )
        if self.json:
            print_json(advised.to_json())
        elif not self.quiet:
            print(advised.table.markdown(), end="\n\n")
            print("\n".join(map(printable, advised.sentences)), end="\n\n")
            print("\n".join(map(printable, advised.notes)), end="\n\n")
            print(f"Report: {printable(advised.page)}")
            print(f"Train {advised.best.title} on all domains: {printable(advised.command)}")
