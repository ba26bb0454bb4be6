"""Trained models: loaded from their folder and applied to new inputs."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load as from_bytes
from torch import Tensor, nn

from riskmatch import models
from riskmatch.contract import (
    Objective,
    Predictor,
    RiskFunction,
    Shape,
    build_modules,
    outputs,
    risk_function,
    whole_blocks,
)
from riskmatch.contract.task import Task, find_task
from riskmatch.data import OnProgress, no_progress
from riskmatch.data.domain import Labels
from riskmatch.data.preprocessing import TablePreprocessing
from riskmatch.deployment.folder import (
    HELD_OUT,
    HELD_OUT_COLUMNS,
    MODEL,
    WEIGHTS,
    Expected,
    ModelError,
    damaged,
    read_folder,
)
from riskmatch.deployment.inputs import (
    BATCH,
    ImagePreprocessing,
    InputSamples,
    OnSkip,
    Preprocessing,
    preprocessing_from_json,
    samples,
)
from riskmatch.deployment.left_out import LeftOutSite, parse_left_out
from riskmatch.engine.assemble import objective
from riskmatch.engine.instances import is_instance
from riskmatch.limits import ENTRIES, EXPANSION, MEMORY, check_limit
from riskmatch.models import Backbone
from riskmatch.models.weights import bounded_build, check_finite
from riskmatch.runs.config import RunConfig
from riskmatch.runs.method import MethodFacts
from riskmatch.runs.predictions import Predictions
from riskmatch.runs.task import TaskFacts
from riskmatch.trust import admit
from riskmatch.validation import check_json

if TYPE_CHECKING:
    from riskmatch.deployment.inputs import Inputs

_MISFITS = (AttributeError, LookupError, MemoryError, OverflowError, RuntimeError, TypeError)
"""Errors of a network that cannot be built from its options, or has other weights."""


@dataclass(frozen=True, eq=False)
class Outputs:
    """Outputs of a model on the inputs that could be read."""

    samples: InputSamples
    rows: tuple[int, ...]
    """(n,) positions in ``samples``."""
    logits: Tensor
    """(n, c) outputs of the network, one of each class or tag; (n, 1) for a regression."""
    features: Tensor | None = None
    """(n, d) features, where they were asked for and the network returns them."""


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A network with its preprocessing and classes; :func:`load_model` loads one.

    Inputs are what the model was trained on: paths of images (a folder, a manifest, a list), a
    table, or tensors and arrays (n, …).
    """

    network: nn.Module = field(repr=False)
    """Maps inputs to ``(features, logits)``; on the CPU and in evaluation mode."""
    preprocessing: Preprocessing
    """How inputs are made from files."""
    task: Task
    """What is predicted, and how it is judged."""
    facts: TaskFacts
    """Name of the task, and what is known about its metrics."""
    labels: Labels
    """What the labels of training are."""
    classes: tuple[str, ...]
    """Names of the classes by label, or of the tags; empty for other labels."""
    domains: tuple[str, ...]
    """Names of the domains that the model was trained on."""
    held_out: Mapping[str, Predictions] = field(repr=False)
    """Predictions on up to 2,000 validation samples of every domain, test domains included."""
    expected: Expected | None
    """Accuracy to expect on a new domain, as ``riskmatch advise`` estimated it."""
    config: RunConfig = field(repr=False)
    """Configuration of the run."""
    values: Mapping[str, Any] = field(repr=False)
    """All of ``model.json``."""
    risk: RiskFunction | None = field(default=None, repr=False)
    """The per-sample loss; None where it is one of the user's own that was not passed."""
    left_out: Mapping[str, LeftOutSite] = field(default_factory=dict, repr=False)
    """By name the domains of training, and what models trained without them say on them; empty
    unless the folder holds them."""

    @property
    def table(self) -> Mapping[str, str]:
        """Columns ``label`` (several with commas), ``domain`` and ``group`` of training, if any."""
        return self.values.get("table") or {}

    def predict(self, inputs: Inputs, *, batch_size: int = BATCH) -> NDArray[Any]:
        """(n,) names of the predicted classes, or the predictions of a regression, in its unit.

        Of tags (n, k), 0 or 1; of a task of your own what it predicts.
        """
        predicted, _ = self.predictions(self.outputs(inputs, batch_size=batch_size).logits)
        has_classes = self.labels == "classes" and self.classes
        return np.array(self.classes)[predicted.numpy()] if has_classes else predicted.numpy()

    def predict_proba(self, inputs: Inputs, *, batch_size: int = BATCH) -> NDArray[Any]:
        """(n, c) probabilities of the classes, or (n, k) of the tags.

        Raises:
            ValueError: the task has no probabilities, or an input cannot be read.
        """
        _, scores = self.predictions(self.outputs(inputs, batch_size=batch_size).logits)
        if scores is None:
            raise ValueError(
                f"This model is of the task {self.facts.name}, which has no probabilities: use "
                "predict."
            )
        return np.asarray(scores.numpy())

    def predictions(self, logits: Tensor) -> tuple[Tensor, Tensor | None]:
        """Predicted labels, in the unit of the label, and scores where the task has them."""
        predicted, scores = self.task.predict(logits)
        return self.restored(predicted), scores

    def restored(self, y: Tensor) -> Tensor:
        """Labels or predictions in the unit of the label, which training standardises."""
        made = self.preprocessing
        return made.restore_target(y) if isinstance(made, TablePreprocessing) else y

    @torch.no_grad()
    def outputs(
        self,
        inputs: Inputs | InputSamples,
        *,
        batch_size: int = BATCH,
        features: bool = False,
        on_skip: OnSkip | None = None,
        on_progress: OnProgress | None = None,
    ) -> Outputs:
        """Outputs of the network.

        Args:
            inputs: see :class:`TrainedModel`.
            batch_size: inputs per forward pass.
            features: whether to return the features, too.
            on_skip: called with each input that cannot be read, which is left out; by default
                such an input is an error.
            on_progress: called with the number of inputs that are done.

        Raises:
            ValueError: the inputs are not those of the model, or none can be read.
        """
        source = inputs if isinstance(inputs, InputSamples) else samples(inputs, self.preprocessing)
        if not len(source):
            raise ValueError("There are no inputs to predict.")
        report, causes = on_progress or no_progress, list[str]()

        def skip(name: str, cause: str) -> None:
            causes.append(cause)
            if on_skip is None:
                raise ValueError(cause)
            on_skip(name, cause)

        rows, logits, wide = list[int](), list[Tensor](), list[Tensor]()
        for positions, x in source.batches(whole_blocks(self.network, batch_size), skip):
            part, values = outputs(self.network, x)
            finite = values.flatten(1).amax(1).isfinite()  # a class may have the logit −∞
            if not finite.all():
                name = source.names[positions[int(finite.int().argmin())]]
                raise ValueError(
                    f"The outputs of the network for {source.column} {name} are infinite or NaN: "
                    "its weights are too large. Train the model again, with a lower learning rate."
                )
            rows += positions
            logits.append(values.float())
            if features and part is not None:
                wide.append(part.flatten(1).float())
            report("predicting", positions[-1] + 1, len(source))
        if not rows:
            raise ValueError(f"No input of {len(source):,} can be read: {causes[0]}")
        return Outputs(source, tuple(rows), torch.cat(logits), torch.cat(wide) if wide else None)


