"""Plan, run, inspect and retry sweeps: one call for each command of ``riskmatch sweep``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from riskmatch.data import OnProgress
from riskmatch.defaults import check_mappings, resolve, source_changes, with_source
from riskmatch.runs.findings import RunWarning, inactive_runs, replaced_lr
from riskmatch.sweep.board import Board, OnChange, SweepStatus, status_of
from riskmatch.sweep.launchers import Launcher, Local, make_launcher, run_all
from riskmatch.sweep.plan import (
    DRAWS,
    FILE,
    RUNS,
    PlannedRun,
    Protocol,
    extend,
    held_out,
    parse_draws,
    read,
    replan,
)
from riskmatch.sweep.worker import SweepSettings
from riskmatch.trust import admit, remember
from riskmatch.validation import check_option, plain, texts

if TYPE_CHECKING:
    from riskmatch.engine.cost import SweepCost


@dataclass(frozen=True)
class SweepPlan:
    """What :func:`plan_sweep` planned."""

    runs: list[PlannedRun]
    """All runs that were asked for."""
    new: list[PlannedRun]
    """Those that the plan lacked before."""
    unfinished: int
    """Number of runs that are not yet done, ERM phases included."""
    seconds: float | None
    """Estimate of the time that these take on this machine; None if no step could be timed."""
    jobs: int
    """Number of runs at a time in this estimate."""
    file: Path
    """File of the plan."""


def plan_sweep(
    folder: Path | str,
    data: str | Path,
    methods: str | Sequence[str] | None = None,
    *,
    test_domains: str | float | Sequence[str | float] = (),
    leave_two_out: bool = False,
    leave_out_together: Sequence[Sequence[str]] = (),
    equal_batches: bool = False,
    draws: int | str = DRAWS,
    trials: int = 3,
    fixed_draws: bool = False,
    frozen: bool = False,
    choices: Mapping[str, Any] | None = None,
    preset: str | None = None,
    data_dir: Path | None = None,
    made_by: str = "riskmatch.sweep.plan_sweep",
    on_progress: OnProgress | None = None,
) -> SweepPlan:
    """Write the plan of a sweep, or add runs to it, and estimate how long they take.

    Runs whose method never acts, such as those with a drawn warm-up longer than the run, are warned
    about.

    Args:
        folder: folder of the sweep; the plan is its file ``plan.jsonl``.
        data: name or path of a data set, or ``package.module:function``.
        methods: names of methods, or ``package.module:Class``; by default all built-in ones.
        test_domains: domains to leave out; by default each in turn. A number stands for its text.
        leave_two_out: also leave out every pair of domains, for selection by leave-one-out.
        leave_out_together: groups of domains to hold out at once, as they share pictures or
            objects; the accuracy on each is that of a domain without its siblings.
        equal_batches: use one batch size in all runs, that of ERM on the data set, in place of the
            batch sizes that the protocol draws for each method.
        draws: random settings per method, draw 0 being the defaults; or ``"domainbed"`` for the 20
            that DomainBed draws by ``hparams_seed`` and ``trial_seed``, ``"domainbed:5"`` for 5.
        trials: number of trials of each draw.
        fixed_draws: use the same draws in all trials.
        frozen: train only the head, on the features of a frozen backbone.
        choices: fields of the runs, or of the methods that have them, fixed in all draws.
        preset: preset of every method: ``paper``, ``authors-code`` or ``domainbed``. Methods
            without choices of their own have those for all methods alone.
        data_dir: folder searched first for the files of the data set.
        made_by: command written above the runs in the plan.
        on_progress: called while the data set is loaded.

    Raises:
        ValueError: a method, a domain or an option does not exist, or a value does not fit.
        TypeError: ``data`` or ``methods`` are objects, which a plan cannot hold.
        FileNotFoundError: the files of the data set are not on this machine.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> tiny = {"steps": 10, "warmup": 5, "eval_every": 10,
        ...     "data_options": {"samples": 40}, "model_options": {"widths": [4]}}
        >>> plan = plan_sweep(folder, "colored-digits", ["erm", "rdm"],
        ...     test_domains=["0.1"], draws=1, trials=1, choices=tiny)
        >>> [run.title for run in plan.new][0]
        'erm on colored-digits without 0.1, draw 0, trial 0'
        >>> len(run_sweep(folder, Local(jobs=1)).done)
        2
        >>> sweep_status(folder).total["done"]
        2
    """
    from riskmatch.data import load
    from riskmatch.data.splits import check_splits
    from riskmatch.engine.assemble import check_domains, objective
    from riskmatch.objectives import methods as built_in

    choices = {name: plain(value) for name, value in (choices or {}).items()}
    check_mappings(choices)
    if frozen:
        choices["model_options"] = {**choices.get("model_options", {}), "frozen": True}
    out = Path(folder) / RUNS
    if not isinstance(data, str | Path):
        raise TypeError(
            "data must be a name or a path, because the plan of a sweep is a file, got "
            f"{type(data).__name__}. Name a function that returns your data: "
            "'package.module:function'."
        )
    data, names, left_out = str(data), _method_names(methods), texts("test_domains", test_domains)
    domains = load(data, choices.get("data_options", {}), data_dir, on_progress)
    for domain in left_out:
        check_option(f"domain of {data}", domain, domains.names)
    if equal_batches:
        frozen = bool(choices.get("model_options", {}).get("frozen"))
        choices.setdefault("batch_size", resolve("erm", data, frozen=frozen)["batch_size"].value)
    wanted = set(left_out or domains.names)
    number, domainbed = parse_draws(draws)
    tests = held_out(domains.names, domains.test_only, leave_two_out, leave_out_together)
    runs = Protocol(
        data,
        names or tuple(sorted(built_in())),
        tuple(test for test in tests if wanted & set(test)),
        number,
        trials,
        fixed_draws,
        choices,
        preset,
        domainbed,
    ).runs()
    for run in runs:
        method = objective(run.config.method, run.config.hparams)
        check_domains(method, len(domains.names) - len(run.config.test_domains))
    configs = [run.config for run in runs]
    for rule in {config.split for config in configs} - {"hash"}:
        check_splits(domains.domains, rule=rule)
    board = Board.from_folder(configs, out)
    worker = Local().worker(board, SweepSettings(out, data_dir))
    worker.domains(runs[0].config, on_progress)
    worker.time_groups(board)
    first = {config.method: config for config in reversed(configs)}
    replaced = [replaced_lr(config, choices) for config in first.values()]
    for message in filter(None, [*inactive_runs(configs, domains.names), *replaced]):
        warnings.warn(message, RunWarning, stacklevel=2)
    new = extend(Path(folder), runs, made_by)
    remember(Path(folder), {name for run in runs for name in run.config.part_names})
    file = Path(folder) / FILE
    return SweepPlan(runs, new, len(board.waiting), board.seconds_left, board.jobs, file)


def run_sweep(
    folder: Path | str,
    launcher: Launcher | str = "local",
    *,
    retry: bool = False,
    data_dir: Path | None = None,
    predictions: bool = False,
    trust: bool = False,
    on_plan: Callable[[list[PlannedRun]], None] = lambda planned: None,
    on_change: OnChange = lambda board: None,
    on_progress: OnProgress | None = None,
) -> Board:
    """Train the planned runs that are not yet done; runs that failed before are left alone.

    With ``retry`` it is the other way round: the runs that failed, from their last checkpoints. The
    board holds those only, so that its ``total`` is 0 where no run had failed.

    Runs with a part whose source has changed since are planned again, see :func:`planned_runs`.

    Args:
        folder: folder of the sweep.
        launcher: where to train: a launcher, or its name.
        retry: train the failed runs again, and no others.
        data_dir: folder searched first for the files of data sets.
        predictions: store the predictions of every sample at each evaluation.
        trust: import parts ``package.module:Name`` that the plan names, which runs their code;
            those that were named when it was made on this machine are imported anyway.
        on_plan: called with the planned runs before any is trained.
        on_change: called before the first run, during runs and after every run.
        on_progress: called while data sets are loaded.

    Raises:
        FileNotFoundError: the folder has no plan, or a data set is not on this machine.
        UntrustedError: the plan names a part that is not trusted.

    Example:
        See :func:`plan_sweep`.
    """
    from riskmatch.data.sources import missing_data

    planned = planned_runs(folder, trust)
    if retry:
        failed = status_of(planned, Path(folder) / RUNS).failed
        planned = [run for run in planned if run.config.id in failed]
        if not planned:
            return Board([], Path(folder) / RUNS)
    if missing := missing_data({run.config.data for run in planned}, data_dir):
        cures = " and ".join(f"{name} ({cure})" for name, cure in missing.items())
        raise FileNotFoundError(f"Data of this plan are not on this machine. Get {cures}.")
    on_plan(planned)
    return run_all(
        [run.config for run in planned],
        Path(folder) / RUNS,
        launcher,
        data_dir=data_dir,
        retry=retry,
        predictions=predictions,
        on_change=on_change,
        on_progress=on_progress,
    )


def planned_runs(folder: Path | str, trust: bool = False) -> list[PlannedRun]:
    """Runs of a plan, to train them with the parts of the user's own as they are now.

    Where the source of a part has changed since the plan was written, its runs are planned again in
    place of the earlier ones, with a warning. The records of the earlier ones stay.

    Raises:
        UntrustedError: the plan names a part that is not trusted, see :mod:`riskmatch.trust`.
    """
    folder = Path(folder)
    planned = read(folder)
    admit({name for run in planned for name in run.config.part_names}, folder / FILE, trust)
    by_parts = {run.config.part_names: run.config for run in planned}  # a sweep has few parts
    now = {names: with_source(config) for names, config in by_parts.items()}
    configs = [run.config for run in planned]
    edited = [config for config in configs if config.source != now[config.part_names].source]
    if not edited:
        return planned
    replan(folder, {names: config.source for names, config in now.items()})
    parts = dict.fromkeys(source_changes(config, now[config.part_names]) for config in edited)
    warnings.warn(
        f"The source or version of {' and '.join(parts)} has changed since the plan was "
        f"written: {'1 run is' if len(edited) == 1 else f'{len(edited)} runs are'} planned again.",
        RunWarning,
        stacklevel=3,
    )
    return read(folder)


def sweep_status(folder: Path | str) -> SweepStatus:
    """Count the runs of a sweep by method and state, and estimate the time left.

    Example:
        See :func:`plan_sweep`.
    """
    return status_of(read(Path(folder)), Path(folder) / RUNS)


def sweep_cost(
    folder: Path | str,
    launcher: Launcher | str = "local",
    *,
    retry: bool = False,
    data_dir: Path | None = None,
    trust: bool = False,
    throughput: str | float | None = None,
    on_progress: OnProgress | None = None,
) -> SweepCost:
    """Estimate time and memory of the runs that :func:`run_sweep` would train, from a few steps.

    Arguments are those of :func:`run_sweep`. With ``throughput``, samples per second of training or
    a factor such as ``"20x"``, times are scaled to such a machine; ``wall_clock(workers)`` of the
    result has the time that so many of them take together. Nothing is written.
    """
    from riskmatch.device import resolve_device
    from riskmatch.engine.cost import total_cost

    configs = [run.config for run in planned_runs(folder, trust)]
    board = Board.from_folder(configs, Path(folder) / RUNS)
    ids = set(board.failed) if retry else {config.id for config in board.unfinished}
    launcher = make_launcher(launcher)
    return total_cost(
        [config for config in configs if config.id in ids],
        device=resolve_device(launcher.device if isinstance(launcher, Local) else "auto"),
        data_dir=data_dir,
        throughput=throughput,
        on_progress=on_progress,
    )


def _method_names(methods: object) -> tuple[str, ...]:
    try:
        return texts("methods", methods or ())
    except TypeError as error:
        raise TypeError(
            f"{error} The plan of a sweep is a file: name a class, as in 'rdm' or "
            "'package.module:Class', and set its fields in choices."
        ) from None
