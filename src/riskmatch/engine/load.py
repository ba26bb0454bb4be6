"""Load a run: configuration, evaluations, predictions and the trained network."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from riskmatch import models
from riskmatch.contract import Objective, Predictor, around, build_modules, inner
from riskmatch.data import OnProgress, no_progress
from riskmatch.data.domain import DomainSet
from riskmatch.data.preprocessing import TablePreprocessing
from riskmatch.defaults import Setting
from riskmatch.device import keep_freed_memory
from riskmatch.engine import checkpoint
from riskmatch.engine.assemble import (
    domains_of,
    is_frozen,
    model_options,
    network,
    objective,
    split_all,
    task_of,
)
from riskmatch.engine.checkpoint import NoCheckpointError, Snapshot
from riskmatch.engine.data_identity import check_unchanged, identity_of
from riskmatch.engine.evaluate import parts_of, predict, restore_of, validation_views
from riskmatch.engine.instances import NO_INSTANCES, InstanceError, Instances, is_instance
from riskmatch.engine.loop import AFTER_WARMUP
from riskmatch.files import read_file
from riskmatch.models import Backbone, Head
from riskmatch.runs import predictions, records
from riskmatch.runs.config import RunConfig
from riskmatch.runs.findings import findings
from riskmatch.runs.lines import LEVELS, Split
from riskmatch.runs.predictions import Predictions
from riskmatch.runs.records import StoredRun
from riskmatch.selection import best_step
from riskmatch.trust import admit
from riskmatch.validation import check_option

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Run(StoredRun):
    """A run on disk, with its evaluations, predictions and network."""

    instances: Instances = field(default_factory=Instances, repr=False)
    """Objects that the run was trained with, where it was trained in this process."""
    trust: bool = field(default=False, repr=False)
    """Whether parts of the user's own that the record names may be imported."""
    members: Mapping[str, int] = field(default_factory=dict)
    """Of a soup, see :func:`riskmatch.soup`: the steps of the runs whose weights it averages."""
    settings: Mapping[str, Setting] = field(default_factory=dict, repr=False)
    """Value and source of every field, as in ``lr 0.001: frozen features, 20 × rdm's 5e-5``, where
    the run was trained in this process; :func:`riskmatch.defaults.setting_lines` prints them."""

    def admit(self, *names: str) -> None:
        """Allow parts that the record names to be imported.

        Raises:
            UntrustedError: one is not trusted, see :mod:`riskmatch.trust`.
        """
        admit(names, self.folder / records.FILE, self.trust)

    @property
    def findings(self) -> list[str]:
        """What is wrong with the run, one sentence each."""
        return findings(self.record)

    def chosen_step(self, after_warmup: bool = False) -> int | None:
        """The step that ``train-val`` chooses, or does of those at which the method acts."""
        return best_step(self.record, after_warmup)

    @property
    def files(self) -> list[tuple[str, Path, str]]:
        """Record and checkpoints: what each is, its path, and the names of the step."""
        names: dict[int, list[str]] = {}
        last = {"last": self.record.evaluations[-1].step}
        for name, step in (self.record.checkpoints or last).items():
            names.setdefault(step, []).append(name)
        stored = records.checkpoints(self.folder)
        kept = [("checkpoint", stored[s], ", ".join(n)) for s, n in names.items() if s in stored]
        return [("records", self.folder / records.FILE, ""), *kept]

    @cached_property
    def evaluations(self) -> pd.DataFrame:
        """Evaluations, one row per step, domain and split.

        Columns: ``step``, ``domain``, ``split`` (``train`` or ``val``), ``test`` (whether it is a
        test domain), the metrics by name, such as ``accuracy``, ``risk`` (mean), ``risk_q0`` …
        ``risk_q1`` (quantiles of the risks), ``loss`` (of the last step), ``seconds``.
        """
        import pandas as pd

        names = [f"risk_q{level:g}" for level in LEVELS]
        metrics = self.record.task.metrics
        columns = ["step", "domain", "split", "test", *metrics, "risk", *names, "loss", "seconds"]
        rows = [
            {
                "step": evaluation.step,
                "domain": domain,
                "split": split,
                "test": domain in self.config.test_domains,
                **score.metrics,
                "risk": score.risk,
                **dict(zip(names, score.quantiles, strict=True)),
                "loss": evaluation.loss,
                "seconds": evaluation.seconds,
            }
            for evaluation in self.record.evaluations
            for domain, splits in evaluation.scores.items()
            for split, score in splits.items()
        ]
        return pd.DataFrame(rows, columns=columns)

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """Predictions on disk, one row per step and sample; see :mod:`riskmatch.runs.predictions`.

        Columns: ``step``, ``domain``, ``split``, ``index`` (position of the sample in its split),
        ``label``, ``predicted``, ``confidence`` (probability of the predicted class), ``risk``.
        """
        import pandas as pd

        columns = ["step", "domain", "split", *predictions.COLUMNS]
        frames = [
            pd.DataFrame({"step": step, "domain": domain, "split": split, **_columns(values)})
            for step in predictions.steps(self.folder)
            for domain, splits in predictions.read(self.folder, step).items()
            for split, values in splits.items()
        ]
        empty = pd.DataFrame(columns=columns)
        return pd.concat(frames, ignore_index=True)[columns] if frames else empty

    @cached_property
    def preprocessing(self) -> TablePreprocessing | None:
        """Preprocessing of the table that the run was trained on; None for other data.

        Raises:
            ValueError: its file is damaged.
        """
        path = self.folder / records.PREPROCESSING
        if not path.exists():
            return None
        try:
            return TablePreprocessing.from_json(json.loads(read_file(path)))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def model(
        self, network: nn.Module | None = None, *, step: int | str | None = None
    ) -> nn.Module:
        """Return the trained network of a step, on the CPU and in evaluation mode.

        It maps inputs to ``(features, logits)``, of a method with a prediction of its own together
        with the networks of the method; inputs of a table are what
        :attr:`preprocessing` makes of its rows. The network of a run with a frozen backbone takes
        images: backbone and head are returned as one network.

        Args:
            network: the network that was passed to :func:`riskmatch.train`, in its state before
                training, if the run was trained with one of the user's own objects.
            step: a step of which there is a checkpoint; ``"train-val"``, the one that selection
                chooses; ``"train-val-after-warmup"``, the one that it chooses among those at which
                the method acts; ``"last"`` or None, the last.

        Raises:
            ValueError: ``step`` has another name, or the method never acts.
            FileNotFoundError: there is no checkpoint of that step; the error lists those there are.
            UntrustedError: the record names a part that is not trusted.
            InstanceError: ``network`` is missing, or is not the one of the run, which has none of
                the user's own.
        """
        if network is not None and not is_instance(self.config.model):
            raise InstanceError(
                f"The network of the run, {self.config.model}, has a name: leave out network."
            )
        self.admit(self.config.model)
        last = _load_step(self, step)
        instances = self.instances if network is None else replace(self.instances, model=network)
        if is_instance(self.config.model):
            model: nn.Module = copy.deepcopy(instances.get("model", self.config)).cpu()
        else:
            model = self._build(last)
        if last.values.notes.predicts:
            self.admit(self.config.method)
        trained = _trained(model, last, self.config, self.instances)
        if is_frozen(self.config):
            assert isinstance(model, Head)
            trunk = models.seeded_trunk(self.config.model, self.config.model_options)
            trained = around(trained, Backbone(trunk, model, freeze_bn=True))
        return trained.eval()

    def _build(self, last: Snapshot) -> nn.Module:
        """Build the network of the run with any weights."""
        assert self.record.data is not None  # a run with checkpoints states its data
        notes = last.values.notes
        shape, classes = notes.input_shape, notes.outputs or len(self.record.data.classes) or 1
        options: dict[str, Any] = dict(model_options(self.config, self.preprocessing))
        if models.is_backbone(self.config.model) and not is_frozen(self.config):
            # All weights come from the checkpoint: published ones need not be loaded.
            pretrained = options.get("pretrained", True) or options.get("weights") is not None
            options = {"freeze_bn": pretrained, **options, "pretrained": False, "weights": None}
        return models.build(self.config.model, shape, classes, self.config.dropout, options)


