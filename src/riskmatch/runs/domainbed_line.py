"""Read one line of DomainBed's ``results.jsonl``: an evaluation of a run."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from riskmatch.data.images.benchmark import BENCHMARKS, folded_name
from riskmatch.files import finite
from riskmatch.runs.config import RunConfig
from riskmatch.runs.domainbed_hparams import OF_ALL
from riskmatch.runs.lines import LEVELS, Evaluation, Score, Split
from riskmatch.runs.method import MethodFacts, built_in_names, stated, stated_facts

STEPS, EVERY = 5001, {"domainnet": 1000}
"""DomainBed's values where ``args`` have null; elsewhere it evaluates every 300 steps."""
DIGITS = {
    "colored-mnist": ("0.1", "0.2", "0.9"),
    "rotated-mnist": ("0", "15", "30", "45", "60", "75"),
}
"""Data sets of digits with their domains in DomainBed's order."""
_WARMUPS = ("penalty_anneal_iters", "burnin_iters")
"""Ends of the names that forks give to the steps before a penalty."""

_ACCURACY = re.compile(r"env(\d+)_(in|out)(?:_acc)?")
_SPLITS: dict[str, Split] = {"in": "train", "out": "val"}
_DATA_ARGUMENTS = {
    "holdout_fraction": 0.2,
    "uda_holdout_fraction": 0,
    "task": "domain_generalization",
}
"""Arguments that are kept as data options unless they have these usual values."""
_KNOWN = {
    *("algorithm", "checkpoint_freq", "data_dir", "dataset", "holdout_fraction", "hparams"),
    *("hparams_seed", "output_dir", "real_test_envs", "save_model_every_checkpoint", "seed"),
    *("skip_model_save", "steps", "task", "test_env", "test_envs", "trial_seed"),
    "uda_holdout_fraction",
}
"""Arguments of DomainBed, and those that are read by name."""
_IRRELEVANT = {
    *("command", "comment", "date", "device", "devices", "entity", "eval_freq", "exp_name"),
    *("experiment_name", "host", "hostname", "local_rank", "log_freq", "log_interval", "n_workers"),
    *("name", "node", "note", "notes", "num_workers", "port", "print_freq", "project", "resume"),
    *("run_id", "run_name", "tag", "tags", "time", "timestamp", "user", "uuid", "verbose"),
    "workers",
}
"""Arguments of forks that do not affect the result."""
_IRRELEVANT_PREFIXES = ("cuda", "gpu", "job", "save_", "slurm", "tensorboard", "wandb")
_IRRELEVANT_SUFFIXES = ("_dir", "_folder", "_root")


class BadLineError(ValueError):
    """A line is incomplete or invalid; the message is the reason."""


def read_line(text: bytes) -> tuple[RunConfig, Evaluation]:
    """Configuration of the run that a line belongs to, and the evaluation.

    Hyper-parameters keep the names of the log, with ``hparams_seed`` and the arguments that a fork
    added. Risks are not logged and are NaN. ``raw`` holds all other numbers of the line.

    Raises:
        BadLineError: the line is incomplete or invalid.
    """
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadLineError("not JSON") from error
    if not isinstance(values, dict):
        raise BadLineError("not a JSON object")
    try:
        return _read(values)
    except BadLineError:
        raise
    # Values that no run logs: numbers that fit no float, lone surrogates, deep nesting.
    except (ArithmeticError, RecursionError, TypeError, ValueError) as error:
        raise BadLineError(f"cannot be read ({type(error).__name__})") from error


def _read(values: Mapping[str, Any]) -> tuple[RunConfig, Evaluation]:
    hparams = values.get("hparams")
    args = _mapping("args", values.get("args"))
    config, domains = _config(args, _mapping("hparams", {} if hparams is None else hparams))
    if "step" not in values:
        raise BadLineError("no step")
    step = _integer(values, "step", 0)
    if step < 0:
        raise BadLineError(f"step is {step}")
    evaluation = _evaluation(values, step, domains)
    for domain in config.test_domains:
        if domain not in evaluation.scores:
            raise BadLineError(f"no accuracy on the test domain {domain}")
    config.id.encode()
    json.dumps([config.to_json(), *evaluation.scores, *evaluation.raw], ensure_ascii=False).encode()
    return config, evaluation


