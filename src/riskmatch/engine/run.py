"""Train a run from its configuration, and continue it after an interruption."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as to_bytes

from riskmatch.data.domain import DomainSet
from riskmatch.defaults import SourceChangedError, check_source, source_changes
from riskmatch.device import fork_random, reset_peak_memory
from riskmatch.engine import checkpoint
from riskmatch.engine.assemble import assemble
from riskmatch.engine.checkpoint import NoCheckpointError
from riskmatch.engine.data_identity import (
    check_files_unchanged,
    check_unchanged,
    identity_of,
    warn_if_changed,
)
from riskmatch.engine.evaluate import lacks_gradient
from riskmatch.engine.instances import (
    KINDS,
    NO_INSTANCES,
    InstanceError,
    Instances,
    is_instance,
    recorded_fingerprint,
    without_fingerprints,
)
from riskmatch.engine.loop import Execution, Session
from riskmatch.files import make_folder, to_json, write_whole
from riskmatch.runs import predictions as predictions_file
from riskmatch.runs import records
from riskmatch.runs.config import RunConfig, acts_from
from riskmatch.runs.findings import RunWarning, inactive, no_gradient
from riskmatch.runs.records import RunRecord, lock

FIRST = "first"
"""Folder in that of a run that is trained again, with its first run."""
START = "start.safetensors"
"""File in the folder of a run with the network before the first step, where the method needs it."""


class UnfinishedError(RuntimeError):
    """The run was started before, and neither ``resume`` nor ``restart`` is true."""


def train(
    config: RunConfig,
    out: Path,
    *,
    domains: DomainSet | None = None,
    instances: Instances = NO_INSTANCES,
    resume: bool = False,
    restart: bool = False,
    force: bool = False,
    **options: Any,
) -> RunRecord:
    """Train the run that ``config`` describes, in the folder ``out / config.id``.

    The record of a finished run is returned at once, with a warning if its data have changed.
    Checkpoints are written at every evaluation, every ``checkpoint_every`` steps, and on Ctrl-C. A
    run continued from a checkpoint has the same weights and record as one without interruption,
    except for times and memory. A method that never acts, see
    :func:`~riskmatch.runs.findings.inactive`, is warned about before the first step.

    Args:
        config: configuration of the run.
        out: folder of all runs.
        domains: result of :func:`~riskmatch.engine.assemble.domains_of`, if it is loaded.
        instances: parts that ``config`` refers to by instance.
        resume: continue an interrupted or failed run from its last checkpoint.
        restart: start an interrupted or failed run again, without its checkpoints and evaluations.
        force: start the run again even if it is finished.
        options: fields of :class:`~riskmatch.engine.loop.Execution`. Of several processes each
            makes this call.

    Raises:
        UnfinishedError: the run was started before; ``resume`` and ``restart`` are false.
        NoCheckpointError: the run to continue has evaluations but no checkpoint.
        OSError: a file of the run cannot be read or written.
        DataChangedError: the run, or the ERM phase it starts from, was trained on other data.
        SourceChangedError: the source of a part is not the one in ``config``.
        InstanceError: an instance that ``config`` refers to is missing or is another one.
        BusyError: another process is training the run.
        DivergedError: a term or a weight is not finite; the record states it too.
        LostProcessError: another of the processes has stopped.
    """
    execution = Execution(**options)
    device, processes = torch.device(execution.device), execution.processes
    if not processes.main:
        execution = replace(execution, on_step=None, on_evaluation=None, on_progress=None)
    if resume and restart:
        raise ValueError(
            "resume (--resume) continues a run and restart (--restart) starts it again: give one."
        )

    def train_one(config: RunConfig, resume: bool, restart: bool, force: bool = False) -> RunRecord:
        folder, read = out / config.id, (execution.data_dir, domains, execution.on_progress)
        assembly = assemble(config, device, *read, instances, processes.count)
        if execution.log_every is not None:
            assembly.stepper.log_every = execution.log_every
        processes.check_same(config.id, identity_of(assembly.domains))
        if processes.main:
            make_folder(folder)
        locked = lock(folder) if processes.main else nullcontext()
        with locked, fork_random(device):
            # Another process may have trained it meanwhile.
            finished = partial(_finished, folder, resume or restart, force)
            if record := processes.from_main(finished):
                return record
            session = Session(folder, config, assembly, execution)
            if first is not None:
                session.learned = {e.step: e for e in first.evaluations}
            if not early and (message := inactive(config, assembly.domains.names)):
                warnings.warn(message, RunWarning, stacklevel=3)
            start = acts_from(config)
            unfelt = start is not None and lacks_gradient(assembly.stepper, assembly.splits, start)
            if unfelt:
                warnings.warn(no_gradient(config), RunWarning, stacklevel=3)
            _start_or_resume(session, out, restart, unfelt)
            if (preprocessing := assembly.domains.preprocessing) and processes.main:
                content = to_json(preprocessing.to_json()) + "\n"
                write_whole(folder / records.PREPROCESSING, content.encode())
            reset_peak_memory(device)
            try:
                with processes.lost_processes_named():
                    session.run()
            except (Exception, SystemExit) as error:
                if processes.main:
                    records.end(folder, "failed", f"{type(error).__name__}: {error}")
                raise
            steps = {"last": session.step, **session.best_steps()}
            if processes.main:
                records.end(folder, "done", checkpoints=steps, stopped_early=session.stops_early)
        return processes.from_main(lambda: records.read(folder))

    first: RunRecord | None = None
    check_source(config)
    restart = restart or force
    finished = partial(_finished, out / config.id, resume or restart, force)
    if record := processes.from_main(finished):
        warn_if_changed(record, domains, execution.data_dir)
        return record
    if early := inactive(config):  # before images are decoded and embedded
        warnings.warn(early, RunWarning, stacklevel=2)
    phases = [config.erm_phase()] if config.pretrain else []
    for run in [*phases, *([] if restart else [config])] if domains is None else ():
        if processes.main and records.checkpoints(out / run.id):
            check_files_unchanged(out / run.id, execution.data_dir)
    for phase in phases:
        if not processes.from_main(partial(_is_done, phase, out)):
            train_one(phase, resume=True, restart=restart)
    if config.retrain:
        first = train(
            replace(config, retrain=False),
            out / config.id / FIRST,
            domains=domains,
            instances=instances,
            resume=not restart,
            restart=restart,
            force=force,
            **{**options, "predictions": False, "on_evaluation": None},
        )
    return train_one(config, resume, restart, force)


def check_not_edited(config: RunConfig, out: Path) -> None:
    """Raise if the run to continue was started with another source of its parts, or other objects.

    Raises:
        SourceChangedError, InstanceError: it was.
    """
    instances = [kind for kind in KINDS if is_instance(getattr(config, kind))]
    if (out / config.id).exists() or not (config.source or instances):
        return
    for before in (record.config for record in records.read_all(out)):
        if config.source and replace(before, source="") == replace(config, source=""):
            raise SourceChangedError(
                f"The source or version of {source_changes(before, config)} has changed since the "
                f"run {before.id} in {out} started. Restore it, or start anew without --resume."
            )
        changed = [
            kind
            for kind in instances
            if recorded_fingerprint(kind, before) != recorded_fingerprint(kind, config)
        ]
        others = [without_fingerprints(run, changed) for run in (before, config)]
        if changed and others[0] == others[1]:
            raise InstanceError(
                f"The run {before.id} in {out} was trained with another {changed[0]}: pass "
                "the same object, in the same state, or leave out resume to start a new run."
            )


def _finished(folder: Path, resume: bool, force: bool) -> RunRecord | None:
    """Record of the run if it is done; None if it is to be started or continued."""
    record = records.find(folder)
    if record is None or force or (resume and record.status != "done"):
        return None
    if record.status == "done":
        return record
    last = record.evaluations[-1].step if record.evaluations else 0
    state = f"failed ({record.error})" if record.status == "failed" else "is unfinished"
    raise UnfinishedError(
        f"The run in {folder} {state}; its last evaluation is that of step {last} of "
        f"{record.config.steps}. Continue it with resume=True, or start again with restart=True."
    )


def _is_done(phase: RunConfig, out: Path) -> bool:
    """Whether the ERM phase is done and its last checkpoint is there."""
    folder = out / phase.id
    record, whole = records.find(folder), phase.steps in records.checkpoints(folder)
    done = record is not None and record.status == "done"
    if done and not whole:
        (folder / records.FILE).unlink()  # a record alone is not enough to start from
    return done and whole


def _start_or_resume(session: Session, out: Path, restart: bool, unfelt: bool) -> None:
    """Restore the last checkpoint; start the run if it has none, or if ``restart``."""
    assembly, last, faults, record = session.assembly, None, list[str](), None
    before, path = assembly.stepper.memory.start, session.folder / START
    data, main = identity_of(assembly.domains), session.processes.main
    torch.manual_seed(session.config.seed)  # for dropout
    if not restart:
        load = partial(_load_last, session.folder, session.config)
        last, faults, record = session.processes.from_main(load)
    if last is None and record is not None and record.evaluations:
        raise NoCheckpointError(
            f"The run in {session.folder} has evaluations up to step {record.evaluations[-1].step} "
            f"but no checkpoint to continue from{_listed(faults)}. Restore one, or start again by "
            "restart=True (--restart), in a sweep by removing that folder."
        )
    if faults and main:
        start = f"step {last.step}" if last and record else "the start"
        warnings.warn(f"{' '.join(faults)} Continuing from {start}.", stacklevel=4)
    if last is None or record is None:
        if session.config.pretrain:
            _start_from_phase(session, out)
        if main:
            checkpoint.clear(session.folder)
            predictions_file.rewind(session.folder, -1)
            parts, task = assembly.origins, assembly.facts
            records.start(session.folder, session.config, data, parts, task, unfelt)
            if before is not None:
                write_whole(path, to_bytes(before.state_dict()))
        return
    check_unchanged(record, data, session.folder)
    if before is not None:
        checkpoint.load_start(before, path)
    notes = checkpoint.restore(last, assembly.stepper, assembly.sampler, session.average)
    if main:
        records.rewind(session.folder, last.step)
        predictions_file.rewind(session.folder, last.step)
    session.numbers, session.saved = notes.numbers, last.step
    session.started -= notes.seconds
    session.evaluations = [e for e in record.evaluations if e.step <= last.step]


def _listed(faults: Sequence[str]) -> str:
    return f": {'; '.join(fault.rstrip('.') for fault in faults)}" if faults else ""


def _load_last(
    folder: Path, config: RunConfig
) -> tuple[checkpoint.Snapshot | None, list[str], RunRecord | None]:
    """The newest valid checkpoint of a run, the faults of newer ones, and the record."""
    last, faults = checkpoint.load_last(folder, config.id, config.steps)
    return last, faults, records.find(folder)


def _start_from_phase(session: Session, out: Path) -> None:
    """Restore weights, batches and random streams from the end of the shared ERM phase."""
    phase = session.config.erm_phase()
    folder = out / phase.id
    last, faults, record = session.processes.from_main(partial(_load_last, folder, phase))
    if last is None or record is None or last.step != phase.steps:
        raise NoCheckpointError(
            f"The ERM phase in {folder} has no checkpoint of its last step{_listed(faults)}. "
            f"Restore it, or remove {folder} to train the phase again."
        )
    check_unchanged(record, identity_of(session.assembly.domains), folder)
    stepper = session.assembly.stepper
    base, generator = stepper.memory.base, stepper.memory.generator.get_state()
    checkpoint.restore(last, stepper, session.assembly.sampler)
    stepper.memory.base, stepper.memory.state = base, {}
    stepper.memory.generator.set_state(generator)
    stepper.phases = {}
    session.saved = last.step
