"""The arguments of a run that only a fork of DomainBed knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KNOWN = {
    *("algorithm", "checkpoint_freq", "data_dir", "dataset", "holdout_fraction", "hparams"),
    *("hparams_seed", "output_dir", "real_test_envs", "save_model_every_checkpoint", "seed"),
    *("skip_model_save", "steps", "task", "test_env", "test_envs", "trial_seed"),
    "uda_holdout_fraction",
}
"""Those of DomainBed, and those that are read by their names."""
_ASIDE = {
    *("command", "comment", "date", "device", "devices", "entity", "eval_freq", "exp_name"),
    *("experiment_name", "host", "hostname", "local_rank", "log_freq", "log_interval", "n_workers"),
    *("name", "node", "note", "notes", "num_workers", "port", "print_freq", "project", "resume"),
    *("run_id", "run_name", "tag", "tags", "time", "timestamp", "user", "uuid", "verbose"),
    "workers",
}
_TOOLS = ("cuda", "gpu", "job", "save_", "slurm", "tensorboard", "wandb")
"""How such names begin."""
_PLACES = ("_dir", "_folder", "_root")
"""How such names end."""


def own_arguments(args: Mapping[str, Any]) -> dict[str, Any]:
    """What a fork added that a result may depend on, by its name in the log.

    Names, machines, and where and how often files are written do not count.

    Example:
        >>> own_arguments({"seed": 3, "my_lambda": 0.1, "log_dir": "x", "wandb_id": 7})
        {'args.my_lambda': 0.1}
    """
    return {
        f"args.{name}": value
        for name, value in args.items()
        if value is not None
        and name not in _KNOWN | _ASIDE
        and not name.endswith(_PLACES)
        and not name.startswith(_TOOLS)
    }