def load_model(
    path: Path | str,
    *,
    network: nn.Module | None = None,
    risk: RiskFunction | None = None,
    method: Objective | None = None,
    trust: bool = False,
) -> TrainedModel:
    """Load a model from its folder, after verifying the checksums.

    Args:
        path: the folder that ``riskmatch train --all-domains`` or
            :func:`riskmatch.save_model` wrote.
        network: a network of the model's class, if it was trained with one of the user's own
            objects.
        risk: the risk, if it was one of the user's own functions.
        method: the objective, if it was one of the user's own objects with a prediction of its own.
        trust: import a network ``package.module:Name`` that the folder names, which runs its code;
            one that was named when the folder was made on this machine is imported anyway.

    Raises:
        UntrustedError: the folder names a network that is not trusted.
        ModelError: it is no model folder, one of another version, damaged or beyond the limits, or
            a weight is infinite or NaN.

    Example:
        >>> import tempfile, riskmatch
        >>> options = {"out": tempfile.mkdtemp(), "steps": 4, "data_options": {"samples": 50}}
        >>> run = riskmatch.train("colored-digits", "erm", **options)
        >>> model = load_model(riskmatch.save_model(run, run.folder / "model"))
        >>> model.classes, model.domains, model.preprocessing.shape
        (('0', '1'), ('0.9', '0.8', '0.1'), (2, 8, 8))
        >>> model.predict_proba(torch.zeros(3, 2, 8, 8)).shape
        (3, 2)
    """
    path = Path(path)
    values, files = read_folder(path)
    if network is None:
        admit([values["network"]["name"]], path / MODEL, trust)
    admit(_parts(values), path / MODEL, trust)
    try:
        facts = msgspec.convert(values["task"], TaskFacts)
        task = find_task(facts.name).judged_by(tuple(facts.metrics), facts.primary)
        about = msgspec.convert(values["run"]["method"], MethodFacts)
        config = RunConfig.from_json(values["run"]["config"], about)
        preprocessing = preprocessing_from_json(values)
        expected = Expected.from_json(values["expected"])
    except ValueError as error:
        raise damaged(path / MODEL, str(error).rstrip(".")) from error
    try:
        if isinstance(preprocessing, ImagePreprocessing):
            preprocessing.check_memory()
        admit([config.method] if "method" in values["network"] else [], path / MODEL, trust)
        built = _build(values["network"], network, method, config, len(files[WEIGHTS]))
        weights = from_bytes(files[WEIGHTS])
        built.load_state_dict(weights)
        check_finite(weights, built)
        model = TrainedModel(
            network=built.eval(),
            preprocessing=preprocessing,
            task=task,
            facts=facts,
            labels=values["labels"],
            classes=tuple(values["classes"]),
            domains=tuple(n for n, entry in values["domains"].items() if entry["trained_on"]),
            held_out=_read_held_out(list(values["domains"]), from_bytes(files[HELD_OUT])),
            expected=expected,
            config=config,
            values=values,
            risk=risk or _risk_of(config, task),
            left_out=parse_left_out(path, values, files),
        )
    except ValueError as error:
        raise ModelError(f"{path} cannot be loaded: {error}") from error
    except (SafetensorError, *_MISFITS) as error:
        cause = shorten(f"{type(error).__name__}: {error}", 300, placeholder=" …")
        versions = ", ".join(f"{name} {number}" for name, number in values["versions"].items())
        raise ModelError(
            f"{path} does not fit this version of riskmatch or of the network's package "
            f"({cause}). Use the versions it was written with, {versions}, or train it again."
        ) from error
    return model