def method_of(algorithm: str) -> tuple[str, dict[str, Any]]:
    """Method and fixed hyper-parameters of an algorithm; an unknown algorithm keeps its name.

    Example:
        >>> method_of("DGPM2"), method_of("Sideways")
        (('rdm', {}), ('Sideways', {}))
    """
    return _methods().get(algorithm.lower(), (algorithm, {}))


@cache
def _methods() -> dict[str, tuple[str, dict[str, Any]]]:
    """Method and the hyper-parameters that the algorithm fixes, by its name in lower case."""
    return {
        algorithm.lower(): (name, dict(fixed))
        for name in built_in_names()
        for algorithm, fixed in (
            stated(name).get("domainbed") or {stated_facts(name).title: {}}
        ).items()
    }


def _name_by_field(method: str) -> dict[str, str]:
    """DomainBed's names of the fields of a method and of its run."""
    literals = stated(method)
    names = [*OF_ALL.items(), *literals.get("domainbed_hparams", {}).items()]
    names += [(name, field) for field, name in literals.get("domainbed_fields", {}).items()]
    return {field: name for name, field in names}


def _facts(method: str, hparams: Mapping[str, Any], warmup: str | None) -> MethodFacts:
    """What is known about the method, with the warm-up as DomainBed names it."""
    logged = (name for name in hparams if name == warmup or name.endswith(_WARMUPS))
    return replace(stated_facts(method), warmup=next(logged, MethodFacts.warmup))


def data_of(dataset: str) -> tuple[str, tuple[str, ...]]:
    """Data set and its domains; an unknown data set keeps its name and has no known domains.

    Example:
        >>> data_of("VLCS"), data_of("SVIRO")
        (('vlcs', ('Caltech101', 'LabelMe', 'SUN09', 'VOC2007')), ('SVIRO', ()))
    """
    for benchmark in BENCHMARKS.values():
        if benchmark.matches(dataset):
            return benchmark.name, benchmark.domains
    for name, domains in DIGITS.items():
        if folded_name(dataset) == folded_name(name):
            return name, domains
    return dataset, ()


def network_of(hparams: Mapping[str, Any], dataset: str) -> str:
    """Network, as far as the hyper-parameters state it.

    Example:
        >>> network_of({"resnet18": False}, "PACS"), network_of({}, "RotatedMNIST")
        ('resnet50', 'cnn')
    """
    for name in ("backbone", "arch", "model"):
        if isinstance(hparams.get(name), str):
            return str(hparams[name])
    if "mnist" in dataset.lower():
        return "cnn"
    for name in ("vit", "dinov2", "resnet18"):
        if str(hparams.get(name)).lower() == "true":
            return name
    return "resnet50" if "resnet18" in hparams else "unknown"


