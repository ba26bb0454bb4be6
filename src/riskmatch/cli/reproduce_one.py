"""One table or figure, from what is asked for to its files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from riskmatch.cli.board import Shown
from riskmatch.cli.device import device_of
from riskmatch.cli.errors import BadInput
from riskmatch.experiments.at_hand import begun, data_at_hand, data_of, done
from riskmatch.experiments.catalogue import EXPERIMENTS
from riskmatch.experiments.experiment import (
    RUNS,
    Budget,
    Experiment,
    Finished,
    Option,
    Planned,
    Request,
    Result,
)
from riskmatch.experiments.notes import in_place_of, left_out
from riskmatch.experiments.rows import INITS
from riskmatch.sweep.running import run_all

if TYPE_CHECKING:
    from riskmatch.cli.reproduce import Reproduce
    from riskmatch.sweep.board import Board


@dataclass(frozen=True)
class Outcome:
    """What became of an experiment."""

    result: Result | None
    """None where nothing can be shown yet."""
    trouble: str | None = None
    """Why it is not all there, in a line."""
    interrupted: bool = False
    failed: dict[str, str] = field(default_factory=dict)
    """Why runs failed, by id."""

    @property
    def onward(self) -> str:
        """What the same command would do."""
        return "To go on" if self.interrupted else "To try again"

    def to_json(self) -> dict[str, Any]:
        """What there is to show, as plain JSON."""
        if self.result is None:
            return {"files": [], "result": None, "failed": self.failed}
        files = [str(path) for path in self.result.files]
        return {"files": files, "result": self.result.values, "failed": self.failed}


def reproduce(name: str, budget: Budget, options: Reproduce) -> Outcome:
    """Train what is not yet done, and write what can be shown.

    Args:
        name: of the experiment.
        budget: how much to run.
        options: those of the command; ``name`` and ``budget`` in place of its own.
    """
    experiment = EXPERIMENTS[name]
    if experiment.draws and find_spec("matplotlib") is None:
        raise BadInput("The figure needs a package: pip install 'riskmatch[figures]'.")
    try:
        request = _request(experiment, budget, options)
        planned = experiment.plan(request)
    except ValueError as error:
        raise BadInput(str(error)) from error
    out = options.out or Path("reproduce-smoke" if budget == "smoke" else "reproduce")
    if not options.quiet and (said := in_place_of(request) or left_out(request)):
        print(said.strip(), file=sys.stderr)
    board = None if options.as_is else _train(experiment, planned, out, budget, options)
    if experiment.refine is not None:
        before = {run.config.id for run in planned}
        planned = experiment.refine(request, done(planned, out / RUNS))
        more = not before.issuperset(run.config.id for run in planned)
        if board and more and not board.interrupted:
            board = _train(experiment, planned, out, budget, options)
    records = done(planned, out / RUNS)
    if options.as_is:
        _check_shown(name, experiment, len(records), len(planned), out)
        request = begun(request, records.values())
        planned = [run for run in planned if run.config.data in request.data]
    finished = Finished(
        name, request, planned, records, out, _essence(name, options), options.data_dir
    )
    some = bool(records) and (experiment.partial or len(records) == len(planned))
    result = experiment.write(finished) if some else None
    if board is None or not (board.failed or board.interrupted):
        return Outcome(result)
    return Outcome(result, _trouble(board, planned), board.interrupted, board.failed)


def _request(experiment: Experiment[Any], budget: Budget, options: Reproduce) -> Request:
    wanted = _words(options.data) or ()
    if options.as_is and budget != "smoke":  # what is done needs no data
        data, absent = data_of(experiment, wanted), dict[str, str]()
    else:
        data, absent = data_at_hand(experiment, budget, wanted, options.data_dir)
    return Request(
        budget,
        data,
        absent,
        _words(options.methods),
        _numbers("seeds", options.seeds),
        _numbers("search-seeds", options.search_seeds),
        INITS if options.init == "both" else (options.init,),
    )


def _words(text: str | None) -> tuple[str, ...] | None:
    return tuple(text.split(",")) if text else None


def _numbers(option: str, text: str | None) -> tuple[int, ...] | None:
    try:
        return tuple(sorted({int(word) for word in text.split(",")})) if text else None
    except ValueError:
        raise BadInput(f"--{option} lists whole numbers, as in 0,1,2, not {text}.") from None


def _train(
    experiment: Experiment[Any],
    planned: Sequence[Planned],
    out: Path,
    budget: Budget,
    options: Reproduce,
) -> Board:
    with Shown({run.config.id: run.title for run in planned}, options.quiet) as shown:
        return run_all(
            [run.config for run in planned],
            out / RUNS,
            jobs=options.jobs or (1 if budget == "smoke" else None),
            data_dir=options.data_dir,
            device=device_of(options.device),
            predictions=experiment.predictions,
            on_change=shown,
            on_progress=shown.loading,
        )


def _check_shown(name: str, experiment: Experiment[Any], found: int, total: int, out: Path) -> None:
    """Say so where too little is there to be shown as it is."""
    if not found:
        raise BadInput(f"None of these runs is done in {out}. Without --as-is they are trained.")
    if found < total and not experiment.partial:
        raise BadInput(
            f"{name} needs all of its {total} runs; {found} are done in {out}. Without --as-is the "
            "others are trained."
        )


def _essence(name: str, options: Reproduce) -> str:
    """The command without what the result does not depend on."""
    words = ["riskmatch", "reproduce", name]
    for option in ("budget", *get_args(Option)):
        value = getattr(options, option)
        if value != getattr(type(options), option):
            words += [f"--{option.replace('_', '-')}", value]
    return " ".join(words)


def _trouble(board: Board, planned: Sequence[Planned]) -> str:
    if board.interrupted:
        return f"Interrupted; {len(board.done)} of {board.total} runs are done."
    titles = {run.config.id: run.title for run in planned}
    id, why = next(iter(board.failed.items()))
    first = f"{titles.get(id, 'an ERM phase')} ({id}): {why.rstrip('.')}"
    return f"{len(board.failed)} of {board.total} runs failed; the first: {first}."