def load_run(
    path: Path | str,
    *,
    model: nn.Module | None = None,
    method: Objective | None = None,
    trust: bool = False,
) -> Run:
    """Load a run from its folder, or from its file of records.

    Args:
        path: folder of the run, or its ``records.jsonl``.
        model: the network that was passed to :func:`riskmatch.train`, if it was one of the user's
            own objects; :meth:`Run.model` needs it.
        method: the objective that was passed, which :meth:`Run.model` needs if it has a prediction
            of its own.
        trust: allow :meth:`Run.model` to import parts ``package.module:Name`` that the record
            names, which runs their code; those that were named when the run was trained on this
            machine are imported anyway.

    Raises:
        FileNotFoundError: ``path`` does not hold a run.
        RecordError: the record is damaged.

    Example:
        >>> import tempfile, riskmatch
        >>> options = {"out": tempfile.mkdtemp(), "steps": 4, "data_options": {"samples": 50}}
        >>> trained = riskmatch.train("colored-digits", "erm", "0.1", **options)
        >>> run = load_run(trained.folder)
        >>> run.config.method, sorted(run.evaluations["split"].unique())
        ('erm', ['train', 'val'])
    """
    folder = Path(path).parent if Path(path).name == records.FILE else Path(path)
    return Run(folder, records.read(folder), Instances(model=model, method=method), trust)


