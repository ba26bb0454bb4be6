"""Save the model of a run to a folder."""

from __future__ import annotations

import json
import math
import platform
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from safetensors.torch import save as to_bytes
from torch import nn

from riskmatch.contract import Predictor, inner
from riskmatch.data import OnProgress
from riskmatch.data.domain import DomainSet
from riskmatch.data.table import TableDomains
from riskmatch.deployment.folder import (
    CARD,
    FIGURE,
    HELD_OUT,
    HELD_OUT_COLUMNS,
    WEIGHTS,
    Expected,
    another_model,
    check_writable,
    write_folder,
)
from riskmatch.deployment.inputs import BATCH, preprocessing_of
from riskmatch.deployment.left_out import half
from riskmatch.engine.assemble import domains_of, is_frozen, model_options, split_all, task_of
from riskmatch.engine.data_identity import check_unchanged, identity_of, identity_of_files
from riskmatch.engine.evaluate import restore_of, score_samples
from riskmatch.engine.instances import is_instance
from riskmatch.engine.load import Run, load_run, on_features
from riskmatch.engine.loop import AFTER_WARMUP
from riskmatch.models import Backbone
from riskmatch.models.embedding import embed
from riskmatch.report.figures.canvas import render
from riskmatch.report.figures.risks import TEST, density_plot
from riskmatch.report.tables import Column, Table
from riskmatch.report.titles import data_title
from riskmatch.runs.config import WINDOW_AVERAGES, RunConfig, acts_from, title
from riskmatch.runs.findings import RunWarning
from riskmatch.runs.lines import DataIdentity
from riskmatch.runs.predictions import Predictions
from riskmatch.runs.records import RunRecord
from riskmatch.selection import best_step
from riskmatch.trust import remember

MAX_HELD_OUT = 2000
"""Most held-out samples of a domain in a model folder."""
_BUILD = ("pretrained", "weights", "frozen", "views")
"""Options of a backbone that matter before training alone."""


def save_model(
    run: Run | Path | str,
    path: Path | str,
    *,
    after_warmup: bool = False,
    expected: Expected | None = None,
    licence: str | None = None,
    overwrite: bool = False,
    trust: bool = False,
    data_dir: Path | None = None,
    device: torch.device | str = "cpu",
    on_progress: OnProgress | None = None,
) -> Path:
    """Write the model of a finished run to a folder; see :mod:`riskmatch.deployment.folder`.

    The network is that of the step which selection by ``train-val`` chooses. A step at which the
    method does not act yet is warned about: the network is that of the warm-up.

    Where the folder holds the same model (run, data, step and weights), only files that changed are
    written. Files of your own stay, an edited card too.

    Args:
        run: the run, or its folder.
        path: the folder, which appears whole or not at all.
        after_warmup: choose among the steps at which the method acts.
        expected: what to expect on a new domain.
        licence: licence of the model, such as ``"MIT"``.
        overwrite: replace another model at ``path``. Its card is copied if it was edited, and its
            exported ``model.onnx`` and ``model.pt2`` are removed.
        trust: import parts of the user's own that the folder of a run names, which runs their code.
        data_dir: folder that is searched first for files of the data set.
        device: device of a frozen backbone.
        on_progress: called while data are read.

    Raises:
        ValueError: the run is not finished, its method never acts where ``after_warmup``, or
            another model or something else is at ``path``.
        DataChangedError: the data have changed since the run was trained.

    Example:
        >>> import tempfile, riskmatch
        >>> options = {"out": tempfile.mkdtemp(), "steps": 4, "data_options": {"samples": 50}}
        >>> run = riskmatch.train("colored-digits", "erm", **options)  # on all domains
        >>> folder = save_model(run, run.folder / "model")
        >>> sorted(path.name for path in folder.iterdir())
        ['README.md', 'held_out.safetensors', 'model.json', 'risks.png', 'weights.safetensors']
    """
    path = Path(path)
    if not isinstance(run, Run):
        run = load_run(run, trust=trust)
    check_writable(path, {"run": {"id": run.config.id}}, overwrite)
    run.admit(run.config.model, run.config.data, run.config.task, *run.config.metric_names)
    if run.record.status != "done":
        raise ValueError(f"The run in {run.folder} is not finished. Train it to its end first.")
    config = run.config
    step, rule = _chosen_step(run, after_warmup)
    network = run.model(step=step)
    domains = domains_of(config, data_dir, device, on_progress, run.instances, embedded=False)
    check_unchanged(run.record, identity_of(domains), run.folder)
    preprocessing = preprocessing_of(domains)
    held_out = _held_out(run, network, domains, device, on_progress)
    training = [domain.name for domain in domains.without(config.test_domains)]
    values = {
        "network": _network_values(config, network, domains),
        "preprocessing": preprocessing.to_json(),
        "table": _table_columns(run),
        "task": run.record.task.to_json(),
        "labels": domains.labels,
        "classes": list(domains.label_names),
        "domains": {
            domain.name: {
                "samples": len(domain),
                "held_out": len(held_out[domain.name].risk),
                "trained_on": domain.name in training,
            }
            for domain in domains.domains
        },
        "expected": None if expected is None else expected.to_json(),
        "licence": licence,
        "run": {
            "id": config.id,
            "config": config.to_json(),
            "method": config.about.to_json(),
            "step": step,
            "step_chosen_by": rule,
            "members": dict(run.members),
            "data": identity_of(domains).to_json(),
        },
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("riskmatch", "torch", "numpy", "safetensors")},
        },
    }
    tensors = {
        f"{number}/{column}": torch.from_numpy(half(getattr(scores, column)))
        for number, scores in enumerate(held_out.values())
        for column in HELD_OUT_COLUMNS
    }
    weights = {  # tensors may share no memory
        name: value.cpu().clone(memory_format=torch.contiguous_format)
        for name, value in network.state_dict().items()
    }
    files = {
        WEIGHTS: to_bytes(weights),
        HELD_OUT: to_bytes(tensors),
        FIGURE: _risk_figure(held_out, training, config.risk),
        CARD: _card(values, run.record, held_out).encode(),
    }
    sentences = write_folder(path, values, files, overwrite)
    judged = run.record.task.name, *run.record.task.metrics
    remember(path, [config.model, config.data, config.method, *judged])
    for sentence in sentences:
        warnings.warn(sentence, RunWarning, stacklevel=2)
    return path


