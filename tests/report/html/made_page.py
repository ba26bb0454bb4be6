"""Synthetic page data: random numbers in the structure of page_data."""

import base64
import struct
import zlib

import numpy as np

from riskmatch.report.tables import Table

TRAINING, TEST = ("art", "cartoon", "photo"), ("sketch",)
SAMPLES = 200
CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")

HOSTILE = (
    "<script>alert(1)</script>",
    "\"quotes' & <b onclick=alert(1)>",
    "x" * 300,
    "نطاق الاختبار",
    "__proto__",
    "a " * 20 + "z",
)
"""Names that a page must show as plain text."""


def page_data(*, runs=1, training=TRAINING, test=TEST, classes=CLASSES, **changes):
    """Page data of one run, or of a comparison of ``runs`` methods."""
    methods = ["ERM", "RDM", "VREx", "CORAL", "IRM", "Fish"][:runs]
    many = runs > 1
    data = {
        "title": f"{' and '.join(methods[:2])} on PACS",
        "metric": {
            **{"name": "accuracy", "title": "accuracy", "higher": True, "percent": True},
            "decimals": 1,
        },
        "groups": [],
        "version": "0.1.0",
        "command": "riskmatch report runs -o report.html",
        "headline": Table(
            "Accuracy (%) on the test domain",
            ("method", "train-val", "test-val", "last step"),
            tuple((m, 70.0 + 9 * i % 5, 71.25 + i, None) for i, m in enumerate(methods)),
        ),
        "verdict": {"better than ERM": "no method", "rule": "intervals"} if many else {},
        "cautions": ["b and c have 6 images in common."] if many else [],
        "comparison": comparison(methods) if many else None,
        "differences": differences(methods) if many else [],
        "hyperparameters": hyperparameters(methods, test) if many else [],
        "runs": [
            run(number, method, training, test, classes) for number, method in enumerate(methods)
        ],
        "notes": ["Two runs have no checkpoint: train them again to see their confusion."],
    }
    return data | changes


def without_predictions(run):
    """Remove what comes from predictions from the page data of a run."""
    run |= {
        "no_predictions": "nothing stored. To get them, train again",
        "snapshots": [],
        "matching": {"steps": [], "train": [], "val": []},
        **dict.fromkeys(("chosen_step", "step_of_samples")),
        **{name: {} for name in ("samples", "confusion", "calibration", "hardest")},
    }


def bare():
    """Page data of a run that failed before its first evaluation."""
    data = page_data()
    without_predictions(data["runs"][0])
    data["runs"][0] |= {
        "status": "failed",
        "error": "RuntimeError: out of memory",
        "config": {},
        "reproduce": "",
        "curves": {
            **{name: [] for name in ("steps", "loss", "worst")},
            "start": None,
            **{name: {} for name in ("metric", "risk", "terms", "raw")},
        },
    }
    return data


def hyperparameters(methods, test):
    points = [[10**k, 60.0 + k, name] for k in range(-2, 3) for name in test]
    charts = [
        {"name": "weight", "title": "λ", "log": True, "points": points},
        {"name": "lr", "title": "learning rate", "log": False, "points": points},
    ]
    return [{"method": method, "charts": charts} for method in methods[1:]]


def comparison(methods):
    rows = tuple((m, f"{9.5 + 31 * i % 17} ± 0.4", 3) for i, m in enumerate(methods))
    return Table("Accuracy (%), mean ± sd over three seeds", ("method", *TEST, "runs"), rows)


def differences(methods):
    return [
        {
            "method": method,
            "against": "ERM",
            "mean": 2.5 - 1.5 * i,
            "low": 1.0 - 1.5 * i,
            "high": 4.0 - 1.5 * i,
            "unit": "these domains",
            "adjusted p": 0.01 * (i + 1),
            "n": 3,
        }
        for i, method in enumerate(methods[1:])
    ]


def run(seed, method, training, test, classes):
    rng = np.random.default_rng(seed)
    domains = [*training, *test]
    steps = list(range(0, 301, 15))
    shots = steps[::4]
    level = {name: 0.55 + 0.35 * rng.random() for name in domains}
    return {
        "id": f"{seed:04x}c0ffee",
        "title": f"{method} on PACS without {' '.join(test)[:20]}",
        "method": method,
        "data": "pacs",
        "task": "classification",
        "domains": domains,
        "parts_of_domains": {"train": "80 % part", "val": "20 % part"},
        "sizes": {name: {"train": 126, "val": 31} for name in domains},
        "chosen_step": steps[-3],
        "no_predictions": "",
        "findings": [],
        "lost": False,
        "step_of_samples": steps[-1],
        "samples": {name: {"n": 60, "correct": 50, "of": 60} for name in domains},
        "training_domains": list(training),
        "test_domains": list(test),
        "classes": list(classes),
        "status": "done",
        "error": None,
        "parts": {},
        "config": {"data": "pacs", "lr": 5e-5, "hparams": {"weight": 5.0, "match": "worst"}},
        "reproduce": f"riskmatch train pacs --method {method.lower()} --test-domain sketch",
        "curves": curves(rng, steps, level, training),
        "matching": {
            "steps": shots,
            **{part: (0.2 / (1 + np.arange(len(shots)))).tolist() for part in ("train", "val")},
        },
        "snapshots": [snapshot(rng, step, level) for step in shots],
        "confusion": {name: confusion(rng, len(classes), level[name]) for name in domains},
        "calibration": {name: calibration(rng, level[name]) for name in domains},
        "hardest": {name: hardest(rng, classes, seed) for name in domains},
    }