def final_network(run: StoredRun, domains: DomainSet, step: int | None = None) -> nn.Module:
    """The trained network of a step, by default the last, for the inputs that it was trained on.

    With a frozen backbone these are features, see :func:`~riskmatch.engine.assemble.domains_of`;
    :meth:`Run.model` returns a network for images.

    Raises:
        FileNotFoundError: there is no checkpoint of that step.
        DataChangedError: the run was trained on other data.
    """
    last = _load_step(run, step)
    check_unchanged(run.record, identity_of(domains), run.folder)
    instances = run.instances if isinstance(run, Run) else NO_INSTANCES
    model = network(run.config, domains, instances=instances)
    return _trained(model, last, run.config, instances).eval()


def on_features(network: nn.Module) -> nn.Module:
    """The part of a network with a frozen backbone that takes features."""
    whole = inner(network)
    assert isinstance(whole, Backbone)
    return around(network, whole.head)


def final_predictions(
    run: StoredRun, data_dir: Path | None = None, on_progress: OnProgress | None = None
) -> Mapping[str, Mapping[Split, Predictions]]:
    """Predictions of the trained network of the last step on every sample.

    Raises:
        NoCheckpointError: there is no checkpoint of the last step.
        DataChangedError: the run was trained on other data.
    """
    _checkpoint(run)  # before the data are loaded
    keep_freed_memory()
    config = run.config
    domains = domains_of(config, data_dir, on_progress=on_progress)
    return predict(
        final_network(run, domains),
        parts_of(split_all(domains, config)),
        task_of(config, domains)[1],
        validation_views(config, domains, config.steps),
        partial(on_progress or no_progress, f"predicting with {run.folder.name}"),
        restore_of(domains),
        amp=config.amp,
    )


def _columns(values: Predictions) -> dict[str, Any]:
    """The columns of predictions; labels of several numbers are arrays."""
    columns = {name: getattr(values, name) for name in predictions.COLUMNS}
    return {k: v if v.ndim == 1 else list(v) for k, v in columns.items()}


def _trained(
    model: nn.Module, last: Snapshot, config: RunConfig, instances: Instances
) -> nn.Module:
    """The network, or with its modules a method that predicts otherwise, with trained weights."""
    notes = last.values.notes
    if notes.predicts:
        method = instances.get("method", config) or objective(config.method, config.hparams)
        shape = notes.modules
        modules = nn.ModuleDict() if shape is None else build_modules(method, shape, model)
        model = Predictor(model, method, modules, shape)
    last.load(model)
    return model


def _load_step(run: StoredRun, step: int | str | None) -> Snapshot:
    return checkpoint.load(_checkpoint(run, step), run.config.id, run.config.steps)


def _checkpoint(run: StoredRun, step: int | str | None = None) -> Path:
    """Path of the checkpoint of a step, as :meth:`Run.model` names it."""
    folder, record, number = run.folder, run.record, step
    done = record.status == "done" and record.evaluations
    if step in (None, "last"):
        number = record.evaluations[-1].step if done else record.config.steps
    elif isinstance(step, str):
        check_option("step", step, ("last", "train-val", AFTER_WARMUP))
        number = best_step(record, after_warmup=step == AFTER_WARMUP)
        if number is None:
            raise ValueError(f"{folder} has no evaluation that step='{step}' could choose.")
    paths = records.checkpoints(folder)
    if number not in paths:
        listed = f"steps {', '.join(map(str, paths))}" if paths else "no step"
        cure = "train the run again with keep='all'" if done else "train the run to its end"
        raise NoCheckpointError(
            f"{folder} has no checkpoint of step {number} (it has checkpoints of {listed}): {cure}."
        )
    return paths[int(number)]
