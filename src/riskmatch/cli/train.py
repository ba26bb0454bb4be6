"""``riskmatch train``: train one model with one method."""

from __future__ import annotations

import math
import os
import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import riskmatch
from riskmatch.cli.errors import BadInput, CommandError, Ended, RunFailed, bad_input, cause_of
from riskmatch.cli.parser import Command
from riskmatch.cli.printer import (
    Amount,
    Cell,
    Table,
    model_title,
    print_json,
    print_line,
    print_table,
)
from riskmatch.cli.progress import Display, RunDisplay, clock
from riskmatch.cli.train_options import ExecutionOptions, parse_train

if TYPE_CHECKING:
    from typing_extensions import Self

    from riskmatch.runs.config import RunConfig
    from riskmatch.runs.lines import Score
    from riskmatch.training import PreparedRun


_OTHERS = "settings", "cost", "memory", "all_domains", "save", "no_left_out", "leave_out_together"
"""Options that are no arguments of :func:`riskmatch.train` of the same name."""


class Train(ExecutionOptions, Command):
    """Train one model with one method."""

    prepared: PreparedRun

    @classmethod
    def parse(cls, name: str, words: Sequence[str]) -> Self:
        """Parse the words after ``riskmatch train``.

        Example:
            >>> words = "pacs --method rdm --test-domain sketch --weight 3".split()
            >>> Train.parse("train", words).config.hparams["weight"]
            3.0
        """
        with _first_prints():
            prepared, execution = parse_train(words)
        command = cls(**execution)
        command.prepared, command.line = prepared, shlex.join(["riskmatch", name, *words])
        return command

    @property
    def config(self) -> RunConfig:
        """Configuration of the run."""
        return self.prepared.config

    @property
    def folder(self) -> Path:
        """Folder of the run."""
        return self.out / self.config.id

    @property
    def model(self) -> Path:
        """The model folder."""
        return self.save or self.folder / "model"

    @property
    def resume_command(self) -> str:
        """The command that continues the run."""
        words = [word for word in shlex.split(self.line) if word != "--restart"]
        return shlex.join(words if self.resume else [*words, "--resume"])

    def execute(self) -> None:
        """Train one model and print its last evaluation."""
        if self.settings or self.cost:
            if _is_first():
                (self._print_settings if self.settings else self._print_cost)()
            return
        with _first_prints():
            run = self._train()
        if not _is_first():
            return
        if self.json:
            values = {"folder": str(run.folder), **run.record.summary(), "warnings": run.findings}
            if self.all_domains:
                values["model"] = str(self.model)
            print_json(values)
        elif not self.quiet:
            self._print(run)

    def _print_settings(self) -> None:
        settings = self.prepared.settings
        if self.json:
            print_json({name: setting._asdict() for name, setting in settings.items()})
        else:
            print("\n".join(riskmatch.setting_lines(settings)))

    def _print_cost(self) -> None:
        with Display(self.quiet) as display:
            cost = riskmatch.cost(
                self.prepared,
                device=self.device,
                data_dir=self.data_dir,
                on_progress=display.progress,
            )
        limit = None if self.memory is None else self.memory * 1e9
        if self.json:
            print_json(cost.to_json(limit))
        else:
            print(cost.text(limit))

    def _train(self) -> riskmatch.Run:
        quiet = self.quiet or not _is_first()
        display = RunDisplay(self.config, quiet)
        together = [group.split("+") for group in self.leave_out_together]
        with self._reported(display), display:
            run = riskmatch.train(
                self.prepared,
                **self.arguments(*_OTHERS),
                save=self.model if self.all_domains else False,
                left_out=self.all_domains and not self.no_left_out and (together or True),
                on_left_out=display.log,
                on_step=display.step,
                on_evaluation=display.evaluation,
                on_progress=display.progress,
            )
        if display.last_step is None and not quiet:
            print("This run was done before; this is its record.", file=sys.stderr)
        return run

    @contextmanager
    def _reported(self, display: RunDisplay) -> Iterator[None]:
        """Report errors of a run with the command that continues it."""
        resume = self.resume_command
        try:
            yield
        except riskmatch.UnfinishedError:
            raise BadInput(
                f"This run was started before. To continue: {resume} (to start again: --restart)"
            ) from None
        except KeyboardInterrupt as error:
            step = "" if display.last_step is None else f" after step {display.last_step}"
            raise RunFailed(f"Interrupted{step}. To continue: {resume}") from error
        except riskmatch.BusyError as error:
            raise RunFailed(str(error)) from error
        except riskmatch.LostProcessError as error:
            raise RunFailed(
                f"{error} To continue from the last checkpoint, add --resume to the command; the "
                "number of processes may differ."
            ) from error
        except riskmatch.DivergedError as error:
            raise RunFailed(
                f"{error} Try a smaller --lr or --clip 1; to continue as it is: {resume}"
            ) from error
        except (Exception, SystemExit) as error:
            if display.last_step is None and isinstance(error, ValueError | ImportError | OSError):
                raise BadInput(cause_of(error)) from error
            cause = f"{type(error).__name__}: {cause_of(error)}".rstrip(".")
            if isinstance(error, OSError):  # such as a full disk
                raise RunFailed(f"{cause}. To continue once this is repaired: {resume}") from error
            if not any(self.folder.glob("checkpoints/*")):
                raise RunFailed(f"{cause} (--debug shows the traceback)") from error
            raise RunFailed(f"{cause}. To continue from the last checkpoint: {resume}") from error

    def _print(self, run: riskmatch.Run) -> None:
        """Print metric and mean risk per domain, the files, and the command to repeat."""
        config, record = run.config, run.record
        last, chosen = record.evaluations[-1].step, run.chosen_step(self.after_warmup)
        network = model_title(config.model, config.model_options)
        print_line(f"{config.method} on {config.data}, network: {network}", "bold")
        for step in dict.fromkeys(filter(None, (chosen, last))):
            roles = ["chosen by train-val"] * (step == chosen) + ["the last"] * (step == last)
            print_line(f"step {step} of {config.steps}, {' and '.join(roles)}")
            self._print_evaluation(run, step)
        shared = record.data.shared_groups if record.data else ()
        if seen := [name for name in config.test_domains if name in shared]:
            print_line(
                f"{', '.join(seen)}: held out are the samples in groups that no training domain "
                "trains on."
            )
        if record.stopped_early:
            cause = f"the validation risk was flat for {config.patience} evaluations"
            if config.average == "swad":
                cause = "the validation risk was flat, or had left the window of swad"
            print_line(f"Stopped at step {last} of {config.steps}: {cause}.")
        if (share := record.evaluation_share) is not None:
            spent = f"{share:.0%} of {clock(record.evaluations[-1].seconds)}"
            print_line(f"evaluation {spent}, checkpoints included")
        for message in run.findings:
            print_line(f"warning: {message}")
        for label, path, names in run.files:
            print_line(f"{label:<10} {path}{f' ({names})' if names else ''}")
        if self.all_domains:
            print_line(f"{'model':<10} {self.model}")
        print_line(f"{'repeat':<10} {self.line}")

    def _print_evaluation(self, run: riskmatch.Run, step: int) -> None:
        """Print metric and mean risk per domain, held out and on the samples trained on."""
        record, tests = run.record, run.config.test_domains
        scores = next(e.scores for e in record.evaluations if e.step == step)
        metric = record.task.metrics[record.task.primary]

        def judged(score: Score | None) -> Cell:
            value = score.metrics.get(record.task.primary, math.nan) if score else math.nan
            return Amount(value, 3) if metric.percent else metric.shown(value)

        rows = list[tuple[Cell, ...]]()
        for name, parts in scores.items():
            test = name in tests  # nothing is trained on, and tables report its larger part
            both = (parts["train"], None) if test else (parts["val"], parts["train"])
            risks = (Amount(score.risk if score else None, 4) for score in both)
            rows.append((name + " (test)" * test, *map(judged, both), *risks))
        held_out = f"{metric.title}, held out", "trained on", "mean risk, held out", "trained on"
        print_table(Table("", ("domain", *held_out), tuple(rows)))


def _is_first() -> bool:
    """Whether this process is the first of those that torchrun started, or alone."""
    return os.environ.get("RANK", "0") == "0" or os.environ.get("WORLD_SIZE", "1") == "1"


@contextmanager
def _first_prints() -> Iterator[None]:
    """Of several processes let the first alone print, also the warnings and errors of others."""
    if _is_first():
        yield
        return
    warnings.simplefilter("ignore")
    try:
        with bad_input():
            yield
    except CommandError as error:
        if getattr(error.__cause__, "causes", {}).get(0) == "":  # the first was killed
            raise
        raise Ended(error.code) from error
