"""One line of DomainBed's ``results.jsonl``: a run after so many steps."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from riskmatch.importing import domainbed_names as names
from riskmatch.importing.domainbed_args import own_arguments
from riskmatch.runs.config import RunConfig
from riskmatch.runs.records import LEVELS, Evaluation, Score, Split

STEPS, EVERY = 5001, {"domainnet": 1000}
"""What DomainBed takes where ``args`` say null; it evaluates every 300 steps elsewhere."""
_ACCURACY = re.compile(r"env(\d+)_(in|out)(?:_acc)?")
_SPLITS: dict[str, Split] = {"in": "train", "out": "val"}
_KEPT = {"holdout_fraction": 0.2, "uda_holdout_fraction": 0, "task": "domain_generalization"}
"""The arguments that a result depends on besides, with their usual values."""


class BadLineError(ValueError):
    """A line that says too little, or nonsense; the message is the reason."""


def read_line(text: bytes) -> tuple[RunConfig, Evaluation]:
    """The run a line is of, and its scores then.

    Hyper-parameters keep the names of the log, with its ``hparams_seed`` and the arguments that a
    fork added. Risks are not logged: they are NaN. ``raw`` holds whatever else was logged as a
    number.
    """
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadLineError("not JSON") from error
    if not isinstance(values, dict):
        raise BadLineError("not a JSON object")
    config, domains = _config(_mapping(values, "args"), _mapping(values, "hparams", {}))
    if "step" not in values:
        raise BadLineError("no step")
    step = _whole(values, "step", 0)
    if step < 0:
        raise BadLineError(f"step is {step}")
    evaluation = _evaluation(values, step, domains)
    for domain in config.test_domains:
        if domain not in evaluation.scores:
            raise BadLineError(f"no accuracy on the test domain {domain}")
    return config, evaluation


def _config(
    args: Mapping[str, Any], hparams: Mapping[str, Any]
) -> tuple[RunConfig, tuple[str, ...]]:
    for name in ("algorithm", "dataset"):
        if not isinstance(args.get(name), str):
            raise BadLineError(f"no args.{name}")
    data, domains = names.data(args["dataset"])
    method, fixed = names.method(args["algorithm"])
    tests = _test_envs(args)
    drawn = {**fixed, **hparams, "hparams_seed": _whole(args, "hparams_seed", 0)}
    try:
        config = RunConfig(
            data,
            tuple(domain_name(env, domains) for env in tests),
            method,
            _plain({**drawn, **own_arguments(args)}),
            model=names.network(hparams, args["dataset"]),
            # What never trains logs 0, which no run of ours can have; ``hparams`` keep it.
            lr=_real(hparams, "lr", RunConfig.lr) or RunConfig.lr,
            weight_decay=_real(hparams, "weight_decay", 0.0),
            dropout=_real(hparams, "resnet_dropout", 0.0),
            batch_size=_whole(hparams, "batch_size", RunConfig.batch_size),
            steps=_whole(args, "steps", STEPS),
            eval_every=_whole(args, "checkpoint_freq", EVERY.get(data, RunConfig.eval_every)),
            seed=_whole(args, "seed", 0),
            trial=_whole(args, "trial_seed", 0),
            data_options=_plain({k: args[k] for k, v in _KEPT.items() if args.get(k, v) != v}),
        )
    except BadLineError:
        raise
    except ValueError as error:
        raise BadLineError(str(error)) from error
    return config, domains


def _test_envs(args: Mapping[str, Any]) -> list[int]:
    """A list of indices, or one; a fork that trains one run per domain says which is the real."""
    names = ("real_test_envs", "test_envs", "test_env")
    said = next((args[name] for name in names if args.get(name) is not None), None)
    envs = [_number(env) for env in _flat(said)]
    found = {int(env) for env in envs if env is not None and env >= 0 and env.is_integer()}
    if not envs or len(found) < len(set(envs)):
        raise BadLineError(f"args.test_envs is {said!r}")
    return sorted(found)


def _flat(value: Any) -> list[Any]:
    """The entries of lists within lists; what is no list is one entry."""
    return [e for entry in value for e in _flat(entry)] if isinstance(value, list) else [value]


def domain_name(env: int, domains: tuple[str, ...]) -> str:
    """The name of an environment; its number where it is not known."""
    return domains[env] if env < len(domains) else f"env{env}"


def _evaluation(values: Mapping[str, Any], step: int, domains: tuple[str, ...]) -> Evaluation:
    scores: dict[int, dict[Split, Score]] = {}
    raw: dict[str, float] = {}
    for key, value in values.items():
        number = _number(value)
        if found := _ACCURACY.fullmatch(key):
            if number is None or (math.isfinite(number) and not 0 <= number <= 1):
                raise BadLineError(f"{key} is {value!r}, no share of samples")
            accuracy = number if math.isfinite(number) else math.nan
            unknown = (math.nan,) * len(LEVELS)
            score = Score(accuracy, math.nan, unknown)
            scores.setdefault(int(found[1]), {})[_SPLITS[found[2]]] = score
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
        scores={domain_name(env, domains): dict(scores[env]) for env in sorted(scores)},
        loss=total if math.isnan(loss) else loss,
        terms={},
        raw=raw,
        worst_domain="",
        seconds=math.nan,
        seconds_per_step=seconds,
        peak_memory=int(memory * 2**30) if math.isfinite(memory) else 0,
    )


def _mapping(
    values: Mapping[str, Any], name: str, default: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    found = values.get(name)
    if found is None and default is not None:
        return default
    if not isinstance(found, dict):
        raise BadLineError(f"no {name}" if found is None else f"{name} is {found!r}")
    return found


def _number(value: Any) -> float | None:
    """None where it is none; the texts that some loggers write for numbers count too."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _real(values: Mapping[str, Any], name: str, default: float) -> float:
    if values.get(name) is None:
        return default
    number = _number(values[name])
    if number is None or not math.isfinite(number):
        raise BadLineError(f"{name} is {values[name]!r}")
    return number


def _whole(values: Mapping[str, Any], name: str, default: int) -> int:
    number = _real(values, name, default)
    if number != int(number):
        raise BadLineError(f"{name} is {values[name]!r}")
    return int(number)


def _plain(value: Any) -> Any:
    """``value`` with None for every number that is not finite, as records are written."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
