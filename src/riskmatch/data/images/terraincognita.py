"""TerraIncognita, from the Caltech Camera Traps: four locations, ten classes."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from riskmatch.data.images.archives import extract, reading
from riskmatch.data.progress import OnProgress

IMAGES = "eccv_18_all_images_sm.tar.gz"
ANNOTATIONS = "caltech_camera_traps.json.zip"
LOCATIONS = ("100", "38", "43", "46")
CLASSES = (
    "bird",
    "bobcat",
    "cat",
    "coyote",
    "dog",
    "empty",
    "opossum",
    "rabbit",
    "raccoon",
    "squirrel",
)


def prepare(files: Mapping[str, Path], tree: Path, on_progress: OnProgress | None = None) -> None:
    """Write the images of the locations and classes as ``tree/location_38/bird/image``.

    As in DomainBed, an image with animals of two classes is in the folders of both. Of the archive
    of images, only what is needed is unpacked.
    """
    homes = places_of(read_annotations(files[ANNOTATIONS]))

    def first(name: str) -> str | None:
        image = name.rsplit("/", 1)[-1]
        return f"{homes[image][0]}/{image}" if image in homes else None

    extract(files[IMAGES], tree, first, on_progress)
    for image, (home, *others) in homes.items():
        for other in others:
            (tree / other).mkdir(parents=True, exist_ok=True)
            if (tree / home / image).is_file():
                shutil.copyfile(tree / home / image, tree / other / image)


def places_of(annotations: Mapping[str, Any]) -> dict[str, list[str]]:
    """The folders ``location_38/bird`` of each image, by the name of its file.

    Example:
        >>> places_of({
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
        seen = defaultdict[Any, set[str]](set)
        for annotation in annotations["annotations"]:
            if (name := names[annotation["category_id"]]) in CLASSES:
                seen[annotation["image_id"]].add(name)
        return {
            image["file_name"]: [
                f"location_{image['location']}/{name}" for name in sorted(seen[image["id"]])
            ]
            for image in annotations["images"]
            if str(image["location"]) in LOCATIONS and image["id"] in seen
        }
    except (KeyError, TypeError) as error:
        raise ValueError(f"the annotations are of another shape: {error!r}") from error


def read_annotations(path: Path) -> Any:
    """The one JSON file in a zip archive."""
    with reading(path), zipfile.ZipFile(path) as packed:
        names = [name for name in packed.namelist() if name.endswith(".json")]
        if len(names) != 1:
            raise ValueError(f"{path} holds {len(names)} JSON files, not one")
        text = packed.read(names[0])
    try:
        return json.loads(text)
    except ValueError as error:  # no JSON, or no UTF-8
        raise ValueError(f"{path} is damaged: {error}") from error
