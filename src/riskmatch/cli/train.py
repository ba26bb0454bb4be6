"""``riskmatch train``: one run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from riskmatch.cli import summary
from riskmatch.cli.device import device_of
from riskmatch.cli.errors import BadInput, CommandError, RunFailed
from riskmatch.cli.progress import RunDisplay
from riskmatch.cli.request import Request, read

if TYPE_CHECKING:
    from riskmatch.runs.config import RunConfig
    from riskmatch.runs.records import Evaluation, RunRecord


def run(words: Sequence[str]) -> int:
    """Train one model, or explain how."""
    request = read(words)
    record = _train(request)
    if request.json:
        print(json.dumps(summary.as_json(record, request.folder), indent=2))
    elif not request.quiet:
        summary.show(record, request.folder, request.command)
    return 0


def _train(request: Request) -> RunRecord:
    from riskmatch.engine import checkpoint
    from riskmatch.engine.memory import keep_freed_memory
    from riskmatch.engine.run import UnfinishedError, train
    from riskmatch.engine.step import DivergedError
    from riskmatch.runs.lock import BusyError

    keep_freed_memory()
    device = device_of(request.device)
    _check_domains(request)
    display = RunDisplay(request.config, request.quiet)
    try:
        with display, _tensorboard(request) as write_events:

            def on_evaluation(config: RunConfig, evaluation: Evaluation) -> None:
                display.evaluation(config, evaluation)
                if config.id == request.config.id:
                    write_events(evaluation)

            record = train(
                request.config,
                request.out,
                device=device,
                data_dir=request.data_dir,
                resume=request.resume,
                predictions=True,
                on_step=display.step,
                on_evaluation=on_evaluation,
                on_progress=display.progress,
            )
        if display.last_step is None and not request.quiet:
            print("This run was done before; this is its record.", file=sys.stderr)
        return record
    except CommandError:
        raise
    except UnfinishedError:
        raise BadInput(
            f"This run was begun before. To go on: {request.onward} "
            f"(to start again, remove {request.folder})"
        ) from None
    except KeyboardInterrupt as error:
        at = "" if display.last_step is None else f" after step {display.last_step}"
        raise RunFailed(f"Interrupted{at}. To go on: {request.onward}") from error
    except BusyError as error:
        raise RunFailed(str(error)) from error
    except DivergedError as error:
        raise RunFailed(
            f"{error} A smaller --lr or --clip 1 may help; to go on all the same: {request.onward}"
        ) from error
    except Exception as error:
        if display.last_step is None and isinstance(error, ValueError | ImportError | OSError):
            raise BadInput(str(error)) from error
        cause = f"{type(error).__name__}: {error}".rstrip(".")
        if not checkpoint.exists(request.folder / checkpoint.FOLDER):
            raise RunFailed(f"{cause} (--debug shows the traceback)") from error
        raise RunFailed(f"{cause}. To go on from the last checkpoint: {request.onward}") from error


def _check_domains(request: Request) -> None:
    """Refuse a test domain that does not exist before any image is decoded."""
    from riskmatch.data.catalogue import known_domains
    from riskmatch.validation import check_option

    try:
        if names := known_domains(request.config.data):
            for name in request.config.test_domains:
                check_option(f"domain of '{request.config.data}'", name, names)
    except ValueError as error:
        raise BadInput(str(error)) from error
    except OSError:
        return  # without its data a run that is done can still be shown


@contextmanager
def _tensorboard(request: Request) -> Iterator[Callable[[Evaluation], None]]:
    """Give the function that writes evaluations as TensorBoard events, where they are wanted."""
    if not request.tensorboard:
        yield lambda evaluation: None
        return
    from riskmatch.cli.tensorboard import Events

    events = Events(request.folder)
    try:
        yield events.write
    finally:
        events.close()