def _risk_of(config: RunConfig, task: Task) -> RiskFunction | None:
    if is_instance(config.risk):
        return None
    return task.risk if config.risk == "auto" else risk_function(config.risk)


def _parts(values: Mapping[str, Any]) -> list[str]:
    """Names of the task and its metrics."""
    check_json(values["task"], {"name": str, "metrics": {str: Mapping[str, Any]}}, "task")
    return [values["task"]["name"], *values["task"]["metrics"]]


def _read_held_out(names: list[str], tensors: Mapping[str, Tensor]) -> dict[str, Predictions]:
    scores = {}
    for number, name in enumerate(names):
        *columns, features = (tensors[f"{number}/{column}"] for column in HELD_OUT_COLUMNS)
        if {part.shape[:1] for part in columns} != {features.shape[:1]} or features.ndim != 2:
            shapes = f"the scores of '{name}' in {HELD_OUT} have different shapes"
            raise ValueError(f"{shapes}. Copy the folder again, or train the model again.")
        arrays = [part.numpy() for part in (*columns, features)]
        scores[name] = Predictions(np.arange(len(features)), *arrays)
    return scores


def _build(
    values: Mapping[str, Any],
    given: nn.Module | None,
    method: Objective | None,
    config: RunConfig,
    stored: int,
) -> nn.Module:
    """Build the network, and the modules of a method that predicts otherwise."""
    network = _build_network(values, given, stored)
    if "method" not in values:
        return network
    if method is None and is_instance(config.method):
        raise ModelError(
            f"The method of this model is an object of the class {config.method.partition(':')[2]},"
            " which its folder does not hold: pass one as load_model(path, method=…)."
        )
    method = method or objective(config.method, config.hparams)
    with bounded_build("the networks of its method take", max(MEMORY, EXPANSION * stored)):
        shape, modules = values["method"], nn.ModuleDict()
        if shape:
            modules = build_modules(method, Shape(*map(int, shape)), network)
    return Predictor(network, method, modules)


def _build_network(values: Mapping[str, Any], given: nn.Module | None, stored: int) -> nn.Module:
    """Build the network; ``stored`` is the number of bytes of its weights."""
    name, options = values["name"], dict(values["options"])
    if given is not None:
        return copy.deepcopy(given).cpu()
    if is_instance(name):
        raise ModelError(
            f"The network of this model is an object of the class {name.partition(':')[2]}, "
            "which its folder does not hold: pass one as load_model(path, network=…)."
        )
    if models.is_backbone(name):  # all weights come from the folder
        options |= {"pretrained": False, "weights": None}
    for option, value in options.items():
        if isinstance(value, list):
            check_limit(f"{option} of its network has", len(value), ENTRIES, "entries")
    shape = tuple(values["input_shape"])
    with bounded_build("its network takes", max(MEMORY, EXPANSION * stored)):
        network = models.build(name, shape, values["outputs"], values["dropout"], options)
    if isinstance(network, Backbone):
        installed = network.trunk.preprocess
        ImagePreprocessing(installed.size).check_memory()
        if repr(installed) != values["preprocess"]:
            raise ModelError(
                f"The installed package of {name} prepares images as {installed!r}, the model was "
                f"trained with {values['preprocess']}. Install the version it was trained with."
            )
    return network
