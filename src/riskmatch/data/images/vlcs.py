"""VLCS in the issue of JiGen: smaller images, each domain in three splits, classes by number."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from riskmatch.data.images.archives import extract
from riskmatch.data.progress import OnProgress

CLASSES = ("bird", "car", "chair", "dog", "person")
LABELS = {str(number): name for number, name in enumerate(CLASSES)}
DOMAINS = {"CALTECH": "Caltech101", "LABELME": "LabelMe", "PASCAL": "VOC2007", "SUN": "SUN09"}
SPLITS = ("train", "crossval", "test")
"""Together they are the domain; a fourth folder, ``full``, repeats the first two."""


def prepare(files: Mapping[str, Path], tree: Path, on_progress: OnProgress | None = None) -> None:
    """Unpack ``CALTECH/train/0/image`` as ``tree/Caltech101/bird/train-image``, and so all."""
    for path in files.values():
        extract(path, tree, place_of, on_progress)


def place_of(name: str) -> str | None:
    """Where a file of the archive goes; None for the folder that repeats, and what is no image's.

    Example:
        >>> place_of("VLCS/SUN/test/4/test_imgs_1.jpg")
        'SUN09/person/test-test_imgs_1.jpg'
        >>> place_of("VLCS/SUN/full/4/train_imgs_1.jpg")
    """
    *_, domain, split, number, image = ["", "", "", *name.split("/")]
    if domain not in DOMAINS or split not in SPLITS or number not in LABELS:
        return None
    return f"{DOMAINS[domain]}/{LABELS[number]}/{split}-{image}"
