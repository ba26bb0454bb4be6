"""Write sweeps like DomainBed."""

import itertools
import json
import random

DEFAULTS = {
    "batch_size": 32,
    "class_balanced": False,
    "data_augmentation": True,
    "lr": 5e-05,
    "nonlinear_classifier": False,
    "resnet18": False,
    "resnet_dropout": 0.0,
    "weight_decay": 0.0,
}


def line(step, accuracies, test_envs=(0,), hparams=None, **args):
    """One line; ``accuracies`` are pairs (in, out), one per environment."""
    scores = {
        f"env{env}_{split}_acc": value
        for env, pair in enumerate(accuracies)
        for split, value in zip(("in", "out"), pair, strict=True)
    }
    logged = {
        "algorithm": "ERM", "checkpoint_freq": None, "data_dir": "/data", "dataset": "PACS",
        "holdout_fraction": 0.2, "hparams": None, "hparams_seed": 0, "output_dir": "out",
        "save_model_every_checkpoint": False, "seed": 0, "skip_model_save": False, "steps": None,
        "task": "domain_generalization", "test_envs": list(test_envs), "trial_seed": 0,
        "uda_holdout_fraction": 0, **args,
    }  # fmt: skip
    return {
        "args": logged, "hparams": {**DEFAULTS, **(hparams or {})}, "step": step, "epoch": step / 9,
        "loss": 0.5, "step_time": 0.25, "mem_gb": 2.0, **scores,
    }  # fmt: skip


def write(folder, lines, done=True):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    if done:
        (folder / "done").write_text("done")
    return folder / "results.jsonl"


def random_sweep(root, *, envs=4, trials=2, draws=3, steps=(0, 300, 600), seed=0, **args):
    """Write runs for every test environment and every pair of them; return all lines."""
    rng = random.Random(seed)
    tests = [*itertools.combinations(range(envs), 1), *itertools.combinations(range(envs), 2)]
    written = []
    for test, trial, draw in itertools.product(tests, range(trials), range(draws)):
        drawn = {"lr": random.Random(f"{trial} {draw}").uniform(1e-5, 1e-4)} if draw else {}
        lines = [
            line(
                step,
                [(rng.random(), rng.random()) for _ in range(envs)],
                test,
                hparams=drawn,
                hparams_seed=draw,
                trial_seed=trial,
                seed=rng.randrange(2**31),
                steps=steps[-1] + 1,
                **args,
            )
            for step in steps
        ]
        for entry in lines:
            entry["args"]["seed"] = lines[0]["args"]["seed"]
        name = "".join(map(str, test))
        write(root / f"{args.get('algorithm', 'ERM')}-{name}-{trial}-{draw}", lines)
        written += lines
    return written