def check_destination(
    path: Path, config: RunConfig, overwrite: bool = False, data_dir: Path | None = None
) -> None:
    """Check before a run is trained that its model may be written to ``path``.

    Data that are not loaded are compared by the names of their files, tables by their content.

    Raises:
        ModelError: there is another model, or something else, at ``path``.
    """
    before = check_writable(path, {"run": {"id": config.id}}, overwrite)
    if before is None or overwrite:
        return
    current, changes = identity_of_files(config, data_dir), ""
    with suppress(ValueError):  # a damaged model.json
        stored = msgspec.convert(before["run"].get("data"), DataIdentity)
        changes = stored.changes(current) if current else ""
    if changes:
        raise another_model(path, f"the same run on other data: {changes}")


def _chosen_step(run: Run, after_warmup: bool) -> tuple[int, str]:
    """The step to ship, and the rule that chose it."""
    start, last = acts_from(run.config), run.record.evaluations[-1].step
    best = best_step(run.record, after_warmup)
    step = last if best is None else best
    acts = start is not None and (start == 0 or step > start)
    if after_warmup and not acts:
        raise ValueError(
            f"The method {run.config.method} never acts in {run.folder}: train more steps than its "
            "warm-up, or leave out after_warmup."
        )
    if not acts:
        when = "never acts" if start is None else f"acts from step {start}"
        warnings.warn(
            f"The model is that of step {step}, and {run.config.method} {when}: the network is "
            "that of the warm-up. For a later step: --after-warmup (after_warmup=True).",
            RunWarning,
            stacklevel=3,
        )
    return step, "last" if best is None else AFTER_WARMUP if after_warmup else "train-val"


def _table_columns(run: Run) -> dict[str, str] | None:
    """Columns of label, domain and group of a table, and of label and group of images."""
    table, options = run.instances.data, run.config.data_options
    if isinstance(table, TableDomains):
        options = {"label": table.label, "domain": table.domain, "group": table.group}
    named = {name: options[name] for name in ("label", "domain", "group") if options.get(name)}
    return {k: v if isinstance(v, str) else ",".join(v) for k, v in named.items()} or None


