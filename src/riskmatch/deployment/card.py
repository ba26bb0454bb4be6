"""The model card: what a model is, how it was trained and what to expect of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from riskmatch.deployment.folder import FIGURE
from riskmatch.engine.instances import is_instance
from riskmatch.report.figures.canvas import render
from riskmatch.report.figures.risks import TEST, density_plot
from riskmatch.report.tables import Table
from riskmatch.report.titles import data_title
from riskmatch.runs.config import WINDOW_AVERAGES, RunConfig, acts_from, title

if TYPE_CHECKING:
    from riskmatch.runs.predictions import Predictions


def risk_figure(held_out: Mapping[str, Predictions], training: Sequence[str], risk: str) -> bytes:
    """PNG of the densities of held-out risks by domain; test domains are marked.

    Args:
        held_out: scores of the held-out samples by domain.
        training: names of the domains of training.
        risk: name of the risk.
    """
    labelled = {
        name + TEST * (name not in training): np.asarray(scores.risk, np.float64)
        for name, scores in held_out.items()
    }
    title = "Held-out risks by domain; ticks mark the means"
    plot = density_plot({"held-out samples": labelled}, title, "", list(held_out))
    name = "your own" if is_instance(risk) else risk
    return render(replace(plot, xlabel=f"risk of a sample ({name})").draw(), "png")


def card(values: Mapping[str, Any], config: RunConfig, held_out: Mapping[str, Predictions]) -> str:
    """The card in Markdown, with the metadata that model hubs read at its top.

    Args:
        values: contents of ``model.json``.
        config: configuration of the run.
        held_out: scores of the held-out samples by domain.
    """
    return "\n".join([*_metadata(values), *_sections(values, config, held_out)]) + "\n"


def _metadata(values: Mapping[str, Any]) -> Iterator[str]:
    yield "---"
    if values["licence"]:
        yield f"license: {json.dumps(values['licence'])}"
    yield "library_name: riskmatch"
    yield "tags: [domain-generalization, risk-distribution-matching]"
    yield "---"


def _sections(
    values: Mapping[str, Any], config: RunConfig, held_out: Mapping[str, Predictions]
) -> Iterator[str]:
    domains: Mapping[str, Any] = values["domains"]
    trained = [name for name, entry in domains.items() if entry["trained_on"]]
    method, network = title(config), values["network"]["name"]
    yield f"# {_plain(data_title(config.data))}: {method}\n"
    task = (
        f"A classifier of {len(values['classes'])} classes" if values["classes"] else "A regression"
    )
    note = ", at a step before the method acts" if _before_it_acts(values["run"], config) else ""
    yield (
        f"{task} (network {_plain(network)}), trained with {method} on {len(trained)} domains"
        f"{note}.\n"
    )
    yield "## Use\n"
    yield "```console\nriskmatch predict MODEL INPUT -o predictions.csv\n```\n"
    yield '```python\nimport riskmatch\n\nriskmatch.load_model("MODEL").predict(inputs)\n```\n'
    yield f"- inputs: {_inputs(values['preprocessing'])}"
    if values["classes"]:
        yield f"- classes: {', '.join(map(_plain, values['classes']))}"
    yield f"- licence: {_plain(values['licence'] or 'not stated')}\n"
    if values["classes"]:
        yield "## Accuracy on a new domain\n"
    if values["expected"]:
        accuracy, low, high, level = (
            values["expected"][key] for key in ("accuracy", "low", "high", "level")
        )
        yield (
            f"{accuracy:.1%} is expected on a domain that is not among these, with a {level:.0%} "
            f"prediction interval from {low:.1%} to {high:.1%}. `riskmatch advise` left one domain "
            "after the other out of training to estimate it.\n"
        )
    elif values["classes"]:
        yield "Not estimated; `riskmatch advise DATA` estimates it.\n"
    yield "## Held-out samples of the domains of training\n"
    yield (
        "They were not trained on, but come from the same domains and chose the step: a new domain "
        "is harder.\n"
    )
    yield f"{_table(domains, held_out, regression=not values['classes'])}\n"
    yield f"![Densities of the held-out risks of every domain]({FIGURE})\n"
    yield "## Training\n"
    yield f"- data: {_plain(data_title(config.data))}"
    hparams = f", {_plain(json.dumps(dict(config.hparams)))}" if config.hparams else ""
    yield f"- method: {method}{hparams}"
    score = "highest mean validation accuracy"
    if not values["classes"]:
        score = "lowest mean validation risk"
    step = values["run"]["step"]
    yield f"- step {step} of {config.steps}: {_step(values['run'], config, score)}"
    size = config.batch_size or "whole domains"
    yield f"- batch size per domain {size}, learning rate {config.lr:g}"
    yield f"- seed {config.seed}, run {config.id}; its configuration is in model.json"
    yield "- " + ", ".join(f"{name} {number}" for name, number in values["versions"].items())


def _inputs(preprocessing: Mapping[str, Any]) -> str:
    if preprocessing["kind"] == "images":
        side = preprocessing["resize"][0]["side"]
        return f"images of any size, resized to {side} × {side}"
    if preprocessing["kind"] == "tensors":
        shape = ", ".join(map(str, preprocessing["shape"]))
        return f"tensors of shape (n, {shape}), {preprocessing['dtype']}"
    columns = [
        f"{_plain(column['name'])} ({column['type']})" for column in preprocessing["columns"]
    ]
    return f"a table with the columns {', '.join(columns)}"


def _table(
    domains: Mapping[str, Any], held_out: Mapping[str, Predictions], regression: bool
) -> str:
    accuracy = () if regression else ("accuracy, %",)
    rows = []
    for name, scores in held_out.items():
        note = "" if domains[name]["trained_on"] else " (not trained on)"
        right = 100 * float(np.mean(scores.predicted == scores.label))
        rows.append(
            (
                _plain(name) + note,
                domains[name]["samples"],
                len(scores.risk),
                *(() if regression else (right,)),
                f"{np.mean(scores.risk):.4f}",
            )
        )
    columns = ("domain", "samples", "held out", *accuracy, "mean risk")
    return Table("", columns, tuple(rows)).markdown().strip()


def _before_it_acts(run: Mapping[str, Any], config: RunConfig) -> bool:
    """Whether the method does not act yet at the step of the model."""
    start = acts_from(config)
    return start is None or 0 < start >= run["step"]


def _step(run: Mapping[str, Any], config: RunConfig, score: str) -> str:
    chosen = "the last"
    if run["step_chosen_by"] != "last" and config.average not in WINDOW_AVERAGES:
        chosen = f"the first with the {score} over the domains of training"
    start = acts_from(config)
    if _before_it_acts(run, config):
        when = "never acts" if start is None else f"acts from step {start}"
        return f"{chosen}; the method {when}, so that the network is that of its warm-up"
    return f"{chosen}; the method acts from step {start}" if start else chosen


def _plain(text: str) -> str:
    """Text without characters that Markdown or HTML would interpret."""
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in text)
