"""Convert the published archives of benchmarks to the layout ``domain/class/image``."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from riskmatch.data.images.archives import Target, Unpacker, archive_errors
from riskmatch.data.images.index import is_image

Convert = Callable[[Mapping[str, Path], Unpacker], None]
"""Given files by name, writes ``domain/class/image`` at any depth below the unpacker's folder."""

FACTS: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("benchmarks.json").read_text(encoding="utf-8")
)
"""Facts of the benchmarks by name; see :mod:`riskmatch.data.images.benchmark`."""
VLCS_CLASSES = tuple(FACTS["vlcs"]["class_names"])
VLCS_LABELS = {str(number): name for number, name in enumerate(VLCS_CLASSES)}
VLCS_DOMAINS = {"CALTECH": "Caltech101", "LABELME": "LabelMe", "PASCAL": "VOC2007", "SUN": "SUN09"}
VLCS_SPLITS = ("train", "crossval", "test")
"""Splits that together make the domain; a fourth folder, ``full``, repeats the first two."""

DOMAINNET_DUPLICATES = "domain_net_duplicates.txt"
"""List of duplicates that DomainBed publishes, one path ``domain/class/image`` per line."""

TERRA_IMAGES = "eccv_18_all_images_sm.tar.gz"
TERRA_ANNOTATIONS = "caltech_camera_traps.json.zip"
MAX_ANNOTATIONS = 1 << 29
"""Most bytes of the annotations, several times what they have."""
TERRA_DOMAINS = [name for name, *_ in FACTS["terraincognita"]["parts"]]
TERRA_CLASSES = tuple(FACTS["terraincognita"]["class_names"])


def unpack(files: Mapping[str, Path], unpacker: Unpacker, target: Target = str) -> None:
    """Unpack archives, by default those that have the layout already."""
    for path in files.values():
        unpacker.extract(path, target)


def unpack_parquet(files: Mapping[str, Path], unpacker: Unpacker) -> None:
    """Unpack Parquet files of the Hugging Face hub."""
    for path in files.values():
        unpacker.extract_parquet(path)


def vlcs_target(name: str) -> str | None:
    """Target path of a file of JiGen's archive; None for the repeating folder and other files.

    Example:
        >>> vlcs_target("VLCS/SUN/test/4/test_imgs_1.jpg")
        'SUN09/person/test-test_imgs_1.jpg'
        >>> vlcs_target("VLCS/SUN/full/4/train_imgs_1.jpg")
    """
    *_, domain, split, number, image = ["", "", "", *name.split("/")]
    if domain not in VLCS_DOMAINS or split not in VLCS_SPLITS or number not in VLCS_LABELS:
        return None
    return f"{VLCS_DOMAINS[domain]}/{VLCS_LABELS[number]}/{split}-{image}"


convert_vlcs: Convert = partial(unpack, target=vlcs_target)
"""Unpack VLCS as distributed with JiGen: domains in three splits, classes by number.

``CALTECH/train/0/image`` becomes ``tree/Caltech101/bird/train-image``.
"""


def convert_domainnet(files: Mapping[str, Path], unpacker: Unpacker) -> None:
    """Unpack DomainNet's six archives without the published duplicates.

    The archives hold the images of the training and test lists together.
    """
    duplicates = read_duplicates(files[DOMAINNET_DUPLICATES])
    archives = {name: path for name, path in files.items() if name != DOMAINNET_DUPLICATES}

    def target(image: str) -> str | None:
        return None if image in duplicates else image

    unpack(archives, unpacker, target)


def read_duplicates(path: Path) -> frozenset[str]:
    """Paths of the images of DomainNet that are left out."""
    lines = [line.strip() for line in path.read_text("utf-8", errors="replace").splitlines()]
    for line in lines:
        if line and not (line.count("/") == 2 and is_image(Path(line))):
            raise ValueError(f"{path} lists {line[:60]!r}, which is not a path domain/class/image")
    return frozenset(filter(None, lines))


def convert_terraincognita(files: Mapping[str, Path], unpacker: Unpacker) -> None:
    """Unpack four locations and ten classes of the Caltech Camera Traps.

    Images are written as ``tree/location_38/bird/image``. As in DomainBed, an image with animals
    of two classes is in the folders of both.
    """
    folders = terra_folders(read_annotations(files[TERRA_ANNOTATIONS]))
    archive, tree = files[TERRA_IMAGES], unpacker.folder

    def target(name: str) -> str | None:
        image = name.rsplit("/", 1)[-1]
        return f"{folders[image][0]}/{image}" if image in folders else None

    unpacker.extract(archive, target)
    for image, (first, *others) in folders.items():
        for other in others:
            (tree / other).mkdir(parents=True, exist_ok=True)
            if (tree / first / image).is_file():
                unpacker.count(archive, bytes=(tree / first / image).stat().st_size)
                shutil.copyfile(tree / first / image, tree / other / image)


def terra_folders(annotations: Mapping[str, Any]) -> dict[str, list[str]]:
    """The folders ``location_38/bird`` of each image, by file name.

    Example:
        >>> terra_folders({
        ...     "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "car"}],
        ...     "images": [{"id": "a", "file_name": "a.jpg", "location": "38"},
        ...                {"id": "b", "file_name": "b.jpg", "location": "7"}],
        ...     "annotations": [{"image_id": "a", "category_id": 1},
        ...                     {"image_id": "a", "category_id": 2},
        ...                     {"image_id": "b", "category_id": 1}],
        ... })
        {'a.jpg': ['location_38/cat']}
    """
    try:
        names = {category["id"]: category["name"] for category in annotations["categories"]}
        classes = defaultdict[Any, set[str]](set)
        for annotation in annotations["annotations"]:
            if (name := names[annotation["category_id"]]) in TERRA_CLASSES:
                classes[annotation["image_id"]].add(name)
        return {
            image["file_name"]: [
                f"location_{image['location']}/{name}" for name in sorted(classes[image["id"]])
            ]
            for image in annotations["images"]
            if f"location_{image['location']}" in TERRA_DOMAINS and image["id"] in classes
        }
    except (KeyError, TypeError) as error:
        raise ValueError(f"the annotations have another format: {error!r}") from error


def read_annotations(path: Path) -> Any:
    """The only JSON file in a zip archive."""
    with archive_errors(path), zipfile.ZipFile(path) as packed:
        names = [name for name in packed.namelist() if name.endswith(".json")]
        if len(names) != 1:
            raise ValueError(f"{path} holds {len(names)} JSON files, not one")
        if packed.getinfo(names[0]).file_size > MAX_ANNOTATIONS:
            raise ValueError(f"{path}: {names[0]} has more than {MAX_ANNOTATIONS:,} bytes")
        text = packed.read(names[0])
    try:
        return json.loads(text)
    except ValueError as error:  # neither JSON nor UTF-8
        raise ValueError(f"{path} is damaged: {error}") from error


CONVERTERS: dict[str, Convert] = {
    "unpack": unpack,
    "parquet": unpack_parquet,
    "vlcs": convert_vlcs,
    "terraincognita": convert_terraincognita,
    "domainnet": convert_domainnet,
}
"""Converters by the names that the facts of the benchmarks use."""