def _held_out(
    run: Run,
    network: nn.Module,
    domains: DomainSet,
    device: torch.device | str,
    on_progress: OnProgress | None,
) -> dict[str, Predictions]:
    """Scores of the validation split of every domain, evenly thinned."""
    if is_frozen(run.config):
        whole = inner(network)
        assert isinstance(whole, Backbone)
        domains = embed(domains, whole.trunk, device=device, on_progress=on_progress)
        whole.cpu()
        network = on_features(network)
    _, task = task_of(run.config, domains, run.instances)
    scored = {}
    # Of test domains too the part of groups that are not trained on, not of those that are.
    for name, splits in split_all(domains, replace(run.config, test_domains=())).items():
        total = len(splits["val"])
        kept = min(total, MAX_HELD_OUT)
        some = splits["val"].take(torch.arange(kept) * total // kept)
        scored[name] = score_samples(
            network, some, task, features=True, chunk=BATCH, restore=restore_of(domains)
        )
    return scored


def _network_values(config: RunConfig, network: nn.Module, domains: DomainSet) -> dict[str, Any]:
    """What :func:`riskmatch.load_model` needs to build the network."""
    whole = inner(network)
    body = whole.trunk.preprocess if isinstance(whole, Backbone) else None
    # Of a method that predicts otherwise, what its networks were built for.
    method = {"method": list(network.shape or ())} if isinstance(network, Predictor) else {}
    options = model_options(config, domains.preprocessing)
    return {
        "name": config.model,
        "input_shape": list(domains.input_shape),
        "outputs": domains.outputs,
        "dropout": config.dropout,
        "options": {k: v for k, v in options.items() if k not in _BUILD},
        "preprocess": None if body is None else repr(body),
        **method,
    }


def _risk_figure(held_out: Mapping[str, Predictions], training: Sequence[str], risk: str) -> bytes:
    """PNG of the densities of held-out risks by domain; test domains are marked."""
    labelled = {
        name + TEST * (name not in training): scores.risk.astype(np.float64)
        for name, scores in held_out.items()
    }
    title = "Held-out risks by domain; ticks mark the means"
    plot = density_plot({"held-out samples": labelled}, title, "", list(held_out))
    name = "your own" if is_instance(risk) else risk
    return render(replace(plot, xlabel=f"risk of a sample ({name})").draw(), "png")


def _card(values: Mapping[str, Any], record: RunRecord, held_out: Mapping[str, Predictions]) -> str:
    """The card in Markdown, with the metadata that model hubs read at its top.

    Args:
        values: contents of ``model.json``.
        record: record of the run.
        held_out: scores of the held-out samples by domain.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("riskmatch.deployment", ""),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"json": json.dumps, "plain": _plain}
    config, task = record.config, record.task
    domains, start, run = values["domains"], acts_from(config), values["run"]
    evaluation = next(e for e in record.evaluations if e.step == run["step"])
    mark = {True: "", False: " (not trained on)"}

    def metric(name: str, row: tuple[str, Predictions]) -> str | None:
        value = evaluation.scores[row[0]]["val"].metrics.get(name, math.nan)
        return None if math.isnan(value) else task.metrics[name].shown(value)

    columns = [
        Column("domain", lambda row: _plain(row[0]) + mark[domains[row[0]]["trained_on"]]),
        Column("samples", lambda row: domains[row[0]]["samples"]),
        Column("held out", lambda row: len(row[1].risk)),
        *(
            Column(facts.title + ", %" * facts.percent, partial(metric, name), optional=True)
            for name, facts in task.metrics.items()
        ),
        Column("mean risk", lambda row: f"{np.mean(row[1].risk):.4f}"),
    ]
    return environment.get_template("card.md").render(
        {**values, "expected": Expected.from_json(values["expected"])},
        config=config,
        metric=task.metrics[task.primary],
        data=data_title(config.data),
        method=title(config),
        trained=sum(entry["trained_on"] for entry in domains.values()),
        table=Table.of("", columns, held_out.items()).markdown().strip(),
        figure=FIGURE,
        acts_from=start,
        early=start is None or 0 < start >= run["step"],
        by_score=run["step_chosen_by"] != "last" and config.average not in WINDOW_AVERAGES,
    )


def _plain(text: str) -> str:
    """Text without characters that Markdown or HTML would interpret."""
    return re.sub(r"[\\`*_\[\]<>|#]", r"\\\g<0>", text)
