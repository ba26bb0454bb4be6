"""``riskmatch train``: train one model with one method."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

import riskmatch
from riskmatch.cli.errors import BadInput, CommandError, RunFailed, bad_input, cause_of
from riskmatch.cli.printer import Amount, Column, part_titles, print_json, print_line, print_table
from riskmatch.cli.progress import RunDisplay, clock, progress
from riskmatch.cli.train_options import TrainCommand, parse_train


def run(words: Sequence[str]) -> int:
    """Train one model and print its last evaluation."""
    if not _is_main():
        return _run_silently(words)
    command = parse_train(words)
    if command.settings:
        _print_settings(command)
        return 0
    if command.cost:
        _cost(command)
        return 0
    run = _train(command)
    if command.json:
        values = {"folder": str(run.folder), **run.record.summary(), "warnings": run.findings}
        if command.all_domains:
            values["model"] = str(command.model)
        print_json(values)
    elif not command.quiet:
        _print(run, command)
    return 0


def _print_settings(command: TrainCommand) -> None:
    settings = command.prepared.settings
    if command.json:
        print_json({name: setting._asdict() for name, setting in settings.items()})
    else:
        print("\n".join(riskmatch.setting_lines(settings)))


def _is_main() -> bool:
    """Whether this process is the first of those that torchrun started, or alone."""
    return os.environ.get("RANK", "0") == "0" or os.environ.get("WORLD_SIZE", "1") == "1"


def _run_silently(words: Sequence[str]) -> int:
    """Train as one of several processes; the first prints for all, also the errors of others."""
    warnings.simplefilter("ignore")
    try:
        command = parse_train(words)
        if not command.cost:
            _train(replace(command, quiet=True))
    except CommandError as error:
        if getattr(error.__cause__, "causes", {}).get(0) == "":  # the first was killed
            raise
        return error.code
    return 0


def _train(command: TrainCommand) -> riskmatch.Run:
    display = RunDisplay(command.config, command.quiet)
    with _reported(command, display), display:
        run = riskmatch.train(
            command.prepared,
            out=command.out,
            data_dir=command.data_dir,
            device=command.device,
            resume=command.resume,
            restart=command.restart,
            force=command.force,
            keep=command.keep,
            log=command.log,
            save=command.model if command.all_domains else False,
            after_warmup=command.after_warmup,
            licence=command.licence,
            overwrite=command.overwrite,
            on_step=display.step,
            on_evaluation=display.evaluation,
            on_progress=display.progress,
        )
    if display.last_step is None and not command.quiet:
        print("This run was done before; this is its record.", file=sys.stderr)
    return run


def _cost(command: TrainCommand) -> None:
    with bad_input(), progress("images", command.quiet) as on_progress:
        values = riskmatch.cost(
            command.prepared,
            device=command.device,
            data_dir=command.data_dir,
            on_progress=on_progress,
        )
    limit = None if command.memory is None else command.memory * 1e9
    if command.json:
        print_json(values.to_json(limit))
    else:
        print(values.text(limit))


@contextmanager
def _reported(command: TrainCommand, display: RunDisplay) -> Iterator[None]:
    """Report errors of a run with the command that continues it."""
    resume = command.resume_command
    try:
        yield
    except CommandError:
        raise
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
        if not any(command.folder.glob("checkpoints/*")):
            raise RunFailed(f"{cause} (--debug shows the traceback)") from error
        raise RunFailed(f"{cause}. To continue from the last checkpoint: {resume}") from error


def _print(run: riskmatch.Run, command: TrainCommand) -> None:
    """Print accuracy and mean risk per domain, the files, and the command to repeat."""
    config, record = run.config, run.record
    last = record.evaluations[-1]
    first, second = part_titles(config.data).values()

    def column(score: str, split: Literal["train", "val"], title: str, decimals: int) -> Column:
        return Column(
            title,
            lambda name: Amount(getattr(last.scores[name][split], score), decimals),
            optional=True,
        )

    columns = [
        Column("domain", lambda name: f"{name} (test)" if name in config.test_domains else name),
        column("accuracy", "train", f"accuracy, {first}", 3),
        column("accuracy", "val", second, 3),
        column("risk", "train", f"mean risk, {first}", 4),
        column("risk", "val", second, 4),
    ]
    print_line(f"{config.method} on {config.data} after {last.step} steps", "bold")
    print_table(columns, last.scores)
    if record.stopped_early:
        cause = f"the validation risk was flat for {config.patience} evaluations"
        if config.average == "swad":
            cause = "the validation risk was flat, or had left the window of swad"
        print_line(f"Stopped at step {last.step} of {config.steps}: {cause}.")
    if (share := record.evaluation_share) is not None:
        spent = f"{share:.0%} of {clock(last.seconds)}"
        print_line(f"evaluation {spent}, checkpoints included")
    for message in run.findings:
        print_line(f"warning: {message}")
    for label, path, names in run.files:
        print_line(f"{label:<10} {path}{f' ({names})' if names else ''}")
    if command.all_domains:
        print_line(f"{'model':<10} {command.model}")
    print_line(f"{'repeat':<10} {command.command}")