def fork_arguments(args: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that a fork added and a result may depend on, by their name in the log.

    Names, machines, and where and how often files are written are left out.

    Example:
        >>> fork_arguments({"seed": 3, "my_lambda": 0.1, "log_dir": "x", "wandb_id": 7})
        {'args.my_lambda': 0.1}
    """
    return {
        f"args.{name}": value
        for name, value in args.items()
        if value is not None
        and name not in _KNOWN | _IRRELEVANT
        and not name.endswith(_IRRELEVANT_SUFFIXES)
        and not name.startswith(_IRRELEVANT_PREFIXES)
    }


def _config(
    args: Mapping[str, Any], hparams: Mapping[str, Any]
) -> tuple[RunConfig, tuple[str, ...]]:
    for name in ("algorithm", "dataset"):
        if not isinstance(args.get(name), str):
            raise BadLineError(f"no args.{name}")
    data, domains = data_of(args["dataset"])
    method, fixed = method_of(args["algorithm"])
    names = _name_by_field(method)
    drawn = {**fixed, **hparams, "hparams_seed": _integer(args, "hparams_seed", 0)}
    data_options = {k: args[k] for k, v in _DATA_ARGUMENTS.items() if args.get(k, v) != v}
    try:
        config = RunConfig(
            data,
            tuple(_domain_name(env, domains) for env in _test_envs(args)),
            method,
            finite({**drawn, **fork_arguments(args)}),
            model=network_of(hparams, args["dataset"]),
            # Algorithms that do not train log 0, which RunConfig refuses; ``hparams`` keep it.
            lr=_number(hparams, names["lr"], RunConfig.lr) or RunConfig.lr,
            weight_decay=_number(hparams, names["weight_decay"], 0.0),
            dropout=_number(hparams, names["dropout"], 0.0),
            batch_size=_integer(hparams, "batch_size", RunConfig.batch_size),
            steps=_integer(args, "steps", STEPS),
            eval_every=_integer(args, "checkpoint_freq", EVERY.get(data, RunConfig.eval_every)),
            seed=_integer(args, "seed", 0),
            trial=_integer(args, "trial_seed", 0),
            data_options=finite(data_options),
        )
    except ValueError as error:
        raise BadLineError(str(error)) from error
    return config.with_facts(_facts(method, config.hparams, names.get("warmup"))), domains


def _test_envs(args: Mapping[str, Any]) -> list[int]:
    """Numbers of the test environments.

    They are logged as a list or as one number; a fork that trains one run per domain logs
    ``real_test_envs`` too.
    """
    names = ("real_test_envs", "test_envs", "test_env")
    logged = next((args[name] for name in names if args.get(name) is not None), None)
    envs = [_to_float(env) for env in _flatten(logged)]
    valid = {int(env) for env in envs if env is not None and env >= 0 and env.is_integer()}
    if not envs or len(valid) < len(set(envs)):
        raise BadLineError(f"args.test_envs is {logged!r}")
    return sorted(valid)


def _flatten(value: Any) -> list[Any]:
    """Entries of nested lists; anything else is one entry."""
    return [e for entry in value for e in _flatten(entry)] if isinstance(value, list) else [value]


def _domain_name(env: int, domains: tuple[str, ...]) -> str:
    """Name of an environment; its number if the name is unknown."""
    return domains[env] if env < len(domains) else f"env{env}"


def _evaluation(values: Mapping[str, Any], step: int, domains: tuple[str, ...]) -> Evaluation:
    scores: dict[int, dict[Split, Score]] = {}
    raw: dict[str, float] = {}
    for key, value in values.items():
        number = _to_float(value)
        if match := _ACCURACY.fullmatch(key):
            if number is None or (math.isfinite(number) and not 0 <= number <= 1):
                raise BadLineError(f"{key} is {value!r}, not in [0, 1]")
            accuracy = number if math.isfinite(number) else math.nan
            missing = {"accuracy": "not a finite number"} if math.isnan(accuracy) else {}
            score = Score({"accuracy": accuracy}, math.nan, (math.nan,) * len(LEVELS), missing)
            scores.setdefault(int(match[1]), {})[_SPLITS[match[2]]] = score
        elif number is not None and not key.startswith("env"):
            raw[key] = number
    if not scores:
        raise BadLineError("no accuracies")
    for key in ("step", "epoch"):
        raw.pop(key, None)
    loss, total = raw.pop("loss", math.nan), raw.pop("total_loss", math.nan)
    seconds, memory = raw.pop("step_time", math.nan), raw.pop("mem_gb", 0.0)
    return Evaluation(
        step=step,
        scores={_domain_name(env, domains): dict(scores[env]) for env in sorted(scores)},
        loss=total if math.isnan(loss) else loss,
        terms={},
        raw=raw,
        worst_domain="",
        seconds=math.nan,
        seconds_per_step=seconds,
        peak_memory=int(memory * 2**30) if math.isfinite(memory) else 0,
    )


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadLineError(f"no {name}" if value is None else f"{name} is {value!r}")
    return value


def _to_float(value: Any) -> float | None:
    """A number, or text that some loggers write for one, as float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _number(values: Mapping[str, Any], name: str, default: float) -> float:
    if values.get(name) is None:
        return default
    number = _to_float(values[name])
    if number is None or not math.isfinite(number):
        raise BadLineError(f"{name} is {values[name]!r}")
    return number


def _integer(values: Mapping[str, Any], name: str, default: int) -> int:
    number = _number(values, name, default)
    if number != int(number) or abs(number) >= 2**63:
        raise BadLineError(f"{name} is {values[name]!r}")
    return int(number)
