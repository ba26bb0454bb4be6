"""``riskmatch.train`` and ``riskmatch.cost``: one run, from names or objects."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from riskmatch import trust
from riskmatch.advice.advice import Advice, departure, read_advice, with_advice
from riskmatch.contract import Objective, OptimFactory, OptimSpec, RiskFunction
from riskmatch.data import DomainSet, OnProgress, load_data
from riskmatch.data.catalogue import known_domains
from riskmatch.data.convert import Group, table_options
from riskmatch.defaults import Setting, check_mappings, field_names, resolve, run_config
from riskmatch.deployment.folder import Expected
from riskmatch.device import keep_freed_memory, resolve_device
from riskmatch.engine import run as runs
from riskmatch.engine.cost import Cost, run_cost
from riskmatch.engine.instances import (
    KINDS,
    Instances,
    fingerprint,
    instance_name,
    is_instance,
    named_objective,
    with_fingerprint,
)
from riskmatch.engine.load import Run
from riskmatch.engine.loggers import make_loggers
from riskmatch.engine.loop import Keep, OnEvaluation, OnStep
from riskmatch.engine.parallel import joined_processes
from riskmatch.runs.config import RunConfig
from riskmatch.runs.findings import RunWarning, replaced_lr
from riskmatch.runs.lines import Evaluation
from riskmatch.validation import check_option, texts

if TYPE_CHECKING:
    import pandas as pd

    Data = str | Path | DomainSet | Mapping[str, Any] | pd.DataFrame
    """A name, a path, or objects as :func:`riskmatch.load_data` takes them."""


@dataclass(frozen=True)
class PreparedRun:
    """A run to train: its configuration, and where each value comes from."""

    config: RunConfig
    settings: Mapping[str, Setting]
    """Value and source of every field."""
    instances: Instances
    """Objects that the configuration refers to."""
    expected: Expected | None = None
    """Accuracy to expect on a new domain, if the run follows an advice."""
    together: Sequence[Sequence[str]] = ()
    """Siblings, which the advice left out together."""


def train(
    data: Data | PreparedRun,
    method: str | Objective | None = None,
    test_domains: str | float | Iterable[str | float] = (),
    *,
    model: str | nn.Module | None = None,
    preset: str | None = None,
    frozen: bool = False,
    task: str | None = None,
    risk: str | RiskFunction | None = None,
    metrics: str | Iterable[str] = (),
    metric: str | None = None,
    optim: str | OptimFactory | None = None,
    advice: Advice | Path | str | None = None,
    seed: int = 0,
    label: str | Sequence[str] | None = None,
    domain: str | None = None,
    ignore: Sequence[str] = (),
    group: Group = None,
    out: Path | str = "runs",
    data_dir: Path | str | None = None,
    device: torch.device | str = "auto",
    resume: bool = False,
    restart: bool = False,
    force: bool = False,
    checkpoint_every: int | None = None,
    log_every: int | None = None,
    keep: Keep = "best",
    predictions: bool = True,
    log: Sequence[str] = (),
    save: Path | str | bool = False,
    left_out: bool | Sequence[Sequence[str]] = False,
    after_warmup: bool = False,
    licence: str | None = None,
    overwrite: bool = False,
    on_left_out: Callable[[str], None] = lambda line: None,
    on_step: OnStep | None = None,
    on_evaluation: OnEvaluation | None = None,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> Run:
    """Train one run; return it with its configuration, evaluations, predictions and network.

    Names of data, methods, networks and divergences may be ``package.module:Name``. A run with
    objects is stored under their class and a fingerprint of their state; to continue it, pass the
    same objects again.
    A run is identified by the content of its data and evaluated on all of them, so a loader of
    batches is no data of a run: :func:`riskmatch.fit` takes one.

    In a script that torchrun started, or in the default process group of torch, all processes train
    the run together, with the results of one; see :mod:`riskmatch.engine.parallel`.

    Args:
        data: name or path of a data set, or objects as :func:`riskmatch.load_data` takes them; or
            what :func:`prepare` returned, which has taken the arguments up to ``group``.
        method: name of a method, or an objective; by default that of ``advice``, or ``rdm``.
        test_domains: domains held out from training: a name or several; a number stands for its
            text.
        model: name of a network, or a module x → ``(features, logits)``, or x → logits if the
            method needs no features, which is copied; by default the network of the data set.
            Inputs that are a mapping are passed as keyword arguments.
        preset: ``paper``, ``authors-code`` for what its released code does, or ``domainbed``.
        frozen: train the head alone, on features of a frozen backbone. Unless ``steps`` or
            ``patience`` are given, it stops when the validation risk is flat, as does a head on a
            file of features.
        task: what is predicted: ``"classification"``, ``"multi-label"``, ``"regression"``, or
            ``package.module:NAME``, see :class:`~riskmatch.contract.task.Task`; by default as the
            labels say.
        risk: loss of each sample, by default that of the task: ``"cross-entropy"``,
            ``"binary-cross-entropy"``, ``"squared"``, ``"huber"``, or a function of ``(outputs,
            y)`` that returns (n,).
        metrics: what evaluations record, by default all metrics of the task: names, see
            :mod:`riskmatch.metrics`, or ``package.module:function``.
        metric: the primary metric, by default that of the task: the checkpoints of the best steps
            have its best values.
        optim: ``"adam"`` (default), ``"adamw"``, ``"sgd"``, or a function of the weights that
            returns a torch optimiser, which has the learning rate and weight decay; see
            :meth:`~riskmatch.contract.OptimSpec.of`.
        advice: what :func:`riskmatch.advise` advises, or the file that it wrote: method and
            options, over which those that are given win, and the expected accuracy.
        seed: seed of the weights, the batches and the method's random choices.
        label: column of the label, for a table (a data frame, a CSV or Parquet file) or a list of
            images: of the class, of the number, or of lists of tags; several columns are a tag
            each.
        domain: column of the domain, for a table.
        ignore: columns to leave out, for a table.
        group: samples of one group are on one side of every split, in all domains: a column,
            ``"stem"`` for images in folders, or the groups of each domain of a mapping; see
            :func:`riskmatch.load_data`. Where groups span domains, a test domain is reported on
            its samples of groups that are not trained on.
        out: folder of all runs.
        data_dir: folder that is searched first for files of the data set.
        device: device to train on; ``auto`` is a GPU if there is one.
        resume: continue an interrupted or failed run from its last checkpoint.
        restart: start an interrupted or failed run again, without its checkpoints and evaluations.
        force: start the run again even if it is finished.
        checkpoint_every: steps between checkpoints, in addition to those at evaluations.
        log_every: steps after which the terms of all steps since the last time are read from the
            device and checked; by default 1 on a CPU and 10 on a GPU, which would wait. The weights
            are the same; a term that is not finite ends the run so many steps later.
        keep: keep the last two checkpoints and those of the best steps by ``train-val``, or
            ``all``; see :meth:`~riskmatch.engine.load.Run.model`.
        predictions: write the predictions on every sample at each evaluation.
        log: also write every evaluation as ``csv`` or ``tensorboard``, both to the folder of the
            run, as ``mlflow``, or with ``package.module:Name``.
        save: write the model folder, there or, with True, to ``model`` in the folder of the run;
            see :func:`riskmatch.save_model`.
        left_out: with ``save``, also train the run without each of its domains in turn, or ten
            parts of more, and store what these models say on the domains left out with the model,
            see :mod:`riskmatch.deployment.left_out`; or the groups of domains that count as one
            site and are left out together, by default those of ``advice``. These runs are in
            ``out``, and continue where they stopped.
        after_warmup: choose the step to save among those at which the method acts.
        licence: licence of the model, for its card.
        overwrite: replace another model in that folder.
        on_left_out: called with a line on the number and time of the runs of ``left_out``, and on
            each of them.
        on_step: called after every step.
        on_evaluation: called with the configuration of a run and each of its evaluations.
        on_progress: called while data are read, decoded, embedded or evaluated.
        options: fields of the method or of :class:`~riskmatch.runs.config.RunConfig`, such as
            ``weight=1.0`` or ``steps=500``; others have their defaults.

    Raises:
        ValueError: a name is unknown, or a value has the wrong type or is out of range.
        UnfinishedError: the run was started before; ``resume`` and ``restart`` are false.
        InstanceError, SourceChangedError: the run to continue was trained with other objects, or
            with another source of a part.
        DataChangedError, BusyError, DivergedError, NoCheckpointError: see
            :func:`riskmatch.engine.run.train`.
        LostProcessError: another process of the run has stopped.

    Example:
        >>> import tempfile
        >>> x, y = torch.randn(40, 3), torch.arange(40) % 2
        >>> clinics = {"A": (x, y), "B": (x + 1, y), "C": (x - 1, y)}
        >>> run = train(clinics, "vrex", "C", out=tempfile.mkdtemp(), steps=20, warmup=5)
        >>> run.record.status, run.evaluations["domain"].unique().tolist()
        ('done', ['A', 'B', 'C'])
        >>> run.model()(x)[1].shape
        torch.Size([40, 2])
    """
    prepared = data
    if not isinstance(prepared, PreparedRun):
        prepared = prepare(
            prepared,
            method,
            test_domains,
            model=model,
            preset=preset,
            frozen=frozen,
            task=task,
            risk=risk,
            metrics=metrics,
            metric=metric,
            optim=optim,
            advice=advice,
            seed=seed,
            label=label,
            domain=domain,
            ignore=ignore,
            group=group,
            on_progress=on_progress,
            **options,
        )
    config, out = prepared.config, Path(out)
    data_dir = None if data_dir is None else Path(data_dir)
    folder = out / config.id
    model_folder = folder / "model" if save is True else Path(save or "")
    keep_freed_memory()
    if resume:
        runs.check_not_edited(config, out)
    _check_test_domains(config)
    if left_out and (config.test_domains or not save):
        raise ValueError("left_out needs save, and a run on all domains: leave out test_domains.")
    chosen = resolve_device(str(device))
    with ExitStack() as stack:
        processes = stack.enter_context(joined_processes(chosen))
        save = bool(save) and processes.main
        if save:
            from riskmatch.deployment.saving import check_destination, save_model

            check_destination(model_folder, config, overwrite, data_dir)
        loggers = make_loggers(log, out) if processes.main else []
        for logger in loggers:
            stack.callback(logger.close)

        def evaluated(config: RunConfig, evaluation: Evaluation) -> None:
            for call in (on_evaluation, *loggers):
                if call is not None:
                    call(config, evaluation)

        trust.remember(folder, config.part_names)
        train_one = partial(
            runs.train,
            out=out,
            device=processes.device,
            data_dir=data_dir,
            instances=prepared.instances,
            restart=restart,
            force=force,
            checkpoint_every=checkpoint_every,
            log_every=log_every,
            keep=keep,
            predictions=predictions,
            on_step=on_step,
            on_evaluation=evaluated,
            on_progress=on_progress,
            processes=processes,
        )
        if left_out:
            on_left_out("after this run one more is trained without each domain, at most ten")
        record = train_one(config, resume=resume)
        run = Run(folder, record, prepared.instances, settings=prepared.settings)
        options = {"after_warmup": after_warmup, "data_dir": data_dir, "device": chosen}
        if save:
            save_model(
                run,
                model_folder,
                expected=prepared.expected,
                licence=licence,
                overwrite=overwrite,
                on_progress=on_progress,
                **options,
            )
        if left_out:
            from riskmatch.deployment.leaving_out import train_left_out

            again = restart or force
            train_left_out(
                run,
                partial(train_one, resume=not again),
                model_folder if save else None,
                together=prepared.together if left_out is True else left_out,
                again=again,
                on_plan=on_left_out,
                on_progress=on_progress,
                **options,
            )
    return run


def cost(
    data: Data | PreparedRun,
    method: str | Objective | None = None,
    test_domains: str | float | Iterable[str | float] = (),
    *,
    data_dir: Path | str | None = None,
    device: torch.device | str = "auto",
    on_progress: OnProgress | None = None,
    **options: Any,
) -> Cost:
    """Estimate time and memory of a run from a few steps; nothing is written.

    Arguments are those of :func:`train`.

    Example:
        >>> options = {"steps": 200, "data_options": {"samples": 50}}
        >>> cost("colored-digits", "rdm", "0.1", **options).steps_after_warmup
        50
    """
    prepared = data
    if not isinstance(prepared, PreparedRun):
        prepared = prepare(prepared, method, test_domains, on_progress=on_progress, **options)
    _check_test_domains(prepared.config)
    return run_cost(
        prepared.config,
        device=resolve_device(str(device)),
        data_dir=None if data_dir is None else Path(data_dir),
        instances=prepared.instances,
        on_progress=on_progress,
    )


def prepare(
    data: Data,
    method: str | Objective | None = None,
    test_domains: str | float | Iterable[str | float] = (),
    *,
    preset: str | None = None,
    frozen: bool = False,
    advice: Advice | Path | str | None = None,
    label: str | Sequence[str] | None = None,
    domain: str | None = None,
    ignore: Sequence[str] = (),
    group: Group = None,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> PreparedRun:
    """Configure a run, as :func:`train` does; its arguments are those of :func:`train`.

    Data by name or path are not read.
    """
    check_mappings(options)
    tests = texts("test_domains", test_domains)
    domains = None
    if not isinstance(data, str | Path):
        columns = table_options(label, domain, ignore)
        domains = load_data(data, **columns, group=group, on_progress=on_progress)
        if "data_options" in options:
            raise ValueError("data_options are for data sets by name; leave them out here.")
    elif columns := table_options(label, domain, ignore, group):
        options["data_options"] = {**options.get("data_options", {}), **columns}
    advised = read_advice(advice) if isinstance(advice, str | Path) else advice
    if method is None:
        method = advised.method if advised else "rdm"
    options["metrics"] = texts("metrics", options.get("metrics", ()))
    unset = dict.fromkeys(("model", "task", "risk", "metric", "optim"))
    defaults: dict[str, Any] = {**unset, "metrics": (), "seed": 0}
    options = {k: v for k, v in options.items() if k not in defaults or v != defaults[k]}
    objects: dict[str, Any] = {
        name: options.pop(name)
        for name in ("model", "risk", "optim")
        if name in options and not isinstance(options[name], str)
    }
    _check_parts(method, objects, frozen, options)
    named, hparams = method, dict[str, Any]()
    if isinstance(method, Objective):
        named, hparams = named_objective(method) or (method, hparams)
    explicit = {**hparams, **options}
    if "optim" in objects:
        weights = [torch.zeros(size).requires_grad_() for size in ((1, 1), (1,))]
        spec = OptimSpec.of(objects["optim"], weights)
        explicit |= {"lr": spec.lr, "weight_decay": spec.weight_decay}
    instances = Instances(domains, named if isinstance(named, Objective) else None, **objects)
    given = explicit
    if advised is not None:
        given = with_advice(advised, named if isinstance(named, str) else None, explicit)
    config, settings = _config(instances, str(data), named, tests, preset, frozen, given)
    if message := replaced_lr(config, given):
        warnings.warn(message, RunWarning, stacklevel=3)
    expected, together = None, list[Sequence[str]]()
    if advised is not None:
        together = [group for group in advised.left_out if len(group) > 1]
        settings |= {
            name: Setting(settings[name].value, "the advice")
            for name in given.keys() - explicit.keys()
        }
        expected = advised.expected
        if expected and (cause := departure(advised, config, explicit)):
            expected = None
            warnings.warn(
                "The accuracy that the advice expects is not stored with the model: it is of "
                f"{advised.method} on {advised.data}, and {cause}.",
                RunWarning,
                stacklevel=3,
            )
    return PreparedRun(config, settings, instances, expected, together)


def _check_parts(
    method: object, objects: Mapping[str, object], frozen: bool, options: Mapping[str, Any]
) -> None:
    """Raise unless objects have the right types, and no option belongs to one of them."""
    if not isinstance(method, str | Objective):
        raise TypeError(f"method must be a name or an Objective, got {method!r}.")
    model = objects.get("model")
    if not isinstance(model, nn.Module | None):
        raise TypeError(f"model must be a name or a torch.nn.Module, got {model!r}.")
    for name in objects.keys() - {"model"}:
        if not callable(objects[name]):
            raise TypeError(f"{name} must be a name or a function, got {objects[name]!r}.")
    hparams = [item.name for item in fields(method)] if isinstance(method, Objective) else []
    places = dict.fromkeys(hparams, "on the objective that is passed as method")
    if model is not None:
        places |= dict.fromkeys(
            ("dropout", "model_options"), "in the network that is passed as model"
        )
        if frozen:
            raise ValueError("frozen needs a backbone by name, such as lite0.")
    if "optim" in objects:
        places |= dict.fromkeys(("lr", "weight_decay"), "in the optimiser that is passed as optim")
    for name in options:
        if name in places:
            raise ValueError(f"Set {name} {places[name]}.")


def _config(
    instances: Instances,
    data: str,
    method: str | Objective,
    test_domains: tuple[str, ...],
    preset: str | None,
    frozen: bool,
    given: Mapping[str, Any],
) -> tuple[RunConfig, dict[str, Setting]]:
    """Configuration and settings of the run, with names and fingerprints of ``instances``."""
    if instances.data is not None:
        data = instance_name(instances.data)
    options: Any = {"preset": preset, "frozen": frozen, "single": True, "given": given}
    settings = resolve(method if isinstance(method, str) else type(method), data, **options)
    if isinstance(method, str):
        config = run_config(method, data, test_domains, **options)
    else:  # the fields of the run have the defaults of the method
        values = {name: settings[name].value for name in field_names()}
        config = replace(run_config("erm", data, test_domains, given=values), **values)
        hparams = {item.name: getattr(method, item.name) for item in fields(method)}
        settings |= {name: Setting(value, "given") for name, value in hparams.items()}
    if instances.data is not None:
        config = replace(config, test_domains=test_domains)  # not normalised, as names of files are
    for kind in KINDS:
        if (value := getattr(instances, kind)) is not None:
            config = with_fingerprint(kind, instance_name(value), fingerprint(value), config)
            if kind in settings:
                settings[kind] = Setting(getattr(config, kind), "given")
    return config, settings


def _check_test_domains(config: RunConfig) -> None:
    """Refuse an unknown test domain before any image is decoded."""
    with suppress(OSError):  # the record of a finished run can be shown without its data
        names = (
            None if is_instance(config.data) else known_domains(config.data, config.data_options)
        )
        for name in config.test_domains if names else ():
            check_option(f"domain of '{config.data}'", name, names or ())