def curves(rng, steps, level, training):
    grown = 1 - np.exp(-np.array(steps) / 70)

    def series(scale, noise):
        return {
            name: {
                split: (scale(top + gap) + noise * rng.normal(size=len(steps))).tolist()
                for split, gap in (("train", 0.06), ("val", 0.0))
            }
            for name, top in level.items()
        }

    penalty = (0.2 * np.exp(-np.array(steps) / 90) + 0.01 * rng.random(len(steps))).tolist()
    return {
        "steps": steps,
        "start": 105,
        "metric": series(lambda top: 0.15 + (top - 0.15) * grown, 0.012),
        "risk": series(lambda top: 2 - 1.9 * top * grown, 0.03),
        "loss": (2 - 1.4 * grown).tolist(),
        "terms": {"risk": (1.9 - 1.4 * grown).tolist(), "penalty": [None, *penalty[1:]]},
        "raw": {"mmd": penalty},
        "worst": [str(name) for name in rng.choice(list(training), len(steps))],
    }


def snapshot(rng, step, level):
    edges, x = np.linspace(0, 4, 41), np.linspace(0, 4, 100)
    domains, names = {}, list(level)
    for name, top in level.items():
        scale = 0.25 + 1.6 * (1.1 - top) * np.exp(-step / 200) + 0.4 * (1 - top)
        risks = rng.gamma(1.4, scale, size=SAMPLES)
        kernel = np.exp(-0.5 * ((x[:, None] - np.r_[risks, -risks]) / 0.08) ** 2).sum(1)
        domains[name] = {
            "n": len(risks),
            "mean": float(risks.mean()),
            "edges": edges.tolist(),
            "heights": (np.histogram(risks, edges)[0] / (0.1 * SAMPLES)).tolist(),
            "x": x.tolist(),
            "density": (kernel / (SAMPLES * 0.08 * np.sqrt(2 * np.pi))).tolist(),
            "cdf": (risks[:, None] <= x).mean(0).tolist(),
        }
    means = np.array([domains[name]["mean"] for name in names])
    value = (means[:, None] - means) ** 2
    p = [
        [None if i == j else float(np.exp(-9 * v)) for j, v in enumerate(row)]
        for i, row in enumerate(value)
    ]
    return {
        "step": step,
        "domains": domains,
        "mmd": {"domains": names, "value": value.tolist(), "p": p},
    }


def confusion(rng, classes, accuracy):
    chances = np.full((classes, classes), (1 - accuracy) / max(1, classes - 1))
    np.fill_diagonal(chances, accuracy)
    return [rng.multinomial(60, row / row.sum()).tolist() for row in chances]


def calibration(rng, accuracy):
    lows = np.arange(10) / 10
    return {
        "ece": 0.1 * (1 - accuracy),
        "bins": [
            {
                "low": float(low),
                "high": float(low + 0.1),
                "confidence": float(low + 0.05) if low > 0.15 else None,
                "accuracy": float(min(1, (low + 0.04) * (0.8 + 0.3 * accuracy)))
                if low > 0.15
                else None,
                "n": int(rng.integers(5, 200)) if low > 0.15 else 0,
            }
            for low in lows
        ],
    }


def hardest(rng, classes, seed):
    """Hardest samples, with thumbnails or, for odd seeds, rows of features."""
    return [
        {
            "risk": 9.5 - 0.7 * place,
            "label": str(rng.choice(classes)),
            "predicted": str(rng.choice(classes)),
            "confidence": 0.99 - 0.03 * place,
            "name": f"pic_{place:03}.jpg",
            "thumbnail": picture(rng) if seed % 2 == 0 else None,
            "row": None if seed % 2 == 0 else {"age": str(30 + place), "job": "<b>baker</b>"},
        }
        for place in range(6)
    ]


def picture(rng, side=24):
    """A small PNG with a vertical colour gradient."""
    first, second = rng.integers(0, 256, (2, 3))
    rows = b"".join(
        b"\0" + bytes((first + (second - first) * y // side).astype(np.uint8)) * side
        for y in range(side)
    )

    def chunk(kind, body):
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows))
    return "data:image/png;base64," + base64.b64encode(png + chunk(b"IEND", b"")).decode()
